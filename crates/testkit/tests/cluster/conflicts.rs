//! Optimistic concurrency: a stale write is refused, a retry succeeds, nothing is lost in between.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use pintle_testkit::Cluster;
use std::sync::Arc;

fn config(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..Default::default() }, ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn of_two_writers_with_the_same_version_one_is_told_to_try_again_and_succeeds() {
    let cluster = Cluster::bare().await;
    let api = cluster.api::<ConfigMap>("default");
    let first = api.create(&PostParams::default(), &config("shared")).await.unwrap();
    let write = |value: &str, base: &ConfigMap| {
        let mut changed = base.clone();
        changed.data = Some([("winner".to_owned(), value.to_owned())].into());
        changed
    };
    api.replace("shared", &PostParams::default(), &write("a", &first)).await.unwrap();
    let refused = api.replace("shared", &PostParams::default(), &write("b", &first)).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on configmaps \"shared\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let fresh = api.get("shared").await.unwrap();
    api.replace("shared", &PostParams::default(), &write("b", &fresh)).await.unwrap();
    assert_eq!(api.get("shared").await.unwrap().data.unwrap()["winner"], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_tasks_that_increment_one_annotation_lose_no_increment() {
    const TASKS: usize = 100;
    let cluster = Arc::new(Cluster::bare().await);
    cluster.api::<ConfigMap>("default").create(&PostParams::default(), &config("counter")).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let api = cluster.api::<ConfigMap>("default");
        tasks.push(tokio::spawn(async move {
            pintle_runtime::write::retry_on_conflict(|| async {
                let mut counter = api.get("counter").await?;
                let annotations = counter.metadata.annotations.get_or_insert_default();
                let count: usize = annotations.get("count").and_then(|c| c.parse().ok()).unwrap_or(0);
                annotations.insert("count".into(), (count + 1).to_string());
                api.replace("counter", &PostParams::default(), &counter).await
            })
            .await
        }));
    }
    let mut written = 0;
    for task in tasks {
        written += usize::from(task.await.unwrap().is_ok());
    }
    let counter = cluster.api::<ConfigMap>("default").get("counter").await.unwrap();
    assert_eq!(counter.metadata.annotations.unwrap()["count"], written.to_string());
    assert!(written > 0);
}
