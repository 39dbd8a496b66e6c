//! What handlers and readers of an informer may rely on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::testing::scripted;

fn map(name: &str, version: &str, uid: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        namespace: Some("shop".into()),
        name: Some(name.into()),
        resource_version: Some(version.into()),
        uid: Some(uid.into()),
        labels: Some([("v".to_owned(), version.to_owned())].into()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

type Log = Arc<Mutex<Vec<String>>>;

fn logged(informer: &Informer<ConfigMap>) -> (Log, Registration) {
    let log: Log = Arc::default();
    let lines = log.clone();
    let registration = informer.on_change(move |change| {
        let kind = match change {
            Change::Added(_) => "added",
            Change::Updated { .. } => "updated",
            Change::Deleted(_) => "deleted",
            Change::Resync(_) => "resync",
        };
        lines.lock().unwrap().push(format!("{kind} {}", change.key().name));
    });
    (log, registration)
}

fn lines(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[tokio::test]
async fn a_relist_tells_what_went_and_what_came_back_under_its_name() {
    let informer = Informer::detached();
    let (log, _registration) = logged(&informer);
    informer.take(Delta::Replaced(vec![map("a", "1", "u1"), map("b", "2", "u2"), map("c", "3", "u3")]));
    assert!(informer.is_synced());
    assert_eq!(lines(&log), ["added a", "added b", "added c"]);
    informer.take(Delta::Replaced(vec![map("b", "2", "u2"), map("c", "9", "u9")]));
    assert_eq!(lines(&log), ["deleted a", "deleted c", "added c"], "b is the same, c is another object");
}

#[tokio::test]
async fn a_late_joiner_gets_snapshot_and_tail_and_a_leaver_nothing() {
    let informer = Informer::detached();
    informer.take(Delta::Replaced(vec![map("a", "1", "u1")]));
    let (log, registration) = logged(&informer);
    informer.take(Delta::Applied(map("a", "2", "u1")));
    informer.take(Delta::Deleted(map("a", "3", "u1")));
    assert_eq!(lines(&log), ["added a", "updated a", "deleted a"]);
    drop(registration);
    informer.take(Delta::Applied(map("b", "4", "u2")));
    assert!(lines(&log).is_empty());
}

#[tokio::test]
async fn an_index_follows_its_objects() {
    let informer = Informer::detached();
    informer.take(Delta::Replaced(vec![map("a", "1", "u1"), map("b", "1", "u2")]));
    informer
        .add_index("version", |map: &ConfigMap| map.metadata.labels.iter().flatten().map(|(_, v)| v.clone()).collect());
    let names = |value: &str| -> Vec<String> {
        informer.by_index("version", value).iter().map(|map| Key::of(map.as_ref()).name).collect()
    };
    assert_eq!(names("1"), ["a", "b"]);
    informer.take(Delta::Applied(map("a", "2", "u1")));
    assert_eq!((names("1"), names("2")), (vec!["b".to_owned()], vec!["a".to_owned()]));
    informer.take(Delta::Deleted(map("b", "3", "u2")));
    assert!(names("1").is_empty());
}

/// Answers like a server that has `a`, tells of `b`, hangs up, is resumed, has compacted, and is listed again.
fn server(log: Log) -> kube::Client {
    let step = Mutex::new(0);
    let failure = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "", "reason": "InternalError"});
    scripted(move |_, path, _| {
        log.lock().unwrap().push(path.to_owned());
        let object = |map: ConfigMap| serde_json::to_value(map).unwrap();
        let list = |items: Vec<Value>, version: &str, next: &str| {
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": items,
                   "metadata": {"resourceVersion": version, "continue": next}})
        };
        let mut step = step.lock().unwrap();
        *step += 1;
        match *step {
            1 => (200, list(vec![object(map("a", "1", "u1"))], "5", "more")),
            2 => (200, list(vec![object(map("b", "2", "u2"))], "5", "")),
            3 => (
                200,
                json!([
                    {"type": "ADDED", "object": object(map("c", "6", "u3"))},
                    {"type": "BOOKMARK", "object": {
                        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "8"},
                    }},
                ]),
            ),
            4 => (200, json!([{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}])),
            5 => (500, failure.clone()),
            6 => (200, list(vec![object(map("c", "6", "u3"))], "9", "")),
            _ => (500, failure.clone()),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn an_informer_survives_hangups_compaction_and_errors() {
    let requests: Log = Arc::default();
    let (_trigger, shutdown) = Shutdown::new();
    let informers = Informers::new(server(requests.clone()), Random::seeded(1), shutdown);
    let informer = informers.of::<ConfigMap>();
    let (log, _registration) = logged(&informer);
    informer.synced().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(lines(&log), ["added a", "added b", "added c", "deleted a", "deleted b"]);
    let asked = lines(&requests);
    assert!(asked[1].contains("continue=more"), "{asked:?}");
    assert!(asked[2].contains("watch=true") && asked[2].contains("resourceVersion=5"), "{asked:?}");
    assert!(asked[3].contains("resourceVersion=8"), "the bookmark is where it resumes: {asked:?}");
    assert!(!asked[4].contains("watch=true"), "listed again after 410: {asked:?}");
    assert_eq!(informers.of::<ConfigMap>().len(), 1, "the second user shares the first one's watch");
}

#[tokio::test(start_paused = true)]
async fn a_missed_change_is_caught_by_the_resync() {
    let client = scripted(|_, path, _| {
        let item = serde_json::to_value(map("a", "1", "u1")).unwrap();
        match path.contains("watch=true") {
            true => (500, json!({"code": 500, "message": "", "reason": ""})),
            false => (
                200,
                json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [item],
                       "metadata": {"resourceVersion": "1"}}),
            ),
        }
    });
    let (_trigger, shutdown) = Shutdown::new();
    let informers = Informers::new(client, Random::seeded(1), shutdown).with_resync(Duration::from_secs(60));
    let (log, _registration) = logged(&informers.of::<ConfigMap>());
    tokio::time::sleep(Duration::from_secs(130)).await;
    assert_eq!(lines(&log), ["added a", "resync a", "resync a"]);
}
