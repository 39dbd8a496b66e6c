//! Writes that loops make again and again: finalizers, and changes that must survive a conflict.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::error::ApiError;

/// How often a conflicting change is tried.
const ATTEMPTS: u32 = 5;

/// What lies between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a read-change-write until no one else has written in between, five times at most.
pub async fn retry_on_conflict<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if error.is_conflict() => tokio::time::sleep(PAUSE).await,
            other => return other,
        }
    }
    attempt().await
}

/// Reads an object, changes it and writes it back, again and again while others write in between.
pub async fn update<K>(api: &Api<K>, name: &str, mut change: impl FnMut(&mut K)) -> Result<K, kube::Error>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let mut attempt = async || {
        let mut object = api.get(name).await?;
        change(&mut object);
        api.replace(name, &PostParams::default(), &object).await
    };
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if error.is_conflict() => tokio::time::sleep(PAUSE).await,
            other => return other,
        }
    }
    attempt().await
}

pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|present| present == finalizer)
}

/// Puts a finalizer on an object; a conflict means that the object has changed and must be looked at again.
///
/// [`Finalizer`](crate::Finalizer) is the same with the rest of what a finalizer needs.
pub async fn add_finalizer<K>(api: &Api<K>, meta: &ObjectMeta, finalizer: &str) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    if has_finalizer(meta, finalizer) {
        return Ok(());
    }
    put_finalizer(api, meta, finalizer).await.map(drop)
}

/// Puts a finalizer on an object that does not have it, and returns the object as it is then.
pub(crate) async fn put_finalizer<K>(api: &Api<K>, meta: &ObjectMeta, finalizer: &str) -> Result<K, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    write_finalizers(api, meta, finalizers).await
}

/// Takes a finalizer off an object, which may then go.
pub async fn remove_finalizer<K>(api: &Api<K>, meta: &ObjectMeta, finalizer: &str) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    if !has_finalizer(meta, finalizer) {
        return Ok(());
    }
    let rest = meta.finalizers.iter().flatten().filter(|present| *present != finalizer).cloned().collect();
    write_finalizers(api, meta, rest).await.map(drop)
}

async fn write_finalizers<K>(api: &Api<K>, meta: &ObjectMeta, finalizers: Vec<String>) -> Result<K, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    // The version makes it a compare-and-set: finalizers that others added in between are not lost.
    let patch = json!({"metadata": {
        "resourceVersion": meta.resource_version,
        "uid": meta.uid,
        "finalizers": finalizers,
    }});
    api.patch(meta.name.as_deref().unwrap_or_default(), &PatchParams::default(), &Patch::Merge(patch)).await
}
