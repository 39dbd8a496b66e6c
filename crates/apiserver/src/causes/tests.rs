//! Walks over small histories, and what noting a write costs.

use super::record::{Effect, Fields, Record};
use super::walk::{Chain, Wanted, walk};
use super::*;

/// `(revision, agent, kind/name#uid[/subresource], effect, causes as kind/name#uid@revision)`
type Line<'a> = (u64, &'a str, &'a str, Effect, &'a [&'a str]);

fn history(lines: &[Line<'_>]) -> Vec<Arc<Record>> {
    lines.iter().map(|line| Arc::new(record(line))).collect()
}

fn object(text: &str) -> (&str, &str, &str) {
    let (kind, rest) = text.split_once('/').unwrap();
    let (name, uid) = rest.split_once('#').unwrap();
    (kind, name, uid)
}

fn record(&(revision, agent, written, effect, causes): &Line<'_>) -> Record {
    let (kind, name, uid) = object(written);
    let (uid, subresource) = uid.split_once('/').unwrap_or((uid, ""));
    let because: Vec<Value> = causes
        .iter()
        .map(|cause| {
            let (object_part, seen) = cause.split_once('@').unwrap();
            let (kind, name, uid) = object(object_part);
            serde_json::json!({"event": "updated", "kind": kind, "name": name, "uid": uid, "revision": seen})
        })
        .collect();
    let cause = serde_json::json!({"loop": agent, "because": because}).to_string();
    let cause = if causes.is_empty() { "" } else { cause.as_str() };
    let fields = Fields { kind, name, uid, subresource, agent, cause, ..Fields::default() };
    Record::new(revision, Timestamp::from_second(revision as i64).unwrap(), "update", effect, &fields)
}

fn why(records: &[Arc<Record>], kind: &str, name: &str) -> Chain {
    walk(records, &Wanted { kind: kind.into(), name: name.into(), ..Wanted::default() })
}

fn seen(chain: &Chain) -> Vec<(u64, u32, u32)> {
    chain.steps.iter().map(|step| (step.record.revision, step.depth, step.folded)).collect()
}

use Effect::{Created, Deleted, Updated};

const ROLLOUT: &[Line<'_>] = &[
    (5, "kubectl", "Deployment/web#d", Created, &[]),
    (6, "deployment", "ReplicaSet/web-1#r", Created, &["Deployment/web#d@5"]),
    (7, "replicaset", "Pod/x#p", Created, &["ReplicaSet/web-1#r@6"]),
    (8, "replicaset", "ReplicaSet/web-1#r/status", Updated, &["Pod/x#p@7"]),
    (9, "scheduler", "Pod/x#p/binding", Updated, &["Pod/x#p@7"]),
    (10, "kubelet", "Pod/x#p/status", Updated, &["Pod/x#p@9"]),
    (11, "kubelet", "Pod/x#p/status", Updated, &["Pod/x#p@10"]),
    (12, "kubelet", "Pod/x#p/status", Updated, &["Pod/x#p@11"]),
    (13, "kubectl", "ConfigMap/other#c", Created, &[]),
];

#[test]
fn a_pod_is_traced_back_to_the_person_who_made_the_deployment() {
    let records = history(ROLLOUT);
    assert_eq!(seen(&why(&records, "pod", "x")), [(5, 2, 0), (6, 1, 0), (7, 0, 0), (9, 0, 0), (10, 0, 2)]);
    assert_eq!(seen(&why(&records, "Deployment", "web")), [(5, 0, 0)]);
    assert_eq!(seen(&why(&records, "ConfigMap", "other")), [(13, 0, 0)]);
    assert_eq!(seen(&why(&records, "Pod", "nobody")), []);
}

#[test]
fn a_change_much_later_names_the_change_and_where_its_object_came_from() {
    let mut lines = ROLLOUT.to_vec();
    lines.push((20, "kubectl", "Deployment/web#d", Updated, &[]));
    lines.push((21, "deployment", "ReplicaSet/web-1#r", Updated, &["Deployment/web#d@20"]));
    // The loop saw 25, which nobody kept: events were merged.
    lines.push((30, "replicaset", "Pod/y#q", Created, &["ReplicaSet/web-1#r@25"]));
    let chain = why(&history(&lines), "Pod", "y");
    assert_eq!(seen(&chain), [(5, 2, 0), (6, 1, 0), (20, 2, 0), (21, 1, 0), (30, 0, 0)]);
}

#[test]
fn a_name_means_the_newest_object_that_had_it() {
    let records = history(&[
        (1, "old", "Pod/x#one", Created, &[]),
        (2, "old", "Pod/x#one", Deleted, &[]),
        (3, "new", "Pod/x#two", Created, &["Pod/x#one@2"]),
    ]);
    assert_eq!(seen(&why(&records, "Pod", "x")), [(1, 1, 0), (2, 1, 0), (3, 0, 0)]);
    let first = walk(&records, &Wanted { uid: "one".into(), ..Wanted::default() });
    assert_eq!(seen(&first), [(1, 0, 0), (2, 0, 0)]);
}

#[test]
fn two_loops_that_wake_each_other_end_the_walk() {
    let names: Vec<(String, String)> = (1..400_u64)
        .map(|i| {
            let (own, other) = if i % 2 == 0 { ("A/a#a", "A/b#b") } else { ("A/b#b", "A/a#a") };
            (own.to_owned(), format!("{other}@{}", i - 1))
        })
        .collect();
    let causes: Vec<[&str; 1]> = names.iter().map(|(_, cause)| [cause.as_str()]).collect();
    let lines: Vec<Line<'_>> = names
        .iter()
        .zip(&causes)
        .enumerate()
        .map(|(i, ((own, _), cause))| (i as u64 + 1, "loop", own.as_str(), Updated, cause.as_slice()))
        .collect();
    let chain = why(&history(&lines), "A", "a");
    assert!(chain.cut && chain.steps.len() <= 256, "{}", chain.steps.len());
    // A cause that claims to come later than its effect leads nowhere.
    let records = history(&[(1, "l", "A/a#a", Updated, &["A/b#b@2"]), (2, "l", "A/b#b", Updated, &["A/a#a@1"])]);
    assert_eq!(seen(&why(&records, "A", "a")), [(1, 0, 0)]);
}

#[test]
fn a_long_chain_is_cut_at_its_far_end() {
    let names: Vec<(String, String)> =
        (1..=40_u64).map(|i| (format!("A/{i}#{i}"), format!("A/{0}#{0}@{0}", i - 1))).collect();
    let causes: Vec<[&str; 1]> = names.iter().map(|(_, cause)| [cause.as_str()]).collect();
    let lines: Vec<Line<'_>> = names
        .iter()
        .zip(&causes)
        .enumerate()
        .map(|(i, ((own, _), cause))| (i as u64 + 1, "loop", own.as_str(), Created, cause.as_slice()))
        .collect();
    let chain = why(&history(&lines), "A", "40");
    assert!(chain.cut);
    assert_eq!((chain.steps.len(), chain.steps[0].record.revision), (33, 8));
}

/// What noting adds to a write. `cargo test --release -p pintle-apiserver --lib causes -- --ignored --nocapture`
#[test]
#[ignore = "a measurement, for a release build on a quiet machine"]
fn noting_a_write_takes_a_few_microseconds() {
    const BATCHES: u32 = 200;
    const TIMES: u32 = 500;
    let catalogue = crate::catalogue::Catalogue::default();
    let header = http::HeaderValue::from_static(
        r#"{"loop":"replicaset-controller","key":"default/web","attempt":1,"because":[{"event":"updated","group":"apps","kind":"ReplicaSet","namespace":"default","name":"web","uid":"6a2f41a3-c54c-fce8-32d2-0324e1c32e22","revision":"123","writer":"kubectl","paths":["spec.replicas"]}]}"#,
    );
    let resource = catalogue.get("", "v1", "pods").unwrap();
    let mut call =
        crate::call::Call::own(crate::verb::Verb::Update, resource, "default", "web", "replicaset-controller");
    call.headers.insert(HEADER, header);
    let container = serde_json::json!({"name": "c", "image": "nginx", "env": [{"name": "A", "value": "b"}],
        "resources": {"limits": {"cpu": "1"}}, "terminationMessagePath": "/dev/termination-log"});
    let old = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-5d9c7-x2x4z", "namespace": "default", "uid": "7b2f41a3-c54c-fce8-32d2-0324e1c32e22",
            "labels": {"app": "web", "pod-template-hash": "5d9c7"}, "managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}}]},
        "spec": {"containers": [container.clone(), container], "nodeName": "", "restartPolicy": "Always"},
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}});
    let mut new = old.clone();
    new["status"] = serde_json::json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let clock = pintle_meta::Clock::system();
    for (what, before) in [("create", None), ("update", Some(&old))] {
        let causes = Causes::default();
        // The best and the middle of many batches: others work on this machine too.
        let mut batches: Vec<std::time::Duration> = (0..BATCHES)
            .map(|_| {
                let started = tokio::time::Instant::now();
                for revision in 0..TIMES {
                    let diff = before.map(|before| pintle_schema::diff::Diff::of(before, &new)).unwrap_or_default();
                    causes.note(&Commit {
                        call: &call,
                        resource,
                        manager: "replicaset-controller",
                        effect: Effect::of(before, &new),
                        object: &new,
                        diff: &diff,
                        revision: revision.into(),
                        now: clock.now(),
                    });
                }
                started.elapsed() / TIMES
            })
            .collect();
        batches.sort();
        let (best, middle) = (batches[0], batches[batches.len() / 2]);
        let (entries, bytes) = causes.size();
        println!("{what}: {best:?} a write at best, {middle:?} in the middle; {entries} writes in {bytes} bytes");
        assert!(best < std::time::Duration::from_micros(30), "{best:?}");
    }
}
