//! Conversations between managers, and what each then owns: as a Kubernetes server answered them.

use super::*;
use serde_json::json;

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-01T00:01:00Z";
const RESET: &[&[&str]] = &[&["status"]];

/// Tracks a write twice: comparing everything, and only what is known to differ.
fn track(schema: &Schema, old: Option<&Value>, new: &mut Value, manager: &Manager<'_>, reset: &[&[&str]]) {
    let mut again = new.clone();
    let diff = old.map(|old| crate::diff::Diff::of(old, new));
    track_update(schema, old, new, manager, reset, None);
    track_update(schema, old, &mut again, manager, reset, diff.as_ref());
    assert_eq!(again, *new);
}

fn schema(type_name: &str) -> Schema {
    Schema::builtin(type_name).expect("a type of the table")
}

fn manager<'a>(name: &'a str, operation: Operation, time: &'a str) -> Manager<'a> {
    Manager { name, operation, api_version: "v1", subresource: "", time }
}

fn updater(name: &str) -> Manager<'_> {
    manager(name, Operation::Update, EARLY)
}

fn applier(name: &str) -> Manager<'_> {
    manager(name, Operation::Apply, EARLY)
}

/// Who owns what, in the order of the entries.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owner = |entry: &Value| (entry["manager"].as_str().unwrap_or_default().to_owned(), entry["fieldsV1"].clone());
    entries.iter().map(owner).collect()
}

fn owned(name: &str, fields: Value) -> (String, Value) {
    (name.to_owned(), fields)
}

fn config_map(labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "labels": labels}})
}

fn created(type_name: &str, mut object: Value) -> Value {
    track(&schema(type_name), None, &mut object, &updater("apidiff"), RESET);
    object
}

#[test]
fn a_conversation_about_a_config_map_ends_as_kubernetes_ends_it() {
    let schema = schema("core.v1.ConfigMap");
    let mut object = config_map(json!({}));
    object["metadata"] = json!({"name": "o"});
    object["data"] = json!({"a": "1"});
    object["binaryData"] = json!({"b": "AAEC"});
    let object = created("core.v1.ConfigMap", object);
    let made = json!({"f:binaryData": {".": {}, "f:b": {}}, "f:data": {".": {}, "f:a": {}}});
    assert_eq!(owners(&object), [owned("apidiff", made)]);

    let patch = json!({"metadata": {"labels": {"p": "1"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"]}});
    let mut patched = crate::strategic::apply(&schema, &object, &patch).expect("a sound patch");
    track(&schema, Some(&object), &mut patched, &updater("apidiff"), RESET);
    let tracked = json!({
        "f:binaryData": {".": {}, "f:b": {}},
        "f:data": {".": {}, "f:a": {}},
        "f:metadata": {
            "f:annotations": {".": {}, "f:a": {}},
            "f:finalizers": {".": {}, "v:\"example.com/f\"": {}},
            "f:labels": {".": {}, "f:p": {}},
        },
    });
    assert_eq!(owners(&patched), [owned("apidiff", tracked.clone())]);

    let label = |value: &str| config_map(json!({"s": value}));
    let applied = apply(&schema, Some(&patched), &label("4"), &applier("me"), false, RESET).expect("no conflict");
    let labelled = json!({"f:metadata": {"f:labels": {"f:s": {}}}});
    assert_eq!(owners(&applied), [owned("me", labelled.clone()), owned("apidiff", tracked.clone())]);

    let refused = apply(&schema, Some(&applied), &label("5"), &applier("other"), false, RESET);
    let Err(ApplyError::Conflicts(conflicts)) = refused else { panic!("{refused:?}") };
    assert_eq!(conflict_message(&conflicts), "Apply failed with 1 conflict: conflict with \"me\": .metadata.labels.s");
    let cause = Cause {
        reason: "FieldManagerConflict",
        message: "conflict with \"me\"".to_owned(),
        field: ".metadata.labels.s".to_owned(),
    };
    assert_eq!(conflict_causes(&conflicts), [cause]);

    let forced = apply(&schema, Some(&applied), &label("5"), &applier("other"), true, RESET).expect("forced");
    assert_eq!(owners(&forced), [owned("other", labelled), owned("apidiff", tracked)]);
    assert_eq!(forced["metadata"]["labels"], json!({"p": "1", "s": "5"}));
}

#[test]
fn a_created_deployment_owns_what_kubernetes_says() {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "main", "image": "i", "resources": {}}], "securityContext": {}},
            },
        },
        "status": {},
    });
    let maker = Manager { api_version: "apps/v1", ..updater("apidiff") };
    track(&schema("apps.v1.Deployment"), None, &mut object, &maker, RESET);
    let wanted = json!({"f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
        "f:template": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}},
                "f:securityContext": {},
            },
        },
    }});
    assert_eq!(owners(&object), [owned("apidiff", wanted)]);
}

#[test]
fn what_is_no_longer_applied_goes_unless_another_owns_it() {
    let schema = schema("core.v1.ConfigMap");
    let first =
        apply(&schema, None, &config_map(json!({"a": "1", "b": "1"})), &applier("me"), false, RESET).expect("created");
    let shared =
        apply(&schema, Some(&first), &config_map(json!({"b": "1"})), &applier("you"), false, RESET).expect("shared");
    let less =
        apply(&schema, Some(&shared), &config_map(json!({})), &applier("me"), false, RESET).expect("fewer labels");
    assert_eq!(less["metadata"]["labels"], json!({"b": "1"}));
    assert_eq!(owners(&less).len(), 2);
}

#[test]
fn a_sidecar_that_is_no_longer_applied_leaves_the_others_alone() {
    let schema = schema("core.v1.Pod");
    let pod = |containers: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}});
    let main = json!({"name": "main", "image": "m"});
    let side = json!({"name": "side", "image": "s", "ports": [{"containerPort": 80}]});
    let both = apply(&schema, None, &pod(json!([main, side])), &applier("me"), false, RESET).expect("created");
    let with_other = {
        let mut updated = both.clone();
        updated["spec"]["containers"][0]["tty"] = json!(true);
        track(&schema, Some(&both), &mut updated, &updater("you"), RESET);
        updated
    };
    let one =
        apply(&schema, Some(&with_other), &pod(json!([main])), &applier("me"), false, RESET).expect("one container");
    assert_eq!(one["spec"]["containers"], json!([{"name": "main", "image": "m", "tty": true}]));
    // Whoever owns the item owns its being there; a field inside does not hold it.
    let none = apply(&schema, Some(&one), &pod(json!([])), &applier("me"), false, RESET).expect("no containers");
    assert_eq!(none.pointer("/spec/containers"), None);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let schema = schema("core.v1.ConfigMap");
    let object = config_map(json!({"a": "1"}));
    let first = apply(&schema, None, &object, &applier("me"), false, RESET).expect("created");
    let later = manager("me", Operation::Apply, LATE);
    assert_eq!(apply(&schema, Some(&first), &object, &later, false, RESET), Ok(first));
}

#[test]
fn an_update_takes_what_it_changes_and_no_more() {
    let schema = schema("core.v1.ConfigMap");
    let first =
        apply(&schema, None, &config_map(json!({"a": "1", "b": "1"})), &applier("me"), false, RESET).expect("created");
    let mut second = first.clone();
    second["metadata"]["labels"]["a"] = json!("2");
    let later = manager("you", Operation::Update, LATE);
    track(&schema, Some(&first), &mut second, &later, RESET);
    let wanted = [
        owned("me", json!({"f:metadata": {"f:labels": {"f:b": {}}}})),
        owned("you", json!({"f:metadata": {"f:labels": {"f:a": {}}}})),
    ];
    assert_eq!(owners(&second), wanted);
    let mut third = second.clone();
    track(&schema, Some(&second), &mut third, &manager("you", Operation::Update, "2027-01-01T00:00:00Z"), RESET);
    assert_eq!(third, second);

    let conflict =
        apply(&schema, Some(&second), &config_map(json!({"a": "1", "b": "1"})), &applier("me"), false, RESET);
    let message = "Apply failed with 1 conflict: conflict with \"you\" using v1: .metadata.labels.a";
    assert_eq!(conflict.map_err(|error| error.to_string()), Err(message.to_owned()));
}

#[test]
fn several_conflicts_are_told_manager_by_manager() {
    let schema = schema("core.v1.ConfigMap");
    let first =
        apply(&schema, None, &config_map(json!({"a": "1", "b": "1"})), &applier("me"), false, RESET).expect("created");
    let conflict =
        apply(&schema, Some(&first), &config_map(json!({"a": "2", "b": "2"})), &applier("you"), false, RESET);
    let message = "Apply failed with 2 conflicts: conflicts with \"me\":\n- .metadata.labels.a\n- .metadata.labels.b";
    assert_eq!(conflict.map_err(|error| error.to_string()), Err(message.to_owned()));
}

#[test]
fn a_client_can_turn_tracking_off_but_not_lose_it_by_accident() {
    let schema = schema("core.v1.ConfigMap");
    let first = created("core.v1.ConfigMap", config_map(json!({"a": "1"})));
    for (sent, kept) in [(json!(null), 1), (json!([]), 0), (json!([{}]), 0), (json!([{"manager": "broken"}]), 1)] {
        let mut update = first.clone();
        update["metadata"]["managedFields"] = sent.clone();
        track(&schema, Some(&first), &mut update, &updater("apidiff"), RESET);
        assert_eq!(owners(&update).len(), kept, "{sent}");
    }
}

#[test]
fn status_is_tracked_apart() {
    let schema = schema("core.v1.Pod");
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {}});
    track(&schema, None, &mut pod, &updater("maker"), RESET);
    let mut running = pod.clone();
    running["status"] = json!({"phase": "Running"});
    let kubelet = Manager { subresource: "status", time: LATE, ..updater("kubelet") };
    track(&schema, Some(&pod), &mut running, &kubelet, &[&["spec"], &["metadata"]]);
    let wanted =
        [owned("maker", json!({"f:spec": {"f:nodeName": {}}})), owned("kubelet", json!({"f:status": {"f:phase": {}}}))];
    assert_eq!(owners(&running), wanted);
    assert_eq!(running["metadata"]["managedFields"][1]["subresource"], json!("status"));
}

#[test]
fn many_updaters_become_ancient_changes() {
    let schema = schema("core.v1.ConfigMap");
    let mut object = created("core.v1.ConfigMap", config_map(json!({"l": "0"})));
    for index in 0..14 {
        let (name, time) = (format!("m{index:02}"), format!("2026-01-01T00:{index:02}:00Z"));
        let before = object.clone();
        object["metadata"]["labels"][&name] = json!("1");
        track(&schema, Some(&before), &mut object, &manager(&name, Operation::Update, &time), RESET);
    }
    let names: Vec<String> = owners(&object).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names[0], "ancient-changes");
}

#[test]
fn a_custom_object_owns_its_spec_as_a_whole_and_in_parts() {
    let definition = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "schedule": {"type": "string"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    let schema = Schema::from_crd(&definition, false, &pintle_meta::field::Path::root()).expect("a sound schema");
    let mut object = json!({"apiVersion": "v1", "kind": "At", "metadata": {"name": "a"},
        "spec": {"schedule": "now", "free": {"a": {"b": [1]}}}});
    track(&schema, None, &mut object, &updater("me"), RESET);
    let wanted = json!({"f:spec": {".": {}, "f:schedule": {}, "f:free": {".": {}, "f:a": {".": {}, "f:b": {}}}}});
    assert_eq!(owners(&object), [owned("me", wanted)]);
}

#[test]
fn an_object_from_before_tracking_belongs_to_somebody() {
    let schema = schema("core.v1.ConfigMap");
    let live = config_map(json!({"a": "1"}));
    let refused = apply(&schema, Some(&live), &config_map(json!({"a": "2"})), &applier("me"), false, RESET);
    let message = "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .metadata.labels.a";
    assert_eq!(refused.map_err(|error| error.to_string()), Err(message.to_owned()));
}

#[test]
fn a_kubectl_user_moves_to_server_side_apply_without_conflicts() {
    let schema = schema("core.v1.ConfigMap");
    let annotated = |value: &str| {
        let mut object = config_map(json!({"a": value}));
        let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": value}, "name": "o"}});
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
        object
    };
    let live = created("core.v1.ConfigMap", annotated("1"));
    let object = config_map(json!({"a": "2"}));
    assert!(apply(&schema, Some(&live), &object, &applier("someone"), false, RESET).is_err());
    let applied = apply(&schema, Some(&live), &object, &applier("kubectl"), false, RESET).expect("no conflict");
    let last = applied["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].as_str();
    assert_eq!(last, Some(format!("{object}\n").as_str()));
}

#[test]
fn what_cannot_be_applied_says_why() {
    let schema = schema("core.v1.Service");
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": ports}});
    let cases = [
        (
            json!({"apiVersion": "v2"}),
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (json!({"apiVersion": "v1", "metadata": {"managedFields": []}}), "metadata.managedFields must be nil"),
        (
            service(json!([{"port": 1}, {"port": 1, "protocol": "TCP"}])),
            "failed to create typed patch object (n/s; v1, Kind=Service): .spec.ports: duplicate entries for key [port=1,protocol=\"TCP\"]",
        ),
        (
            service(json!([{"port": 1, "nonsense": 1}])),
            "failed to create typed patch object (n/s; v1, Kind=Service): .spec.ports[port=1,protocol=\"TCP\"].nonsense: field not declared in schema",
        ),
    ];
    for (object, message) in cases {
        let refused = apply(&schema, None, &object, &applier("me"), false, RESET);
        assert_eq!(refused.map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about how long it takes")]
fn a_thousand_appliers_do_not_make_an_apply_slow() {
    let schema = Schema::builtin("core.v1.ConfigMap").expect("the table has config maps");
    let applied = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {name: "1"}}, "data": {name: "1"}});
    let mut live =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {}}, "data": {}});
    let mut entries = Vec::new();
    for index in 0..1000 {
        let name = format!("m{index}");
        (live["metadata"]["labels"][&name], live["data"][&name]) = (json!("1"), json!("1"));
        let field = format!("f:{name}");
        entries.push(
            json!({"manager": name, "operation": "Apply", "apiVersion": "v1", "time": EARLY, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {field.as_str(): {}}}, "f:data": {field: {}}}}),
        );
    }
    live["metadata"]["managedFields"] = entries.into();
    let took = (0..20).map(|index| {
        let name = format!("m{index}");
        let mut change = applied(&name);
        change["data"][name.as_str()] = json!("2");
        let started = std::time::Instant::now();
        apply(&schema, Some(&live), &change, &applier(&name), false, &[]).expect("no conflict");
        started.elapsed()
    });
    // The fastest, because the machine may be busy with other things.
    let fastest = took.min().unwrap_or_default();
    assert!(fastest < std::time::Duration::from_millis(100), "{fastest:?} per apply");
    let mut theirs = applied("m1");
    theirs["data"]["m1"] = json!("3");
    assert!(apply(&schema, Some(&live), &theirs, &applier("other"), false, &[]).is_err(), "it conflicts still");
}
