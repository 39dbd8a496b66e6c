//! What is accepted and stored but has no effect yet, in one table. Each row is a `Warning` header on every create and update,
//! which kubectl prints. A row goes when the feature comes; docs/compatibility.md repeats the list.

use crate::authn::User;
use crate::catalogue::Resource;
use pintle_meta::object;
use serde_json::Value;

/// Who would act on it. Where another program runs the loops, this server cannot know that nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    ApiServer,
    /// Controllers, the scheduler, the nodes.
    Loops,
}

/// One kind, or one field of it, that has no effect.
pub struct Row {
    pub group: &'static str,
    pub resource: &'static str,
    /// As the documentation names it: empty for the whole kind.
    pub field: &'static str,
    pub actor: Actor,
    pub sentence: &'static str,
    applies: fn(&Value) -> bool,
}

const fn kind(group: &'static str, resource: &'static str, actor: Actor, sentence: &'static str) -> Row {
    Row { group, resource, field: "", actor, sentence, applies: |_| true }
}

const fn field(
    (group, resource, field): (&'static str, &'static str, &'static str),
    actor: Actor,
    sentence: &'static str,
    applies: fn(&Value) -> bool,
) -> Row {
    Row { group, resource, field, actor, sentence, applies }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const DEVICES: &str = "resource.k8s.io";

const NO_POLICY: &str = "Pintle does not evaluate admission policies yet: this object is stored and has no effect";
const NO_DEVICES: &str = "Pintle does not allocate devices yet: this object is stored and has no effect";

pub const TABLE: &[Row] = &[
    kind(ADMISSION, "mutatingadmissionpolicies", Actor::ApiServer, NO_POLICY),
    kind(ADMISSION, "mutatingadmissionpolicybindings", Actor::ApiServer, NO_POLICY),
    kind(ADMISSION, "validatingadmissionpolicies", Actor::ApiServer, NO_POLICY),
    kind(ADMISSION, "validatingadmissionpolicybindings", Actor::ApiServer, NO_POLICY),
    field(
        (EXTENSIONS, "customresourcedefinitions", "x-kubernetes-validations"),
        Actor::ApiServer,
        "Pintle does not compile or evaluate CEL rules yet: x-kubernetes-validations has no effect",
        |definition| has_rules(&definition["spec"]["versions"]),
    ),
    kind(
        "networking.k8s.io",
        "servicecidrs",
        Actor::ApiServer,
        "Pintle allocates service addresses from its own range: this ServiceCIDR is stored and has no effect",
    ),
    kind(
        "networking.k8s.io",
        "ingresses",
        Actor::Loops,
        "Pintle has no ingress controller: this Ingress has no effect unless one is installed",
    ),
    field(
        ("storage.k8s.io", "storageclasses", "provisioner"),
        Actor::Loops,
        "Pintle provisions volumes of pintle.dev/local-path alone: claims of this StorageClass wait for a volume unless its provisioner is installed",
        |class| {
            !matches!(object::text(class, &["provisioner"]), "kubernetes.io/no-provisioner" | "pintle.dev/local-path")
        },
    ),
    kind(
        "storage.k8s.io",
        "csidrivers",
        Actor::Loops,
        "Pintle's nodes do not use CSI drivers yet: this CSIDriver is stored and has no effect",
    ),
    kind(
        "storage.k8s.io",
        "volumeattributesclasses",
        Actor::Loops,
        "Pintle does not modify volumes yet: this VolumeAttributesClass is stored and has no effect",
    ),
    kind(DEVICES, "deviceclasses", Actor::Loops, NO_DEVICES),
    kind(DEVICES, "resourceclaims", Actor::Loops, NO_DEVICES),
    kind(DEVICES, "resourceclaimtemplates", Actor::Loops, NO_DEVICES),
    kind(DEVICES, "resourceslices", Actor::Loops, NO_DEVICES),
    field(
        ("", "pods", "spec.resourceClaims"),
        Actor::Loops,
        "Pintle does not allocate devices yet: nodes refuse Pods with spec.resourceClaims",
        |pod| !object::list(pod, &["spec", "resourceClaims"]).is_empty(),
    ),
    field(
        ("", "pods", "spec.containers[*].lifecycle.stopSignal"),
        Actor::Loops,
        "Pintle does not send stop signals of a container's own yet: lifecycle.stopSignal has no effect, the image's signal is sent",
        |pod| {
            let containers = object::list(pod, &["spec", "containers"]).iter();
            let mut all = containers.chain(object::list(pod, &["spec", "initContainers"]));
            all.any(|container| object::at(container, &["lifecycle", "stopSignal"]).is_some())
        },
    ),
];

/// The warnings for the writer of `object`. The server's own loops get none.
pub fn warnings(resource: &Resource, object: &Value, user: &User, own_loops: bool) -> Vec<String> {
    if is_own(user) {
        return Vec::new();
    }
    let rows = TABLE.iter().filter(|row| row.resource == resource.name && row.group == resource.group);
    let heard = rows.filter(|row| own_loops || row.actor == Actor::ApiServer);
    heard.filter(|row| (row.applies)(object)).map(|row| row.sentence.to_owned()).collect()
}

fn is_own(user: &User) -> bool {
    user.name.starts_with("system:") && !user.name.starts_with("system:serviceaccount:")
}

/// Whether a schema has rules, at any depth.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let here = map.get("x-kubernetes-validations").and_then(Value::as_array);
            here.is_some_and(|rules| !rules.is_empty()) || map.values().any(has_rules)
        }
        Value::Array(list) => list.iter().any(has_rules),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use serde_json::json;

    #[test]
    fn every_row_names_a_kind_that_is_served() {
        let catalogue = Catalogue::default();
        for row in TABLE {
            let served = catalogue.resources().any(|r| r.group == row.group && r.name == row.resource);
            assert!(served, "{}/{}", row.group, row.resource);
        }
    }

    #[test]
    fn the_documentation_has_the_same_list() {
        let documented = include_str!("../../../docs/compatibility.md");
        for row in TABLE {
            let what = if row.field.is_empty() {
                row.resource.to_owned()
            } else {
                format!("{} `{}`", row.resource, row.field)
            };
            let line = format!("| {what} | {} |", row.sentence);
            assert!(documented.contains(&line), "docs/compatibility.md lacks the line\n{line}");
        }
    }

    #[test]
    fn only_what_has_no_effect_is_warned_of() {
        let catalogue = Catalogue::default();
        let count = |group: &str, resource: &str, object: Value, user: &str, own_loops: bool| {
            let resource = catalogue.get(group, "v1", resource).expect("it is served");
            warnings(resource, &object, &User::new(user, &[]), own_loops).len()
        };
        assert_eq!(count("storage.k8s.io", "volumeattributesclasses", json!({}), "ann", true), 1);
        assert_eq!(
            count("storage.k8s.io", "volumeattributesclasses", json!({}), "ann", false),
            0,
            "another program may run them"
        );
        assert_eq!(
            count("storage.k8s.io", "volumeattributesclasses", json!({}), "system:kube-controller-manager", true),
            0
        );
        assert_eq!(count("storage.k8s.io", "volumeattributesclasses", json!({}), "system:serviceaccount:a:b", true), 1);
        let rule = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {
            "x-kubernetes-validations": [{"rule": "true"}]}}}}}], "conversion": {"strategy": "Webhook"}}});
        assert_eq!(count("apiextensions.k8s.io", "customresourcedefinitions", rule, "ann", false), 1);
    }
}
