//! What a person reads about a reconcile must be what happened.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;

fn map(revision: &str, value: serde_json::Value) -> Arc<ConfigMap> {
    let mut object = json!({
        "metadata": {"name": "cfg", "namespace": "shop", "uid": "u1", "resourceVersion": revision,
                     "generation": revision.parse::<i64>().unwrap()},
    });
    object.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(object).unwrap())
}

fn update(old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) -> Change<ConfigMap> {
    Change::Updated { old: old.clone(), new: new.clone() }
}

#[test]
fn the_fields_that_changed_are_named_and_no_others() {
    let one = map("1", json!({"data": {"a": "1", "b": "1"}, "immutable": false}));
    let two = map("2", json!({"data": {"a": "2", "b": "1", "c": "1"}}));
    let told = Cause::of(&update(&one, &two), Some(&Arc::from("kubectl"))).told();
    assert_eq!(told.paths, ["data.a", "data.c", "immutable"]);
    assert_eq!((told.kind.as_str(), told.revision.as_str(), told.writer.as_str()), ("ConfigMap", "2", "kubectl"));
}

#[test]
fn changes_of_one_object_that_wait_together_are_told_as_one() {
    let one = map("1", json!({"data": {"a": "1"}}));
    let two = map("2", json!({"data": {"a": "2"}}));
    let three = map("3", json!({"data": {"a": "2", "b": "1"}}));
    let mut causes = Causes::default();
    causes.add(Cause::of(&update(&one, &two), None));
    causes.add(Cause::of(&update(&two, &three), None));
    causes.add(Cause::of(&Change::Resync(three), None));
    assert_eq!(causes.to_string(), "updated ConfigMap shop/cfg@3 (data.a, data.b)");
}

#[test]
fn a_storm_of_causes_costs_a_bounded_amount_and_keeps_the_first_and_the_newest() {
    let mut causes = Causes::default();
    for number in 0..100 {
        let object = json!({"metadata": {"name": format!("n{number}"), "namespace": "ä", "uid": format!("u{number}")}});
        let object: Arc<ConfigMap> = Arc::new(serde_json::from_value(object).unwrap());
        causes.add(Cause::of(&Change::Added(object), Some(&Arc::from("x".repeat(900)))));
    }
    assert_eq!(causes.len(), MOST);
    let names: Vec<String> = causes.iter().map(|cause| cause.told().name).collect();
    assert_eq!((names[0].as_str(), names[MOST - 1].as_str()), ("n0", "n99"));
    let header = header::value("loop", &Key::new("ä", "x"), 1, &causes).unwrap();
    assert!(header.len() <= header::LONGEST, "{}", header.len());
    let read: serde_json::Value = serde_json::from_slice(header.as_bytes()).unwrap();
    assert_eq!((&read["key"], &read["because"][0]["namespace"]), (&json!("ä/x"), &json!("ä")));
}
