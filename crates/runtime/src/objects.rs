//! Single objects on the server, read and written: what kube's `Api` does, with code that is compiled once for all kinds.
//!
//! kube's `Api<Pod>` decodes a Pod wherever it is used, and each crate that uses it compiles that decoder again. Here the request is
//! made and the answer read without knowing the kind; what is decoded goes through the kind's [`Codec`].

use std::marker::PhantomData;
use std::sync::Arc;

use kube::Client;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::core::request::Error as Unbuilt;
use pintle_kinds::{Codec, Kind, Object, text, typed};
use serde::Serialize;
use serde::de::Error as _;

use crate::error::ignore_not_found;

/// The objects of one kind, in one namespace or in all.
pub struct Objects<K> {
    collection: Collection,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Objects { collection: self.collection.clone(), kind: PhantomData }
    }
}

impl<K: Kind<DynamicType = ()>> Objects<K> {
    /// Those of all namespaces, or of a kind that is in none.
    pub fn all(client: Client) -> Self {
        Objects::at(client, K::url_path(&(), None))
    }

    pub fn namespaced(client: Client, namespace: &str) -> Self {
        Objects::at(client, K::url_path(&(), Some(namespace)))
    }

    fn at(client: Client, path: String) -> Self {
        Objects { collection: Collection { client, path, codec: K::CODEC }, kind: PhantomData }
    }

    /// The path of the collection.
    pub fn path(&self) -> &str {
        &self.collection.path
    }

    pub async fn get(&self, name: &str) -> Result<K, kube::Error> {
        let request = self.collection.request().get(name, &GetParams::default());
        self.collection.one(request).await.and_then(taken)
    }

    /// Nothing if it is not there.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>, kube::Error> {
        ignore_not_found(self.get(name).await)
    }

    /// Everything that the parameters select, in one answer: for what is known to be few.
    pub async fn list(&self, params: &ListParams) -> Result<Vec<K>, kube::Error> {
        let objects = self.collection.many(self.collection.request().list(params)).await?;
        objects.into_iter().map(taken).collect()
    }

    pub async fn create(&self, params: &PostParams, object: &K) -> Result<K, kube::Error> {
        let request = self.collection.request().create(params, self.collection.body(object)?);
        self.collection.one(request).await.and_then(taken)
    }

    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> Result<K, kube::Error> {
        let request = self.collection.request().replace(name, params, self.collection.body(object)?);
        self.collection.one(request).await.and_then(taken)
    }

    pub async fn replace_status(&self, name: &str, params: &PostParams, object: &K) -> Result<K, kube::Error> {
        self.replace_subresource("status", name, params, object).await
    }

    pub async fn replace_subresource(
        &self,
        subresource: &str,
        name: &str,
        params: &PostParams,
        object: &K,
    ) -> Result<K, kube::Error> {
        let body = self.collection.body(object)?;
        let request = self.collection.request().replace_subresource(subresource, name, params, body);
        self.collection.one(request).await.and_then(taken)
    }

    pub async fn patch<P: Serialize + std::fmt::Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K, kube::Error> {
        self.collection.one(self.collection.request().patch(name, params, patch)).await.and_then(taken)
    }

    pub async fn patch_status<P: Serialize + std::fmt::Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K, kube::Error> {
        let request = self.collection.request().patch_subresource("status", name, params, patch);
        self.collection.one(request).await.and_then(taken)
    }

    /// Posts to a subresource whose answer says no more than that it went well.
    pub async fn post<B: Kind>(
        &self,
        subresource: &str,
        name: &str,
        params: &PostParams,
        body: &B,
    ) -> Result<(), kube::Error> {
        let body = B::CODEC.encode(body).ok_or_else(unwritable)?;
        let request = self.collection.request().create_subresource(subresource, name, params, body);
        self.collection.text(request).await.map(drop)
    }

    /// The object goes, or is on its way.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<(), kube::Error> {
        self.collection.text(self.collection.request().delete(name, params)).await.map(drop)
    }
}

/// The object for its new owner.
fn taken<K: Kind>(object: Arc<dyn Object>) -> Result<K, kube::Error> {
    let typed: Option<Arc<K>> = typed(&object);
    drop(object);
    typed.map(Arc::unwrap_or_clone).ok_or_else(|| broken("an object of another kind"))
}

/// A collection whose kind is not known here.
#[derive(Clone)]
struct Collection {
    client: Client,
    path: String,
    codec: &'static Codec,
}

impl Collection {
    fn request(&self) -> Request {
        Request::new(&self.path)
    }

    fn body(&self, object: &dyn Object) -> Result<Vec<u8>, kube::Error> {
        self.codec.encode(object).ok_or_else(unwritable)
    }

    async fn one(&self, request: Result<http::Request<Vec<u8>>, Unbuilt>) -> Result<Arc<dyn Object>, kube::Error> {
        let text = self.text(request).await?;
        self.codec.decode(&text).map_err(kube::Error::SerdeError)
    }

    async fn many(
        &self,
        request: Result<http::Request<Vec<u8>>, Unbuilt>,
    ) -> Result<Vec<Arc<dyn Object>>, kube::Error> {
        let list = self.text(request).await?;
        let mut objects = Vec::new();
        let split = text::items(&list, |item| {
            objects.push(self.codec.decode(item));
            true
        });
        split.map_err(|_| broken("the answer is no list"))?;
        objects.into_iter().collect::<Result<_, _>>().map_err(kube::Error::SerdeError)
    }

    async fn text(&self, request: Result<http::Request<Vec<u8>>, Unbuilt>) -> Result<String, kube::Error> {
        self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await
    }
}

fn unwritable() -> kube::Error {
    broken("the object cannot be written as JSON")
}

fn broken(what: &str) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(what))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::testing::scripted;

    fn maps() -> Objects<ConfigMap> {
        let client = scripted(|method, path, body| match (method, path) {
            ("GET", "/api/v1/namespaces/shop/configmaps/a") => (200, json!({"metadata": {"name": "a"}})),
            ("GET", "/api/v1/namespaces/shop/configmaps") => {
                (200, json!({"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}], "metadata": {}}))
            }
            ("POST" | "PUT", _) => (200, body),
            ("DELETE", _) => (200, json!({"kind": "Status", "status": "Success"})),
            _ => (404, json!({"code": 404, "message": "", "reason": "NotFound"})),
        });
        Objects::namespaced(client, "shop")
    }

    #[tokio::test]
    async fn what_is_read_and_written_is_what_the_server_has() {
        let maps = maps();
        assert_eq!(maps.get("a").await.unwrap().metadata.name.as_deref(), Some("a"));
        assert_eq!(maps.get_opt("b").await.unwrap(), None);
        assert_eq!(maps.list(&ListParams::default()).await.unwrap().len(), 2);
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x"}, "data": {"k": "v\n"}})).unwrap();
        assert_eq!(maps.create(&PostParams::default(), &map).await.unwrap(), map);
        assert_eq!(maps.replace("x", &PostParams::default(), &map).await.unwrap(), map);
        maps.delete("x", &DeleteParams::default()).await.unwrap();
    }
}
