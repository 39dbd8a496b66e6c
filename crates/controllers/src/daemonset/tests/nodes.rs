//! One Pod on every node that fits, and none on others.

use super::*;

#[test]
fn every_node_that_fits_gets_a_pod() {
    let affinity = |terms: Value| {
        json!({"spec": {"template": {"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}}})
    };
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let taint = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
    let disk = json!({"metadata": {"labels": {"disk": "ssd"}}});
    let cases = [
        ("no wish", json!({}), json!({}), true),
        ("its selector", template(json!({"nodeSelector": {"disk": "ssd"}})), disk.clone(), true),
        ("another's selector", template(json!({"nodeSelector": {"disk": "hdd"}})), disk.clone(), false),
        ("its affinity", affinity(json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}])), disk, true),
        ("no term", affinity(json!([{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}])), json!({}), false),
        ("its name", template(json!({"nodeName": "n"})), json!({}), true),
        ("another name", template(json!({"nodeName": "m"})), json!({}), false),
        ("a taint", json!({}), taint("k", "NoSchedule"), false),
        ("a soft taint", json!({}), taint("k", "PreferNoSchedule"), true),
        (
            "a tolerated taint",
            template(json!({"tolerations": [{"key": "k", "operator": "Exists"}]})),
            taint("k", "NoSchedule"),
            true,
        ),
        ("cordoned", json!({}), taint("node.kubernetes.io/unschedulable", "NoSchedule"), true),
        ("not ready", json!({}), taint("node.kubernetes.io/not-ready", "NoExecute"), true),
        ("not ready yet", json!({}), taint("node.kubernetes.io/not-ready", "NoSchedule"), false),
        ("unreachable", json!({}), taint("node.kubernetes.io/unreachable", "NoExecute"), true),
        ("out of memory", json!({}), taint("node.kubernetes.io/memory-pressure", "NoSchedule"), true),
        ("out of disk", json!({}), taint("node.kubernetes.io/disk-pressure", "NoSchedule"), true),
        ("out of processes", json!({}), taint("node.kubernetes.io/pid-pressure", "NoSchedule"), true),
        ("no network", json!({}), taint("node.kubernetes.io/network-unavailable", "NoSchedule"), false),
        (
            "the node's own network",
            template(json!({"hostNetwork": true})),
            taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
            true,
        ),
    ];
    for (why, change, node, fits) in cases {
        let mut world = World::of(&[], change).node("n", node);
        // Its revision is made first where the template is another one.
        if world.writes().iter().any(|write| write.starts_with("create controllerrevisions")) {
            let made = world.decide().plan.writes[0].body();
            world.revisions.push(serde_json::from_value(made).unwrap());
        }
        let expected: &[&str] = if fits { &["create on n"] } else { &[] };
        assert_eq!(world.writes(), expected, "{why}");
    }
}

#[test]
fn a_pod_goes_where_it_may_not_stay_and_stays_where_new_ones_may_not_come() {
    let tainted = |effect: &str| json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
    let world = |node: Value| World::of(&[], json!({})).node("n", node).ready(&["n"], "new");
    assert!(world(tainted("NoSchedule")).writes().is_empty());
    assert_eq!(world(tainted("NoExecute")).writes(), ["delete pods/n-new"]);
    let status = world(tainted("NoSchedule")).status();
    assert_eq!((&status["numberMisscheduled"], &status["desiredNumberScheduled"]), (&json!(1), &Value::Null));
}

#[test]
fn a_pod_asks_for_its_node_and_bears_what_daemons_bear() {
    let spec = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]}},
        "podAntiAffinity": {}},
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                         "tolerationSeconds": 5}, {"key": "mine", "operator": "Exists"}]});
    let annotated = json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "7"}},
                           "spec": {"template": {"spec": spec}}});
    let mut world = World::of(&["n"], annotated);
    let made = world.decide().plan.writes[0].body();
    let hash = made["metadata"]["labels"]["controller-revision-hash"].clone();
    world.revisions.push(serde_json::from_value(made).unwrap());
    let pod = world.decide().plan.writes[0].body();
    assert_eq!(asked_for(&pod), "n");
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required["nodeSelectorTerms"].as_array().unwrap().len(), 1, "the name is enough");
    assert!(pod["spec"]["affinity"]["podAntiAffinity"].is_object(), "the rest stays");
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.len(), 7);
    assert_eq!(
        tolerations[0],
        json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"})
    );
    assert_eq!(pod["metadata"]["generateName"], "agent-");
    let labels = json!({"app": "agent", "controller-revision-hash": hash, "pod-template-generation": "7"});
    assert_eq!(pod["metadata"]["labels"], labels);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "DaemonSet");
}

#[test]
fn of_several_pods_on_a_node_the_first_one_stays() {
    let young = |name: &str| json!({"metadata": {"name": name, "creationTimestamp": ago(1)}});
    let world = World::of(&["n"], json!({})).pod("n", "new", "running", young("young")).ready(&["n"], "new");
    assert_eq!(world.writes(), ["delete pods/young"]);
    // A Pod that has no node yet is younger than all that have one.
    let unbound = json!({"metadata": {"name": "unbound", "creationTimestamp": ago(500)}, "spec": {"nodeName": null,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}}}});
    let world = World::of(&["n"], json!({})).pod("n", "new", "Pending", unbound.clone()).ready(&["n"], "new");
    assert_eq!(world.writes(), ["delete pods/unbound"]);
    // It counts for its node, and goes with it.
    assert!(World::of(&["n"], json!({})).pod("n", "new", "Pending", unbound.clone()).writes().is_empty());
    assert_eq!(World::of(&[], json!({})).pod("n", "new", "Pending", unbound).writes(), ["delete pods/unbound"]);
    assert!(World::of(&[], json!({})).ready(&["n"], "new").writes().is_empty(), "what was bound is the node's");
}

#[test]
fn a_pod_that_goes_is_waited_for() {
    assert!(World::of(&["n"], json!({})).pod("n", "new", "going", json!({})).writes().is_empty());
    let ended = json!({"status": {"phase": "Failed"}});
    assert_eq!(
        World::of(&["n"], json!({})).pod("n", "new", "going", ended).writes(),
        ["create on n"],
        "nothing of it runs"
    );
}

#[test]
fn a_pod_that_failed_is_replaced_with_growing_patience() {
    let mut world =
        World::of(&["a", "b"], json!({})).pod("a", "new", "Failed", json!({})).pod("b", "new", "Failed", json!({}));
    world.backoffs.insert("b".to_owned(), Duration::from_secs(4));
    let decision = world.decide();
    assert_eq!(decision.replaced_failed, ["a"]);
    assert_eq!(decision.plan.again, Some(Duration::from_secs(4)));
    assert_eq!(world.writes(), ["delete pods/a-new"]);
    let note = &decision.plan.events[0];
    assert_eq!((note.is_warning, note.reason), (true, "FailedDaemonPod"));
    assert_eq!(note.message, "Found failed daemon pod shop/a-new on node a, will try to kill it");
    let done = World::of(&["a"], json!({})).pod("a", "new", "Succeeded", json!({})).decide();
    assert_eq!(done.plan.events[0].message, "Found succeeded daemon pod shop/a-new on node a, will try to delete it");
    assert!(!done.plan.events[0].is_warning && done.replaced_failed.is_empty());
}

#[test]
fn pods_come_and_go_in_bursts_and_a_refused_one_stops_the_rest() {
    let names: Vec<String> = (0..600).map(|number| format!("n{number:03}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = World::of(&nodes, json!({})).decide().plan;
    assert_eq!(plan.writes.len(), 250);
    assert!(plan.writes.iter().all(|write| write.pace == pintle_runtime::plan::Pace::SlowStart));
    let (reason, message) = plan.writes[0].said.if_done.as_ref().unwrap();
    assert_eq!((*reason, message.as_str()), ("SuccessfulCreate", "Created pod: {name}"));
    let unwanted = json!({"spec": {"template": {"spec": {"nodeName": "elsewhere"}}}});
    let mut world = World::of(&nodes, unwanted).ready(&nodes, "new");
    let made = world.decide().plan.writes[0].body();
    world.revisions.push(serde_json::from_value(made).unwrap());
    assert_eq!(world.writes().len(), 250);
}

#[test]
fn the_status_counts_nodes() {
    let world = World::of(&["a", "b", "c", "d", "e"], json!({"spec": {"minReadySeconds": 30}}))
        .node("f", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}))
        .ready(&["a", "f"], "new")
        .pod("b", "new", "fresh", json!({}))
        .pod("c", "old", "running", json!({}))
        .pod("d", "old", "ready", json!({}));
    let expected = json!({"observedGeneration": 3, "desiredNumberScheduled": 5, "currentNumberScheduled": 4,
        "numberMisscheduled": 1, "numberReady": 3, "numberAvailable": 2, "numberUnavailable": 3, "updatedNumberScheduled": 2});
    assert_eq!(world.status(), expected);
    assert_eq!(world.decide().plan.again, Some(Duration::from_secs(25)));
}
