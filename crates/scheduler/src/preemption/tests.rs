//! Who has to leave where, as upstream decides it.

use std::collections::BTreeSet;

use pintle_meta::Random;
use serde_json::{Value, json};

use super::*;
use crate::plugins;
use crate::testing::{asking, important, labelled, labelled_pod, node, nominated, pod};

fn cycle() -> Cycle {
    Cycle::new(plugins::all(BTreeSet::new()), Random::seeded(1))
}

/// Nodes of 4 CPUs with these names.
fn cluster(names: &[&str]) -> Cache {
    let mut cache = Cache::default();
    names.iter().for_each(|name| cache.set_node(node(name, json!({}))));
    cache
}

/// The annotation of a Pod says when it started, in seconds; without one at 1000.
fn started(pod: &PodInfo) -> Timestamp {
    let seconds = pod.labels().get("started").and_then(|text| text.parse().ok()).unwrap_or(1000);
    Timestamp::from_second(seconds).unwrap()
}

fn all_candidates(pod: &PodInfo, cache: &Cache, budgets: &[Budget]) -> Result<Vec<Candidate>, Refused> {
    let mut cycle = cycle();
    let diagnosis = cycle.schedule(pod, cache).expect_err("it does not fit");
    candidates(&cycle, pod, cache, &diagnosis, &Facts { budgets, started: &started })
}

/// The node that is chosen and the names of the victims; nothing if none is.
fn chosen(pod: &PodInfo, cache: &Cache, budgets: &[Budget]) -> Option<(String, Vec<String>)> {
    let best = choose(all_candidates(pod, cache, budgets).ok()?)?;
    Some((best.node, best.victims.iter().map(|victim| victim.pod.key.name().to_owned()).collect()))
}

fn some(node: &str, victims: &[&str]) -> Option<(String, Vec<String>)> {
    Some((node.to_owned(), victims.iter().map(|name| (*name).to_owned()).collect()))
}

fn why(pod: &PodInfo, cache: &Cache) -> String {
    all_candidates(pod, cache, &[]).expect_err("no room can be made").message()
}

fn timed(name: &str, priority: i32, cpu: &str, started: i64) -> Arc<PodInfo> {
    let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    labelled_pod(name, json!({"app": name, "started": started.to_string()}), spec)
}

fn budget(selector: Value, allowed: i32, let_go: &[&str]) -> Budget {
    let disrupted: serde_json::Map<String, Value> =
        let_go.iter().map(|name| ((*name).to_owned(), json!("2020-01-01T00:00:00Z"))).collect();
    let budget = json!({"metadata": {"name": "b", "namespace": "shop"}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
            "disruptedPods": disrupted}});
    budgets(&[Arc::new(serde_json::from_value(budget).unwrap())]).pop().expect("it selects something")
}

#[test]
fn the_fewest_and_least_important_pods_of_a_node_leave() {
    for (present, wanted, victims) in [
        // Only as many as are needed.
        (vec![("low", 1, "2"), ("mid", 5, "2")], "2", vec!["low"]),
        (vec![("low", 1, "2"), ("mid", 5, "2")], "3", vec!["mid", "low"]),
        // The more important one stays, also if it is the larger one.
        (vec![("low", 1, "1"), ("mid", 5, "3")], "1", vec!["low"]),
        // If both cannot stay, the more important one does, whatever the other would have taken.
        (vec![("low", 1, "1"), ("mid", 5, "3")], "3", vec!["mid"]),
        // One of the same priority stays whatever happens.
        (vec![("low", 1, "1"), ("same", 10, "3")], "1", vec!["low"]),
    ] {
        let mut cache = cluster(&["a"]);
        for (name, priority, cpu) in &present {
            cache.place(important(name, *priority, cpu), "a");
        }
        assert_eq!(chosen(&important("p", 10, wanted), &cache, &[]), some("a", &victims), "{present:?} {wanted}");
    }
}

#[test]
fn of_equals_the_one_that_has_run_for_longer_stays() {
    let mut cache = cluster(&["a"]);
    cache.place(timed("young", 1, "2", 200), "a");
    cache.place(timed("old", 1, "2", 100), "a");
    assert_eq!(chosen(&important("p", 10, "2"), &cache, &[]), some("a", &["young"]));
}

#[test]
fn the_node_where_it_does_the_least_harm_is_taken() {
    let protected = || budget(json!({"matchLabels": {"app": "protected"}}), 0, &[]);
    for (on_a, on_b, expected) in [
        // Budgets come before everything else.
        (vec![("protected", 1, "4", 1)], vec![("high", 9, "4", 1)], ("b", vec!["high"])),
        // Then how important the most important victim is.
        (vec![("x", 5, "4", 1)], vec![("y", 4, "2", 1), ("z", 4, "2", 1)], ("b", vec!["y", "z"])),
        // Then the sum of priorities, in which every Pod counts.
        (vec![("x", 5, "2", 1), ("w", -9, "2", 1)], vec![("y", 5, "4", 1)], ("b", vec!["y"])),
        (vec![("x", 5, "2", 1), ("w", 2, "2", 1)], vec![("y", 5, "2", 1), ("z", 3, "2", 1)], ("a", vec!["x", "w"])),
        // Then who has run for the shortest time, of the most important victims.
        (vec![("x", 5, "4", 100)], vec![("y", 5, "4", 200)], ("b", vec!["y"])),
        (vec![("x", 5, "2", 300), ("w", 1, "2", 1)], vec![("y", 5, "2", 200), ("z", 1, "2", 9)], ("a", vec!["x", "w"])),
    ] {
        let mut cache = cluster(&["a", "b"]);
        for (node, pods) in [("a", &on_a), ("b", &on_b)] {
            for (name, priority, cpu, started) in pods {
                cache.place(timed(name, *priority, cpu, *started), node);
            }
        }
        let found = chosen(&important("p", 10, "4"), &cache, &[protected()]);
        assert_eq!(found, some(expected.0, &expected.1), "{on_a:?} {on_b:?}");
    }
}

#[test]
fn a_budget_protects_as_long_as_others_can_leave() {
    let app = |app: &str| json!({"matchLabels": {"app": app}});
    let in_pair = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["one", "two"]}]});
    for (budgets, expected, violations) in [
        // The protected one is put back first, although it has run for a shorter time.
        (vec![budget(app("two"), 0, &[])], vec!["one"], 0),
        (vec![budget(app("two"), 1, &[])], vec!["two"], 0),
        // One of two may leave: the older one uses that up, and the younger one is protected.
        (vec![budget(in_pair.clone(), 1, &[])], vec!["one"], 0),
        (vec![budget(in_pair.clone(), 0, &[])], vec!["two"], 1),
        // The API server has let it go already.
        (vec![budget(app("two"), 0, &["two"])], vec!["two"], 0),
        // Both budgets of the older one count its end, so that nothing is left for the younger one.
        (vec![budget(app("one"), 0, &[]), budget(in_pair, 1, &[])], vec!["two"], 1),
    ] {
        let mut cache = cluster(&["a"]);
        cache.place(timed("one", 1, "2", 100), "a");
        cache.place(timed("two", 1, "2", 200), "a");
        let found = choose(all_candidates(&important("p", 10, "2"), &cache, &budgets).unwrap()).unwrap();
        let victims: Vec<&str> = found.victims.iter().map(|victim| victim.pod.key.name()).collect();
        assert_eq!((victims, found.violations), (expected, violations), "{budgets:?}");
    }
    let everything = json!({"metadata": {"namespace": "shop"}, "spec": {"selector": {}}});
    assert!(budgets(&[Arc::new(serde_json::from_value(everything).unwrap())]).is_empty());
}

#[test]
fn what_would_not_help_is_not_done_and_said_in_upstreams_words() {
    let not_helpful =
        |reasons: &str| format!("no new claims to deallocate, preemption: 0/2 nodes are available: {reasons}.");
    let mut cache = cluster(&["a", "b"]);
    cache.place(important("same", 10, "4"), "a");
    cache.place(important("low", 1, "1"), "b");
    cache.place(important("high", 20, "3"), "b");
    assert_eq!(
        why(&important("p", 10, "2"), &cache),
        not_helpful("1 Insufficient cpu, 1 No preemption victims found for incoming pod")
    );
    assert_eq!(
        why(&important("p", 10, "5"), &cache),
        not_helpful("2 Preemption is not helpful for scheduling"),
        "the nodes are too small, even when empty"
    );
    let picky = json!({"priority": 10, "nodeSelector": {"disk": "ssd"}});
    assert_eq!(why(&pod("p", picky), &cache), not_helpful("2 Preemption is not helpful for scheduling"));
    let mut never = json!({"priority": 10, "preemptionPolicy": "Never"});
    never["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "2"}}}]);
    assert_eq!(
        why(&pod("p", never), &cache),
        "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    );
}

#[test]
fn host_ports_anti_affinity_and_spread_make_room_too() {
    let port = json!([{"name": "c", "ports": [{"hostPort": 80}]}]);
    let far = |app: &str| {
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}]}})
    };
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let cases = [
        ("ports", json!({"priority": 1, "containers": port}), json!({"priority": 10, "containers": port})),
        ("its own anti-affinity", json!({"priority": 1}), json!({"priority": 10, "affinity": far("web")})),
        ("the other's anti-affinity", json!({"priority": 1, "affinity": far("web")}), json!({"priority": 10})),
    ];
    for (what, low, high) in cases {
        let mut cache = Cache::default();
        cache.set_node(labelled("a", json!({"zone": "x"})));
        cache.place(labelled_pod("low", json!({"app": "web"}), low), "a");
        let high = labelled_pod("p", json!({"app": "web"}), high);
        assert_eq!(chosen(&high, &cache, &[]), some("a", &["low"]), "{what}");
    }
    // Zone x has two, y none, and y's node is full: one of x must go.
    let mut cache = Cache::default();
    cache.set_node(labelled("a", json!({"zone": "x"})));
    cache.set_node(labelled("b", json!({"zone": "y"})));
    cache.place(important("large", 20, "4"), "b");
    for (name, priority) in [("one", 1), ("two", 2)] {
        cache.place(labelled_pod(name, json!({"app": "web"}), json!({"priority": priority})), "a");
    }
    let wanted = json!({"priority": 10, "topologySpreadConstraints": spread,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let wanted = labelled_pod("p", json!({"app": "web"}), wanted);
    assert_eq!(chosen(&wanted, &cache, &[]), some("a", &["two", "one"]));
    // Anti-affinity over a zone is not helped by one node when another one has such a Pod, too.
    let mut cache = Cache::default();
    for name in ["a", "b"] {
        cache.set_node(labelled(name, json!({"zone": "x"})));
        cache.place(labelled_pod(&format!("on-{name}"), json!({"app": "web"}), json!({"priority": 1})), name);
    }
    let picky = labelled_pod("p", json!({"app": "web"}), json!({"priority": 10, "affinity": far("web")}));
    assert_eq!(
        why(&picky, &cache),
        "no new claims to deallocate, preemption: 0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    );
}

#[test]
fn while_its_victims_are_ending_a_pod_takes_nothing_more() {
    let ending = |reason: &str| {
        let mut pod = important("low", 1, "4").pod.as_ref().clone();
        pod.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.into());
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
        pod.status = Some(serde_json::from_value(json!({"conditions": [condition]})).unwrap());
        Arc::new(PodInfo::new(Arc::new(pod)))
    };
    let wanted = important("p", 10, "4");
    let mut cache = cluster(&["a", "b"]);
    cache.place(important("other", 1, "4"), "b");
    cache.place(ending(REASON), "a");
    cache.nominated.set(wanted.clone(), "a");
    assert_eq!(
        why(&wanted, &cache),
        "no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node."
    );
    cache.place(ending("EvictionByEvictionAPI"), "a");
    assert!(all_candidates(&wanted, &cache, &[]).is_ok(), "it is ending for another reason");
    // Its node will not do any more, so that it does not wait for it.
    cache.place(ending(REASON), "a");
    cache.set_node(node("a", json!({"spec": {"unschedulable": true}})));
    assert_eq!(chosen(&wanted, &cache, &[]), some("b", &["other"]));
}

#[test]
fn room_that_is_made_for_one_pod_is_not_taken_by_another() {
    let mut cache = cluster(&["a"]);
    cache.nominated.set(important("waits", 10, "3"), "a");
    let fits = |cache: &Cache, pod: &PodInfo| cycle().schedule(pod, cache).is_ok();
    assert!(!fits(&cache, &important("p", 5, "2")) && !fits(&cache, &important("p", 10, "2")));
    assert!(fits(&cache, &important("p", 11, "2")), "a more important one comes first");
    assert!(fits(&cache, &important("waits", 10, "3")), "it does not stand in its own way");
    assert!(fits(&cache, &asking("p", "1", "1Gi")));
    // It counts in the search for victims, too.
    cache.place(important("low", 1, "1"), "a");
    assert!(chosen(&important("p", 5, "2"), &cache, &[]).is_none());
    // An affinity that only a nominated Pod meets is not met: it may still go elsewhere.
    let near = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}]}});
    let mut cache = cluster(&["a"]);
    cache.nominated.set(labelled_pod("db", json!({"app": "db"}), json!({"priority": 10})), "a");
    assert!(!fits(&cache, &pod("web", json!({"affinity": near}))));
}

#[test]
fn a_nominated_pod_gets_its_node_although_another_is_better() {
    let mut cache = cluster(&["a", "b"]);
    cache.place(important("busy", 1, "2"), "a");
    cache.nominated.set(nominated("p", "a"), "a");
    assert_eq!(cycle().schedule(&important("p", 5, "1"), &cache).unwrap(), "a");
    assert_eq!(cycle().schedule(&important("q", 5, "1"), &cache).unwrap(), "b");
    assert_eq!(cycle().schedule(&important("p", 5, "3"), &cache).unwrap(), "b", "it does not fit there any more");
}

#[test]
fn in_a_large_cluster_not_every_node_is_tried_and_the_seed_says_which() {
    for (nodes, expected) in [(1, 1), (99, 99), (100, 100), (999, 100), (5000, 500)] {
        assert_eq!(enough(nodes), expected, "{nodes}");
    }
    let mut cache = Cache::default();
    for index in 0..300 {
        cache.set_node(node(&index.to_string(), json!({})));
        cache.place(important(&format!("low-{index}"), 1, "4"), &index.to_string());
    }
    let wanted = important("p", 10, "4");
    let names = |seed: u64| {
        let mut cycle = Cycle::new(plugins::all(BTreeSet::new()), Random::seeded(seed));
        let diagnosis = cycle.schedule(&wanted, &cache).unwrap_err();
        let found = candidates(&cycle, &wanted, &cache, &diagnosis, &Facts { budgets: &[], started: &started });
        found.unwrap().into_iter().map(|candidate| candidate.node).collect::<Vec<_>>()
    };
    assert_eq!(names(1).len(), 100);
    assert_eq!(names(1), names(1));
    assert_ne!(names(1), names(2));
}
