//! One loop, two clusters: it watches both and writes to the other.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use pintle_runtime::{Action, Attempt, Controller, Error, Informer, Key, Reconciler, error};
use pintle_testkit::Cluster;
use serde_json::json;

/// What stands here under `default` stands there too, word for word.
struct Mirror {
    here: Informer<ConfigMap>,
    there: Informer<ConfigMap>,
    far: Client,
}

impl Reconciler for Mirror {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let copies: Api<ConfigMap> = Api::namespaced(self.far.clone(), key.namespace());
        match (self.here.get(key), self.there.get(key)) {
            (Some(original), copy) if copy.as_ref().is_none_or(|copy| copy.data != original.data) => {
                let metadata = ObjectMeta { name: Some(key.name().to_owned()), ..ObjectMeta::default() };
                let copy = ConfigMap { metadata, data: original.data.clone(), ..ConfigMap::default() };
                copies.patch(key.name(), &PatchParams::apply("mirror").force(), &Patch::Apply(&copy)).await?;
            }
            (None, Some(_)) => {
                error::ignore_not_found(copies.delete(key.name(), &DeleteParams::default()).await)?;
            }
            _ => {}
        }
        Ok(Action::done())
    }
}

async fn text(cluster: &Cluster) -> Option<String> {
    let found = cluster.api::<ConfigMap>("default").get_opt("letter").await.expect("an answer");
    found.and_then(|map| map.data.unwrap_or_default().remove("text"))
}

async fn settle(here: &Cluster, there: &Cluster) {
    for _ in 0..3 {
        here.settle().await;
        there.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_in_one_cluster_is_mended_in_the_other() {
    let (here, there) = (Cluster::bare().await, Cluster::bare().await);
    let far = there.client();
    here.run("mirror", move |context| {
        let far = context.in_cluster(far.clone());
        let keys = |change: &pintle_runtime::Change<ConfigMap>| vec![change.key()];
        let (mine, theirs) = (context.informers.of::<ConfigMap>(), far.informers.of::<ConfigMap>());
        async move {
            let mirror = Mirror { here: mine.clone(), there: theirs.clone(), far: far.client };
            Controller::new("mirror", &context).watch(&mine, keys).watch(&theirs, keys).run(mirror).await;
        }
    });
    let write = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "letter", "namespace": "default"},
            "data": BTreeMap::from([("text", text)])})
    };
    here.apply(write("dear")).await;
    settle(&here, &there).await;
    assert_eq!(text(&there).await.as_deref(), Some("dear"));
    there.apply(write("forged")).await;
    settle(&here, &there).await;
    assert_eq!(text(&there).await.as_deref(), Some("dear"), "the change over there woke the loop");
    here.api::<ConfigMap>("default").delete("letter", &DeleteParams::default()).await.expect("it goes");
    settle(&here, &there).await;
    assert_eq!(text(&there).await, None);
}
