//! What a client may send, what is refused, and what is stored.

use super::*;
use serde_json::json;

fn decoded(type_name: &str, value: Value) -> Decoded {
    let schema = Schema::builtin(type_name).expect("a type of the table");
    decode(&schema, value).expect("a sound body")
}

fn refused(type_name: &str, value: Value) -> String {
    let schema = Schema::builtin(type_name).expect("a type of the table");
    decode(&schema, value).expect_err("a broken body").0
}

#[test]
fn wrong_types_are_refused_in_the_words_clients_know() {
    let cases = [
        (
            "core.v1.ConfigMap",
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "core.v1.Pod",
            json!({"spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}}),
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "apps.v1.Deployment",
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "core.v1.Pod",
            json!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
        ),
        ("core.v1.Secret", json!({"data": {"a": "not base64"}}), "illegal base64 data at input byte 3"),
        (
            "core.v1.Pod",
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ];
    for (type_name, body, message) in cases {
        assert_eq!(refused(type_name, body), message);
    }
}

#[test]
fn unknown_fields_are_named_and_dropped() {
    let body = json!({"nonsense": 1, "spec": {"containers": [{"name": "a", "imagee": "x"}]}});
    let decoded = decoded("core.v1.Pod", body);
    assert_eq!(
        decoded.unknown.messages(),
        ["unknown field \"nonsense\"", "unknown field \"spec.containers[0].imagee\""]
    );
    assert_eq!(decoded.value["spec"]["containers"], json!([{"name": "a", "resources": {}}]));
}

#[test]
fn what_is_stored_reads_as_the_api_writes_it() {
    let body = json!({
        "metadata": {"name": "a", "labels": {}, "creationTimestamp": null, "deletionTimestamp": "2026-01-01T01:00:00+01:00"},
        "spec": {
            "hostNetwork": false,
            "nodeName": "",
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a", "image": null, "resources": {"limits": {"cpu": 2, "memory": "1024Ki"}}}],
        },
    });
    let wanted = json!({
        "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "2", "memory": "1Mi"}}}],
        },
        "status": {},
    });
    assert_eq!(decoded("core.v1.Pod", body).value, wanted);
}

#[test]
fn a_claim_that_asks_for_no_class_keeps_its_empty_class() {
    let body = json!({"spec": {"storageClassName": ""}});
    assert_eq!(decoded("core.v1.PersistentVolumeClaim", body).value["spec"]["storageClassName"], json!(""));
}

#[test]
fn a_template_in_a_deployment_has_no_kind_but_a_claim_template_has() {
    let deployment = decoded("apps.v1.Deployment", json!({"spec": {"template": {"kind": "Pod"}}}));
    assert_eq!(deployment.unknown.messages(), ["unknown field \"spec.template.kind\""]);
    let set =
        decoded("apps.v1.StatefulSet", json!({"spec": {"volumeClaimTemplates": [{"kind": "PersistentVolumeClaim"}]}}));
    assert!(set.unknown.is_empty());
}

#[test]
fn schemas_inside_of_schemas_are_read_as_such() {
    let read = |schema: Value| decode(&Schema::builtin("apiextensions.v1.JSONSchemaProps").expect("a type"), schema);
    let kept = read(
        json!({"items": {"type": "string", "odd": 1, "nullable": false, "items": {"odd": 1}}, "additionalProperties": true}),
    );
    let wanted = json!({"items": {"type": "string", "items": {}}, "additionalProperties": true});
    assert_eq!(kept.map(|decoded| (decoded.value, decoded.unknown.is_empty())), Ok((wanted, true)));
    for (schema, message) in [
        (
            json!({"items": {"type": 5}}),
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.type of type string",
        ),
        (json!({"additionalProperties": "yes"}), "boolean or JSON schema expected"),
    ] {
        assert_eq!(read(schema), Err(DecodeError(message.to_owned())));
    }
}
