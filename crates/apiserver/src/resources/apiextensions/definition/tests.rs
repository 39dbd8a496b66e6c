//! Which definitions are taken, and what their authors are told otherwise.

use super::*;

fn definition() -> Value {
    json!({
        "metadata": {"name": "ships.harbour.example.com"},
        "spec": {
            "group": "harbour.example.com", "scope": "Namespaced",
            "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"},
            "versions": [version("v1", true)],
            "conversion": {"strategy": "None"},
        },
        "status": {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]},
    })
}

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": {
            "port": {"type": "string"}, "masts": {"type": "integer"}, "crew": {"type": "object"}}}}}}})
}

/// A definition that is changed at a JSON pointer.
fn with(pointer: &str, value: Value) -> Value {
    changed(definition(), pointer, value)
}

fn changed(mut definition: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match definition.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        parent => parent[key] = value,
    }
    definition
}

fn told(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = Errors::new();
    Definition.validate(definition, old, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn names_group_and_scope_are_checked() {
    assert!(told(&definition(), None).is_empty());
    let mixed = format!("may have mixed case, but should otherwise match: {LABEL}");
    let cases = [
        ("/spec/scope", json!(""), "spec.scope: Required value".to_owned()),
        (
            "/spec/scope",
            json!("World"),
            "spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\"".to_owned(),
        ),
        ("/spec/names/singular", json!(""), "spec.names.singular: Required value".to_owned()),
        ("/spec/names/singular", json!("Ship"), format!("spec.names.singular: Invalid value: \"Ship\": {LABEL}")),
        ("/spec/names/kind", json!("a b"), format!("spec.names.kind: Invalid value: \"a b\": {mixed}")),
        (
            "/spec/names/listKind",
            json!("Ship"),
            "spec.names.listKind: Invalid value: \"Ship\": kind and listKind may not be the same".to_owned(),
        ),
        ("/spec/names/shortNames", json!(["s", "S"]), format!("spec.names.shortNames[1]: Invalid value: \"S\": {LABEL}")),
        ("/spec/names/categories", json!(["_"]), format!("spec.names.categories[0]: Invalid value: \"_\": {LABEL}")),
        (
            "/metadata/name",
            json!("boats.harbour.example.com"),
            "metadata.name: Invalid value: \"boats.harbour.example.com\": must be spec.names.plural+\".\"+spec.group"
                .to_owned(),
        ),
        ("/status/acceptedNames/plural", json!("S"), format!("status.acceptedNames.plural: Invalid value: \"S\": {LABEL}")),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
                .to_owned(),
        ),
    ];
    for (pointer, value, message) in cases {
        assert_eq!(told(&with(pointer, value), None), [message], "{pointer}");
    }
    let mut flat = with("/spec/group", json!("harbour"));
    flat["metadata"]["name"] = "ships.harbour".into();
    assert_eq!(told(&flat, None), ["spec.group: Invalid value: \"harbour\": should be a domain with at least one dot"]);
}

#[test]
fn versions_are_named_once_and_one_is_stored() {
    let (first, last) = (version("v1", true), version("v2", false));
    let told = |versions: Vec<Value>| told(&with("/spec/versions", json!(versions)), None);
    assert!(told(vec![first.clone(), last.clone()]).is_empty());
    let tail = |errors: &[String]| -> Vec<String> {
        errors.iter().map(|error| error.rsplit(": ").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(tail(&told(vec![first.clone(), version("v1", false)])), ["must contain unique version names"]);
    let one = "must have exactly one version marked as storage version";
    assert_eq!(tail(&told(vec![first.clone(), version("v2", true)])), [one, "must have the storage version v2"]);
    assert_eq!(
        tail(&told(vec![last.clone()])),
        [
            one,
            "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"
        ]
    );
    let unnamed = told(vec![first.clone(), version("2", false)]);
    assert_eq!(unnamed, [format!("spec.versions[1].name: Invalid value: \"2\": {LABEL}")]);
    assert_eq!(
        told(vec![changed(first.clone(), "/schema", Value::Null)]),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"]
    );
    let warned = |deprecated: bool, warning: &str| {
        let mut version = first.clone();
        (version["deprecated"], version["deprecationWarning"]) = (deprecated.into(), warning.into());
        tail(&told(vec![version]))
    };
    assert!(warned(true, "use v2").is_empty());
    assert_eq!(warned(false, "use v2"), ["can only be set for deprecated versions"]);
    assert_eq!(warned(true, ""), ["must not be an empty string"]);
    assert_eq!(warned(true, &"x".repeat(257)), ["must be <= 256 characters long"]);
    assert_eq!(
        warned(true, "a\nb"),
        ["must only contain printable UTF-8 characters; non-printable character found at index 1"]
    );
}

#[test]
fn what_versions_share_is_told_once() {
    let wrong = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}});
    let told = |versions: Vec<Value>| told(&with("/spec/versions", json!(versions)), None);
    let missing = |path: &str| {
        format!(
            "{path}.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields"
        )
    };
    let (first, last) = (version("v1", true), version("v2", false));
    let shared =
        vec![changed(first.clone(), "/schema", wrong.clone()), changed(last.clone(), "/schema", wrong.clone())];
    assert_eq!(told(shared), [missing("spec.validation")]);
    assert_eq!(told(vec![first, changed(last, "/schema", wrong)]), [missing("spec.versions[1].schema")]);
}

#[test]
fn columns_scale_and_selectable_fields_are_checked() {
    let told = |part: &str, value: Value| told(&with(&format!("/spec/versions/0/{part}"), value), None);
    let columns = |column: Value| told("additionalPrinterColumns", json!([column]));
    assert!(
        columns(json!({"name": "Masts", "type": "integer", "format": "int32", "jsonPath": ".spec.masts"})).is_empty()
    );
    assert_eq!(
        columns(json!({"name": "", "type": "word", "format": "zip", "jsonPath": "spec.masts"})),
        [
            "spec.additionalPrinterColumns[0].name: Required value",
            "spec.additionalPrinterColumns[0].type: Invalid value: \"word\": must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].format: Invalid value: \"zip\": must be one of byte,date,date-time,double,float,int32,int64,password",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec.masts\": must be a simple json path starting with .",
        ]
    );
    let scale = |scale: Value| told("subresources", json!({"scale": scale}));
    let sound = json!({"specReplicasPath": ".spec.masts", "statusReplicasPath": ".status.masts"});
    assert!(scale(sound).is_empty());
    assert_eq!(
        scale(json!({"specReplicasPath": ".status.masts", "labelSelectorPath": ".metadata.labels"})),
        [
            "spec.subresources.scale.specReplicasPath: Invalid value: \".status.masts\": should be a json path under .spec",
            "spec.subresources.scale.statusReplicasPath: Required value",
            "spec.subresources.scale.labelSelectorPath: Invalid value: \".metadata.labels\": should be a json path under either .spec or .status",
        ]
    );
    let selectable = |paths: &[&str]| {
        told("selectableFields", paths.iter().map(|path| json!({"jsonPath": path})).collect::<Vec<_>>().into())
    };
    assert!(selectable(&[".spec.port", ".spec.masts"]).is_empty());
    assert_eq!(
        selectable(&[".spec.sail", ".spec.crew", ".spec.port", ".spec.port", ""]),
        [
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.sail\": is an invalid path: does not refer to a valid field",
            "spec.selectableFields[1].jsonPath: Invalid value: \".spec.crew\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            "spec.selectableFields[3].jsonPath: Duplicate value: \".spec.port\"",
            "spec.selectableFields[4].jsonPath: Required value",
        ]
    );
}

#[test]
fn nine_selectable_fields_are_too_many_unless_they_were_there() {
    let names: Vec<String> = (0..9).map(|n| format!("f{n}")).collect();
    let mut many = definition();
    let version = &mut many["spec"]["versions"][0];
    for name in &names {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][name] = json!({"type": "string"});
    }
    version["selectableFields"] = names.iter().map(|name| json!({"jsonPath": format!(".spec.{name}")})).collect();
    assert_eq!(told(&many, None), ["spec.selectableFields: Too many: 9: must have at most 8 items"]);
    assert!(told(&many, Some(&many)).is_empty());
}

#[test]
fn a_conversion_webhook_is_reached_over_https() {
    let conversion =
        |webhook: Value| told(&with("/spec/conversion", json!({"strategy": "Webhook", "webhook": webhook})), None);
    let at = |config: Value| conversion(json!({"conversionReviewVersions": ["v1"], "clientConfig": config}));
    assert!(at(json!({"url": "https://example.com/convert"})).is_empty());
    assert!(at(json!({"service": {"namespace": "a", "name": "b", "port": 443, "path": "/convert"}})).is_empty());
    let form = "; desired format: https://host[/path]";
    let cases = [
        ("http://example.com", format!("\"http\": 'https' is the only allowed URL scheme{form}")),
        ("https:///x", format!("\"\": host must be specified{form}")),
        ("https://me@example.com", "\"me\": user information is not permitted in the URL".to_owned()),
        ("https://example.com#top", "\"top\": fragments are not permitted in the URL".to_owned()),
        ("https://example.com?a=b", "\"a=b\": query parameters are not permitted in the URL".to_owned()),
    ];
    for (url, message) in cases {
        let wanted = format!("spec.conversion.webhookClientConfig.url: Invalid value: {message}");
        assert_eq!(at(json!({"url": url})), [wanted], "{url}");
    }
    let either = "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required";
    assert_eq!(at(json!({})), [either]);
    assert_eq!(
        at(json!({"service": {"namespace": "a", "name": "b", "port": 0, "path": "convert//x"}})),
        [
            "spec.conversion.webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            "spec.conversion.webhookClientConfig.service.path: Invalid value: \"convert//x\": must start with a '/'",
            "spec.conversion.webhookClientConfig.service.path: Invalid value: \"convert//x\": segment[1] may not be empty",
        ]
    );
    assert_eq!(
        conversion(json!({"clientConfig": {"url": "https://example.com"}})),
        ["spec.conversion.conversionReviewVersions: Required value"]
    );
    assert_eq!(
        conversion(json!({"clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v2", "v2"]})),
        [
            "spec.conversion.conversionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
        ]
    );
    let idle = json!({"strategy": "None", "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]}});
    assert_eq!(
        told(&with("/spec/conversion", idle), None),
        [
            "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
        ]
    );
}

#[test]
fn an_established_definition_keeps_its_certificates_readable() {
    let webhook = |bundle: &str| {
        let config = json!({"url": "https://example.com", "caBundle": bundle});
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}})
    };
    let established = |definition: Value| {
        changed(definition, "/status/conditions", json!([{"type": "Established", "status": "True"}]))
    };
    let (plain, wrong) = (definition(), with("/spec/conversion", webhook("Zm9v")));
    assert!(told(&wrong, None).is_empty());
    assert!(told(&wrong, Some(&plain)).is_empty());
    assert_eq!(
        told(&wrong, Some(&established(plain))),
        [
            "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"Zm9v\": unable to load root certificates: unable to parse bytes as PEM block"
        ]
    );
    assert!(told(&wrong, Some(&established(wrong.clone()))).is_empty());
}

#[test]
fn what_objects_are_stored_by_does_not_change() {
    let established = with("/status/conditions", json!([{"type": "Established", "status": "True"}]));
    let scope = with("/spec/scope", json!("Cluster"));
    assert!(told(&scope, Some(&definition())).is_empty());
    assert_eq!(told(&scope, Some(&established)), ["spec.scope: Invalid value: \"Cluster\": field is immutable"]);
    let kind = with("/spec/names/kind", json!("Boat"));
    assert_eq!(told(&kind, Some(&established)), ["spec.names.kind: Invalid value: \"Boat\": field is immutable"]);
    let plural = with("/spec/names/plural", json!("boats"));
    assert_eq!(told(&plural, Some(&definition())), ["spec.names.plural: Invalid value: \"boats\": field is immutable"]);
}

#[test]
fn a_stored_definition_is_updated_though_its_schema_would_be_refused_today() {
    let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/port";
    let set = with(pointer, json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}));
    assert_eq!(told(&set, None).len(), 1);
    assert_eq!(told(&set, Some(&definition())).len(), 1);
    let renamed = changed(set.clone(), "/spec/names/shortNames", json!(["sh"]));
    assert!(told(&renamed, Some(&set)).is_empty());
}

#[test]
fn formats_that_mean_nothing_are_remarked_on_when_they_come_in() {
    let port = |format: &str| {
        let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/port";
        with(pointer, json!({"type": "string", "format": format}))
    };
    let (new, known) = (port("harbour"), port("date-time"));
    assert_eq!(Definition.warnings(&new, None), ["unrecognized format \"harbour\""]);
    assert_eq!(Definition.warnings(&new, Some(&known)), ["unrecognized format \"harbour\""]);
    assert!(Definition.warnings(&new, Some(&new)).is_empty());
    assert!(Definition.warnings(&known, None).is_empty());
}
