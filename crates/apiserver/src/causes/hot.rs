//! Loops that never rest: who wrote one object again and again within the last minute, and which fields kept changing. Pure.

use super::record::Record;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is looked at.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// So many writes of one object by one writer are more than a rollout needs.
const MANY: u64 = 12;
const MOST_SHOWN: usize = 10;
const MOST_PATHS: usize = 4;

#[derive(Default)]
struct Writes<'a> {
    count: u64,
    newest: Option<&'a Record>,
    paths: BTreeMap<&'a str, u64>,
}

/// The hottest first. Records stand in the order of their revisions.
pub(super) fn hot(records: &[Arc<Record>], now: Timestamp) -> Vec<Value> {
    let mut writes: BTreeMap<(String, &str), Writes<'_>> = BTreeMap::new();
    let young = records.iter().rev().take_while(|record| now.duration_since(record.time) <= WINDOW);
    for record in young {
        let fields = record.fields();
        let all = writes.entry((writer(record), fields.uid)).or_default();
        all.count += 1;
        all.newest.get_or_insert(record);
        for path in fields.paths.lines() {
            *all.paths.entry(path).or_default() += 1;
        }
    }
    let mut hot: Vec<_> = writes.into_iter().filter(|(_, writes)| writes.count >= MANY).collect();
    hot.sort_by(|(a, one), (b, two)| two.count.cmp(&one.count).then(a.cmp(b)));
    hot.into_iter().take(MOST_SHOWN).filter_map(|((writer, _), writes)| shown(&writer, writes)).collect()
}

/// The loop that wrote, or the program.
fn writer(record: &Record) -> String {
    let actor = record.cause().map(|cause| cause.actor.into_owned()).filter(|actor| !actor.is_empty());
    actor.unwrap_or_else(|| record.fields().agent.to_owned())
}

fn shown(writer: &str, writes: Writes<'_>) -> Option<Value> {
    let fields = writes.newest?.fields();
    let mut paths: Vec<(&str, u64)> = writes.paths.into_iter().collect();
    paths.sort_by_key(|(path, count)| (std::cmp::Reverse(*count), *path));
    let paths: Vec<Value> =
        paths.into_iter().take(MOST_PATHS).map(|(path, count)| json!({"path": path, "changes": count})).collect();
    Some(json!({"writer": writer, "kind": fields.kind, "namespace": fields.namespace, "name": fields.name,
        "writes": writes.count, "seconds": WINDOW.as_secs(), "fields": paths}))
}

#[cfg(test)]
mod tests {
    use super::super::record::{Effect, Fields};
    use super::*;

    #[test]
    fn a_loop_that_fights_over_a_field_is_named_with_the_field() {
        let at = |second: i64| Timestamp::from_second(1000 + second).unwrap();
        let record = |second: i64, agent: &str, uid: &str, paths: &str| {
            let fields =
                Fields { agent, uid, kind: "Deployment", namespace: "shop", name: "web", paths, ..Fields::default() };
            Arc::new(Record::new(second as u64, at(second), "update", Effect::Updated, &fields))
        };
        let mut records = vec![record(0, "kubectl", "u1", "spec.replicas")];
        for second in 0..20 {
            records.push(record(second, "autoscaler", "u1", "spec.replicas"));
            records.push(record(second, "gitops", "u1", "spec.replicas\nmetadata.labels.a"));
            records.push(record(second, "controller", &format!("u{second}"), "status"));
        }
        let hot = hot(&records, at(30));
        let told: Vec<_> =
            hot.iter().map(|one| (one["writer"].as_str().unwrap(), one["writes"].as_u64().unwrap())).collect();
        assert_eq!(told, [("autoscaler", 20), ("gitops", 20)]);
        assert_eq!(
            hot[1]["fields"],
            json!([{"path": "metadata.labels.a", "changes": 20}, {"path": "spec.replicas", "changes": 20}])
        );
        assert!(super::hot(&records, at(200)).is_empty(), "it is over");
    }
}
