//! What handlers and readers of an informer may rely on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::reflector::Reading;
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

fn fed(retention: &Retention<ConfigMap>, cap: Option<usize>) -> Informer<ConfigMap> {
    Informer::new(What::unnamed(ConfigMap::CODEC, "/api/v1/configmaps", Selection::everything()), retention, cap)
}

/// An index.
fn version(map: &ConfigMap) -> Vec<String> {
    map.metadata.labels.iter().flatten().map(|(_, version)| version.clone()).collect()
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
        lines.lock().unwrap().push(format!("{kind} {}", change.key().name()));
    });
    (log, registration)
}

fn lines(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[tokio::test]
async fn a_relist_tells_what_went_and_what_came_back_under_its_name() {
    let informer = Informer::<ConfigMap>::detached();
    let (log, _registration) = logged(&informer);
    informer.take(Delta::replaced(vec![map("a", "1", "u1"), map("b", "2", "u2"), map("c", "3", "u3")]));
    assert!(informer.is_synced());
    assert_eq!(lines(&log), ["added a", "added b", "added c"]);
    informer.take(Delta::replaced(vec![map("b", "2", "u2"), map("c", "9", "u9")]));
    assert_eq!(lines(&log), ["deleted a", "deleted c", "added c"], "b is the same, c is another object");
}

#[tokio::test]
async fn a_late_joiner_gets_snapshot_and_tail_and_a_leaver_nothing() {
    let informer = Informer::<ConfigMap>::detached();
    informer.take(Delta::replaced(vec![map("a", "1", "u1")]));
    let (log, registration) = logged(&informer);
    informer.take(Delta::applied(map("a", "2", "u1")));
    informer.take(Delta::deleted(map("a", "3", "u1")));
    assert_eq!(lines(&log), ["added a", "updated a", "deleted a"]);
    drop(registration);
    informer.take(Delta::applied(map("b", "4", "u2")));
    assert!(lines(&log).is_empty());
}

#[tokio::test]
async fn indexes_of_two_loops_are_not_taken_for_one_another() {
    fn other(map: &ConfigMap) -> Vec<String> {
        map.metadata.uid.iter().cloned().collect()
    }
    let informer = Informer::<ConfigMap>::detached();
    informer.index(version);
    informer.take(Delta::replaced(vec![map("a", "1", "u1"), map("b", "2", "1")]));
    let names = |index: IndexBy<ConfigMap>| {
        informer.by(index, "1").iter().map(|map| Key::of(map.as_ref()).name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((names(version), names(other)), (vec!["a".to_owned()], vec!["b".to_owned()]));
}

#[tokio::test]
async fn an_index_follows_its_objects() {
    let informer = Informer::<ConfigMap>::detached();
    informer.take(Delta::replaced(vec![map("a", "1", "u1"), map("b", "1", "u2")]));
    let names = |value: &str| -> Vec<String> {
        informer.by(version, value).iter().map(|map| Key::of(map.as_ref()).name().to_owned()).collect()
    };
    assert_eq!(names("1"), ["a", "b"]);
    informer.take(Delta::applied(map("a", "2", "u1")));
    assert_eq!((names("1"), names("2")), (vec!["b".to_owned()], vec!["a".to_owned()]));
    informer.take(Delta::deleted(map("b", "3", "u2")));
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
async fn a_loop_with_rights_in_one_namespace_asks_for_nothing_outside() {
    let asked: Log = Arc::default();
    let noted = asked.clone();
    let client = scripted(move |_, path, _| {
        noted.lock().unwrap().push(path.split('?').next().unwrap_or_default().to_owned());
        (200, json!({"items": [], "metadata": {"resourceVersion": "1"}}))
    });
    let (_trigger, shutdown) = Shutdown::new();
    let clock = pintle_meta::Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    let context = crate::Context::new(client, clock, Random::seeded(1), shutdown).in_namespace("shop");
    context.informers.of::<ConfigMap>().synced().await;
    context.informers.of::<k8s_openapi::api::core::v1::Node>().synced().await;
    let mut asked = lines(&asked);
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked, ["/api/v1/namespaces/shop/configmaps", "/api/v1/nodes"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_comes_as_a_watch_is_whole_and_goes_on_with_changes() {
    let requests: Log = Arc::default();
    let asked = requests.clone();
    let client = scripted(move |_, path, _| {
        asked.lock().unwrap().push(path.to_owned());
        let event = |kind: &str, map: ConfigMap| json!({"type": kind, "object": serde_json::to_value(map).unwrap()});
        let end = json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {
            "resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}}});
        match asked.lock().unwrap().len() {
            // Cut off before its end: it does not count.
            1 => (200, json!([event("ADDED", map("a", "1", "u1")), event("ADDED", map("x", "1", "u9"))])),
            2 => {
                let (first, second) = (event("ADDED", map("a", "1", "u1")), event("ADDED", map("b", "2", "u2")));
                (200, json!([first, second, end, event("DELETED", map("a", "6", "u1"))]))
            }
            _ => (200, json!([])),
        }
    });
    let (_trigger, shutdown) = Shutdown::new();
    let informer = Informers::new(client, Random::seeded(1), shutdown).with_streaming_lists().of::<ConfigMap>();
    let (log, _registration) = logged(&informer);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((informer.is_synced(), informer.version()), (true, 6));
    assert_eq!(lines(&log).last().map(String::as_str), Some("deleted a"));
    assert_eq!(informer.all().iter().map(|map| Key::of(map.as_ref()).name().to_owned()).collect::<Vec<_>>(), ["b"]);
    let asked = lines(&requests);
    assert!(asked[0].contains("sendInitialEvents=true"), "{asked:?}");
    assert!(asked[2].contains("resourceVersion=6") && !asked[2].contains("sendInitialEvents"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_streams_no_lists_is_listed_in_pages() {
    let client = scripted(|_, path, _| match (path.contains("sendInitialEvents"), path.contains("watch=true")) {
        (true, _) => (
            422,
            json!({"kind": "Status", "status": "Failure", "code": 422, "message": "forbidden", "reason": "Invalid"}),
        ),
        (false, true) => (200, json!([])),
        (false, false) => {
            let item = serde_json::to_value(map("a", "1", "u1")).unwrap();
            (200, json!({"items": [item], "metadata": {"resourceVersion": "1"}}))
        }
    });
    let (_trigger, shutdown) = Shutdown::new();
    let informer = Informers::new(client, Random::seeded(1), shutdown).with_streaming_lists().of::<ConfigMap>();
    informer.synced().await;
    assert_eq!(informer.len(), 1);
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

fn managed(name: &str, version: &str, writers: &[(&str, &str)]) -> ConfigMap {
    let entries: Vec<Value> = writers
        .iter()
        .map(|(manager, time)| json!({"manager": manager, "time": time, "fieldsV1": {"f:data": {}}}))
        .collect();
    let mut map = map(name, version, "u1");
    map.metadata.managed_fields = serde_json::from_value(Value::Array(entries)).unwrap();
    map.metadata.annotations =
        Some([("kubectl.kubernetes.io/last-applied-configuration".to_owned(), "{}".to_owned())].into());
    map
}

fn kept(retention: &Retention<ConfigMap>) -> ConfigMap {
    let informer = fed(retention, None);
    let text = serde_json::to_string(&managed("a", "1", &[("kubectl", "2026-11-16T04:05:29Z")])).unwrap();
    let reading = Reading { codec: ConfigMap::CODEC, drops_fields: retention.drops_fields };
    informer.take(Delta::Applied(reading.read(&text).unwrap()));
    informer.all()[0].as_ref().clone()
}

#[tokio::test]
async fn what_a_loop_writes_back_loses_nothing_that_the_server_would_miss() {
    let default = kept(&Retention::default());
    assert_eq!(default.metadata.managed_fields, None, "absent, for an empty list turns tracking off");
    assert!(default.metadata.annotations.is_some(), "a PUT without last-applied would break kubectl apply");
    for decoded in [0, usize::MAX] {
        let everything = kept(&Retention::everything().decoded_up_to(decoded));
        assert_eq!(everything, managed("a", "1", &[("kubectl", "2026-11-16T04:05:29Z")]));
        let own = kept(
            &Retention::projected("names", |map: &mut ConfigMap| map.metadata.labels = None).decoded_up_to(decoded),
        );
        assert_eq!((own.metadata.labels, own.metadata.name), (None, Some("a".to_owned())));
    }
}

/// How many of so many maps a list leaves decoded, and how many a change of each of the first ten then.
fn decoded_of(listed: usize, told: usize) -> (usize, usize) {
    let one = {
        let informer = Informer::<ConfigMap>::detached();
        informer.take(Delta::applied(map("a-000", "1", "u1")));
        informer.bytes()
    };
    let retention = Retention::default().decoded_up_to(20 * one);
    let informer = fed(&retention, None);
    let maps = |count: usize, version: &str| -> Vec<ConfigMap> {
        (0..count).map(|number| map(&format!("a-{number:03}"), version, "u1")).collect()
    };
    let decoded = |informer: &Informer<ConfigMap>| informer.mirror().read(Store::decoded);
    informer.take(Delta::Listing(told));
    informer.take(Delta::page(maps(listed, "1")));
    informer.take(Delta::Listed("1".to_owned()));
    let after_list = decoded(&informer);
    maps(10, "2").into_iter().for_each(|map| informer.take(Delta::applied(map)));
    (after_list, decoded(&informer))
}

#[tokio::test]
async fn the_room_for_decoded_objects_is_not_spent_on_those_whose_names_come_first() {
    assert_eq!(decoded_of(15, 15), (15, 15), "all fit");
    assert_eq!(decoded_of(60, 60), (20, 20), "a third of them fit");
    assert_eq!(decoded_of(100, 100), (0, 10), "few would fit: the room is for what changes");
    assert_eq!(decoded_of(100, 0), (20, 20), "nobody said how many there are");
    assert_eq!(decoded_of(15, 100), (0, 10), "fewer came than were told of");
}

#[tokio::test]
async fn a_handler_learns_who_wrote_last() {
    let informer = Informer::<ConfigMap>::detached();
    let log: Log = Arc::default();
    let lines_of = log.clone();
    let _registration = informer.mirror().on_event(Box::new(move |event| {
        lines_of.lock().unwrap().push(event.writer.map_or_else(|| "nobody".to_owned(), |writer| writer.to_string()));
    }));
    let (early, late) = ("2026-11-16T04:05:29Z", "2026-11-16T04:05:30Z");
    informer.take(Delta::applied(managed("a", "1", &[("kubectl", late), ("scheduler", early)])));
    informer.take(Delta::applied(managed("a", "2", &[("kubectl", late), ("kubelet", late)])));
    informer.take(Delta::applied(map("a", "3", "u1")));
    informer.take(Delta::deleted(managed("a", "4", &[("garbage", late)])));
    assert_eq!(lines(&log), ["kubectl", "kubelet", "nobody", "garbage"], "of two in one second, the last in the list");
}

/// The same steps, with everything decoded, everything packed, and half of it.
#[tokio::test]
async fn packed_or_not_handlers_and_readers_see_the_same() {
    let told = |decoded: usize| {
        let informer = fed(&Retention::default().decoded_up_to(decoded), None);
        informer.index(version);
        let log: Log = Arc::default();
        let lines_of = log.clone();
        let _registration = informer.on_change(move |change: &Change<ConfigMap>| {
            lines_of.lock().unwrap().push(format!("{:?}", (change.old(), change.object())));
        });
        informer.take(Delta::Listing(0));
        informer.take(Delta::page((0..40).map(|n| map(&format!("m{n}"), "5", &format!("u{n}"))).collect()));
        informer.take(Delta::Listed("7".into()));
        informer.take(Delta::applied(map("m3", "8", "u3")));
        informer.take(Delta::applied(map("m4", "9", "other")));
        informer.take(Delta::deleted(map("m5", "10", "u5")));
        informer.take(Delta::replaced((10..50).map(|n| map(&format!("m{n}"), "5", &format!("u{n}"))).collect()));
        let read = (informer.all(), informer.in_namespace("shop"), informer.by(version, "5"), informer.len());
        (lines(&log), format!("{read:?}"), informer.get(&Key::new("shop", "m12")))
    };
    let decoded = told(usize::MAX);
    assert_eq!(decoded.0.len(), 40 + 1 + 2 + 1 + 9 + 10);
    assert_eq!(told(0), decoded);
    assert_eq!(told(20_000), decoded);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_and_a_resync_of_many_objects_leave_none_out() {
    for count in [255, 256, 257, 600] {
        let informer = Informer::<ConfigMap>::detached();
        informer.take(Delta::replaced((0..count).map(|n| map(&format!("m{n}"), "1", &format!("u{n}"))).collect()));
        let (log, _registration) = logged(&informer);
        assert_eq!(lines(&log).len(), count);
        informer.mirror().resync().await;
        assert_eq!(lines(&log).iter().filter(|line| line.starts_with("resync")).count(), count);
    }
}

#[tokio::test]
async fn a_list_in_pages_shows_what_is_gone_also_after_a_list_that_broke_off() {
    let informer = Informer::<ConfigMap>::detached();
    let (log, _registration) = logged(&informer);
    informer.take(Delta::replaced(vec![map("a", "1", "u1"), map("z", "1", "u9")]));
    lines(&log);
    informer.take(Delta::Listing(0));
    informer.take(Delta::page(vec![map("a", "1", "u1"), map("b", "2", "u2")]));
    assert!(informer.get(&Key::new("shop", "z")).is_some(), "the list is not over");
    informer.take(Delta::Listing(0));
    informer.take(Delta::page(vec![map("b", "2", "u2")]));
    informer.take(Delta::page(vec![map("c", "3", "u3")]));
    informer.take(Delta::Listed("20".into()));
    assert_eq!(lines(&log), ["added b", "added c", "deleted a", "deleted z"]);
    assert_eq!(informer.version(), 20);
}

#[tokio::test]
async fn whoever_waits_for_a_version_wakes_when_it_is_in_and_in_order() {
    let informer = Informer::<ConfigMap>::detached();
    let log: Log = Arc::default();
    let waiters: Vec<_> = [9, 5, 3, 5]
        .into_iter()
        .enumerate()
        .map(|(at, version)| {
            let (informer, log) = (informer.clone(), log.clone());
            tokio::spawn(async move {
                informer.reached(version).await;
                log.lock().unwrap().push(format!("{at} waited for {version}"));
            })
        })
        .collect();
    let turn = || async {
        for _ in 0..10 {
            tokio::task::yield_now().await
        }
    };
    turn().await;
    informer.take(Delta::applied(map("a", "4", "u1")));
    turn().await;
    assert_eq!(lines(&log), ["2 waited for 3"]);
    informer.take(Delta::Bookmark("8".into()));
    turn().await;
    assert_eq!(lines(&log), ["1 waited for 5", "3 waited for 5"], "a bookmark counts");
    informer.take(Delta::applied(map("a", "no number", "u1")));
    assert_eq!(informer.version(), 8);
    informer.take(Delta::deleted(map("a", "9", "u1")));
    for waiter in waiters {
        waiter.await.unwrap();
    }
    informer.reached(9).await;
}

#[tokio::test]
async fn over_its_cap_an_informer_keeps_everything_and_says_so() {
    let informer = fed(&Retention::default(), Some(400_000));
    let many = |count| (0..count).map(|n| map(&format!("m{n}"), &format!("{}", n + 1), &format!("u{n}"))).collect();
    informer.take(Delta::replaced(many(200)));
    let decoded = informer.bytes();
    assert!(informer.health().is_ok() && (150_000..400_000).contains(&decoded), "{decoded}");
    informer.take(Delta::replaced(many(400)));
    assert!(informer.health().is_ok() && informer.bytes() < decoded, "packing was enough: {}", informer.bytes());
    informer.take(Delta::replaced(many(4000)));
    let trouble = informer.health().unwrap_err();
    assert!(trouble.contains("/api/v1/configmaps") && trouble.contains("metadata only"), "{trouble}");
    assert_eq!((informer.len(), informer.all().len()), (4000, 4000), "nothing is dropped");
    informer.take(Delta::replaced(many(1)));
    assert_eq!(informer.health(), Ok(()), "healthy again once there is less");
}

/// Joins in the middle of changes that come from another thread: snapshot and tail must make the whole, each once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_joins_during_changes_misses_nothing_and_hears_nothing_twice() {
    for packed in [false, true] {
        let decoded = if packed { 0 } else { usize::MAX };
        let informer = fed(&Retention::default().decoded_up_to(decoded), None);
        let source = informer.clone();
        let feeding = tokio::task::spawn_blocking(move || {
            for n in 0..400 {
                source.take(Delta::applied(map(&format!("m{n}"), &format!("{}", n + 1), &format!("u{n}"))));
            }
        });
        let mut joined = Vec::new();
        while !feeding.is_finished() && joined.len() < 50 {
            joined.push(logged(&informer));
            tokio::task::yield_now().await;
        }
        feeding.await.unwrap();
        joined.push(logged(&informer));
        for (log, _registration) in &joined {
            let mut seen = lines(log);
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((count, seen.len()), (400, 400));
        }
    }
}

/// Data that is no map: a ConfigMap that cannot be decoded.
fn poisoned(name: &str, version: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "resourceVersion": version, "uid": "p"}, "data": 7})
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_decoded_stops_no_other_and_is_known_by_its_name() {
    let object = |map: ConfigMap| serde_json::to_value(map).unwrap();
    let list = move |items: Vec<Value>, version: &str| json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": items, "metadata": {"resourceVersion": version}});
    let versions: Log = Arc::default();
    let (asked, step) = (versions.clone(), Mutex::new(0));
    let client = scripted(move |_, path, _| {
        let version = path.split(['&', '?']).find_map(|pair| pair.strip_prefix("resourceVersion="));
        asked.lock().unwrap().extend(version.map(str::to_owned));
        let mut step = step.lock().unwrap();
        *step += 1;
        let event = |kind: &str, object: Value| json!({"type": kind, "object": object});
        match *step {
            1 => (200, list(vec![object(map("a", "1", "u1")), poisoned("b", "2"), object(map("c", "3", "u3"))], "3")),
            // A moment in which nothing is told.
            2 | 6 => (500, json!({"code": 500, "message": "", "reason": ""})),
            3 => (
                200,
                json!([
                    event("ADDED", object(map("d", "4", "u4"))),
                    event("MODIFIED", poisoned("a", "5")),
                    event("ADDED", object(map("e", "6", "u6"))),
                    event("MODIFIED", poisoned("b", "7")),
                ]),
            ),
            4 => (200, json!([{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}])),
            // After a compaction, with both of them still there.
            5 => (200, list(vec![poisoned("a", "5"), poisoned("b", "7"), object(map("e", "6", "u6"))], "9")),
            7 => (200, json!([event("MODIFIED", object(map("b", "10", "p"))), event("DELETED", poisoned("a", "11"))])),
            _ => (500, json!({"code": 500, "message": "", "reason": ""})),
        }
    });
    let (_trigger, shutdown) = Shutdown::new();
    let informers = Informers::new(client, Random::seeded(1), shutdown);
    let informer = informers.of::<ConfigMap>();
    let (log, _registration) = logged(&informer);
    informer.reached(3).await;
    assert_eq!(informer.unreadable()[0].0, Key::new("shop", "b"));
    assert!(informer.unreadable()[0].1.contains("expected a map"), "{:?}", informer.unreadable());
    informer.reached(9).await;
    let both: Vec<Key> = informer.unreadable().into_iter().map(|(key, _)| key).collect();
    assert_eq!(both, [Key::new("shop", "a"), Key::new("shop", "b")]);
    let last_readable = informer.get(&Key::new("shop", "a")).unwrap();
    assert_eq!(last_readable.metadata.resource_version.as_deref(), Some("1"), "it is not taken for deleted");
    assert_eq!(informers.views()[0].unreadable, 2);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(informer.unreadable().is_empty(), "one was mended, one deleted");
    let expected = ["added a", "added c", "added d", "added e", "deleted c", "deleted d", "added b", "deleted a"];
    assert_eq!(lines(&log), expected);
    assert_eq!(versions.lock().unwrap().first().map(String::as_str), Some("3"));
    assert!(versions.lock().unwrap().contains(&"7".to_owned()), "the watch went on after them: {versions:?}");
}
