//! Patches as kubectl sends them.

use super::*;
use serde_json::json;

fn patched(type_name: &str, object: Value, patch: Value) -> Result<Value, PatchError> {
    apply(&Schema::builtin(type_name).expect("a type of the table"), &object, &patch)
}

#[test]
fn patches_merge_as_kubectl_users_expect() {
    let pod = || json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
    let cases = [
        (
            "a container is changed by name",
            pod(),
            json!({"spec": {"containers": [{"name": "b", "image": "2"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}}),
        ),
        (
            "a sidecar is added first where the patch says so",
            pod(),
            json!({"spec": {
                "$setElementOrder/containers": [{"name": "side"}, {"name": "a"}, {"name": "b"}],
                "containers": [{"name": "side", "image": "s", "command": null}],
            }}),
            json!({"spec": {"containers": [
                {"name": "side", "image": "s"}, {"name": "a", "image": "1"}, {"name": "b", "image": "1"},
            ]}}),
        ),
        (
            "a container is deleted",
            pod(),
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
            json!({"spec": {"containers": [{"name": "b", "image": "1"}]}}),
        ),
        (
            "all containers are replaced",
            pod(),
            json!({"spec": {"containers": [{"name": "c", "image": "3"}, {"$patch": "replace"}]}}),
            json!({"spec": {"containers": [{"name": "c", "image": "3"}]}}),
        ),
        (
            "a spec is replaced",
            pod(),
            json!({"spec": {"$patch": "replace", "nodeName": "n"}}),
            json!({"spec": {"nodeName": "n"}}),
        ),
        (
            "finalizers are added, not replaced",
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["b", "a"]}}),
            json!({"metadata": {"finalizers": ["b", "a"]}}),
        ),
        (
            "a finalizer is taken out",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
        ),
        (
            "a volume changes its source",
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
        ),
        (
            "arguments are replaced",
            json!({"spec": {"containers": [{"name": "a", "args": ["1", "2"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "args": ["3"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "args": ["3"]}]}}),
        ),
        (
            "a label goes and an annotation comes",
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"a": null}, "annotations": {"x": "y", "z": null}}}),
            json!({"metadata": {"labels": {}, "annotations": {"x": "y"}}}),
        ),
    ];
    for (what, object, patch, wanted) in cases {
        assert_eq!(patched("core.v1.Pod", object, patch), Ok(wanted), "{what}");
    }
}

#[test]
fn a_broken_patch_says_why() {
    let pod = json!({"spec": {"containers": [{"name": "a"}], "tolerations": [{"key": "k"}]}});
    let cases = [
        (json!([]), "invalid JSON document"),
        (json!({"spec": {"$patch": "burn"}}), "unknown patch type: burn in map: {\"$patch\":\"burn\"}"),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            "map: {\"image\":\"x\"} does not contain declared merge key: name",
        ),
        (json!({"spec": {"$retainKeys": ["a"], "b": 1}}), "invalid patch format of retainKeys"),
        (json!({"spec": {"$setElementOrder/containers": {}}}), "invalid patch format of setElementOrder list"),
        (json!({"spec": {"$deleteFromPrimitiveList": []}}), "invalid patch format of primitive list"),
    ];
    for (patch, message) in cases {
        assert_eq!(patched("core.v1.Pod", pod.clone(), patch).map_err(|error| error.message), Err(message.to_owned()));
    }
}
