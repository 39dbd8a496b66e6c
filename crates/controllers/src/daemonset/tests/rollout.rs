//! Pods of an old template make way for new ones.

use super::*;

#[test]
fn no_more_nodes_are_without_a_pod_than_may_be() {
    let nodes = ["a", "b", "c", "d"];
    let world = |most: Value| World::of(&nodes, strategy(most, json!(0)));
    let cases = [
        ("one", world(json!(1)).ready(&nodes, "old"), vec!["delete pods/a-old"]),
        ("half", world(json!("50%")).ready(&nodes, "old"), vec!["delete pods/a-old", "delete pods/b-old"]),
        (
            "a third is rounded up",
            world(json!("30%")).ready(&nodes, "old"),
            vec!["delete pods/a-old", "delete pods/b-old"],
        ),
        (
            "a new one is not ready",
            world(json!(1)).pod("a", "new", "running", json!({})).ready(&["b", "c", "d"], "old"),
            vec![],
        ),
        ("an old one goes", world(json!(1)).pod("a", "old", "going", json!({})).ready(&["b", "c", "d"], "old"), vec![]),
        (
            "a new one is ready",
            world(json!(1)).ready(&["a"], "new").ready(&["b", "c", "d"], "old"),
            vec!["delete pods/b-old"],
        ),
        (
            "what is broken is replaced in any case",
            world(json!(1))
                .pod("a", "old", "running", json!({}))
                .pod("b", "old", "running", json!({}))
                .ready(&["c", "d"], "old"),
            vec!["delete pods/a-old", "delete pods/b-old"],
        ),
        ("all are new", world(json!(1)).ready(&nodes, "new"), vec![]),
        ("a node has none", world(json!(1)).ready(&["a", "b", "c"], "old"), vec!["create on d"]),
        ("nothing may be away and nothing surge", world(json!(0)).ready(&nodes, "old"), vec!["delete pods/a-old"]),
    ];
    for (why, world, expected) in cases {
        assert_eq!(world.writes(), expected, "{why}");
    }
    let by_hand = json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
    assert!(World::of(&nodes, by_hand).ready(&nodes, "old").writes().is_empty());
}

#[test]
fn a_new_pod_is_only_available_after_its_time() {
    let change = json!({"spec": {"minReadySeconds": 30}});
    let world = World::of(&["a", "b"], change).pod("a", "new", "fresh", json!({})).ready(&["b"], "old");
    assert!(world.writes().is_empty());
    assert_eq!(world.decide().plan.again, Some(Duration::from_secs(25)));
}

#[test]
fn a_surging_set_has_a_new_pod_beside_the_old_one_until_it_is_available() {
    let nodes = ["a", "b", "c"];
    let world = |most: Value| World::of(&nodes, strategy(json!(0), most));
    let cases = [
        ("one", world(json!(1)).ready(&nodes, "old"), vec!["create on a"]),
        ("two", world(json!("60%")).ready(&nodes, "old"), vec!["create on a", "create on b"]),
        ("one surges", world(json!(1)).ready(&nodes, "old").pod("a", "new", "running", json!({})), vec![]),
        ("it is available", world(json!(1)).ready(&nodes, "old").ready(&["a"], "new"), vec!["delete pods/a-old"]),
        (
            "the old one is not ready any more",
            world(json!(1)).ready(&["b", "c"], "old").pod("a", "old", "running", json!({})).pod(
                "a",
                "new",
                "Pending",
                json!({}),
            ),
            vec!["delete pods/a-old"],
        ),
        (
            "what is broken is replaced in any case",
            world(json!(1)).ready(&["c"], "old").pod("a", "old", "running", json!({})).pod(
                "b",
                "old",
                "running",
                json!({}),
            ),
            vec!["create on a", "create on b", "create on c"],
        ),
        (
            "the old one goes",
            world(json!(1)).ready(&["b", "c"], "new").pod("a", "old", "going", json!({})),
            vec!["create on a"],
        ),
        (
            "two new ones",
            world(json!(1)).ready(&nodes, "new").pod("a", "new", "ready", json!({"metadata": {"name": "second"}})),
            vec!["delete pods/second"],
        ),
    ];
    for (why, world, expected) in cases {
        assert_eq!(world.writes(), expected, "{why}");
    }
}

#[test]
fn a_surging_set_leaves_a_node_only_when_enough_others_serve() {
    let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let world = World::of(&["a"], strategy(json!(0), json!(1))).node("b", tainted);
    // On the one that fits, the new Pod is not available yet.
    let waiting = World { pods: Vec::new(), ..world }.pod("a", "new", "running", json!({})).ready(&["b"], "old");
    assert!(waiting.writes().is_empty());
    let mut serving = waiting;
    serving.pods.clear();
    let serving = serving.ready(&["a"], "new").ready(&["b"], "old");
    assert_eq!(serving.writes(), ["delete pods/b-old"]);
}
