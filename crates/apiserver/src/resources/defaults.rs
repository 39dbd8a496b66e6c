//! Fills in, for any built-in kind, what a type's fields are when nothing is said: `facts/defaults.tsv` has them.
//!
//! A row fills its field wherever its type stands, however deep (a PodSpec in a Pod, in a Deployment's template, in
//! a CronJob's job). Rows run in their order; `when` asks for the value of a field beside it, after the rows before:
//!
//! ```text
//! apps.v1.DeploymentStrategy  type           "RollingUpdate"
//! apps.v1.DeploymentStrategy  rollingUpdate  {}               type=RollingUpdate
//! ```
//!
//! A field that Go's types always write and that is no pointer comes in as its zero value from typed clients: where `zero` is
//! `absent`, an empty text or a 0 is filled in too. (A zero value that Go's types leave out was dropped when the body was decoded;
//! one behind a pointer is what the user said.)
//!
//! What depends on more than that is code, in the kind's own file.

use super::core::pod_spec;
use pintle_meta::object;
use pintle_schema::{Kind, NodeId, Schema};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::OnceLock;

type Compute = fn(&mut Map<String, Value>);

/// Defaults that follow from other fields of the type.
const COMPUTED: &[(&str, Compute)] = &[
    ("core.v1.Container", pod_spec::default::container),
    ("core.v1.EphemeralContainer", pod_spec::default::container),
    ("core.v1.Volume", pod_spec::default::volume),
];

struct Row {
    field: &'static str,
    value: Value,
    /// The field to look at, and the values with which the row counts.
    when: Option<(&'static str, Vec<&'static str>)>,
    zero_is_absent: bool,
}

#[derive(Default)]
struct OfType {
    computed: Option<Compute>,
    rows: Vec<Row>,
}

fn table() -> &'static BTreeMap<&'static str, OfType> {
    static TABLE: OnceLock<BTreeMap<&'static str, OfType>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: BTreeMap<&'static str, OfType> = BTreeMap::new();
        for line in include_str!("../../facts/defaults.tsv").lines().skip(1) {
            if let [type_name, field, value, when, zero] = line.split('\t').collect::<Vec<_>>()[..]
                && let Ok(value) = serde_json::from_str(value)
            {
                let when = when.split_once('=').map(|(field, values)| (field, values.split('|').collect()));
                table.entry(type_name).or_default().rows.push(Row {
                    field,
                    value,
                    when,
                    zero_is_absent: zero == "absent",
                });
            }
        }
        for (type_name, computed) in COMPUTED {
            table.entry(type_name).or_default().computed = Some(*computed);
        }
        table
    })
}

pub fn fill(schema: &Schema, value: &mut Value) {
    fill_at(schema, schema.root_id(), value);
}

fn fill_at(schema: &Schema, id: NodeId, value: &mut Value) {
    let node = schema.node(id);
    match (value, &node.kind) {
        (Value::Object(map), Kind::Object { fields, additional }) => {
            if let Some(of_type) = node.type_name.and_then(|name| table().get(name)) {
                of_type.fill(map);
            }
            for (name, value) in map.iter_mut().filter(|(_, value)| value.is_object() || value.is_array()) {
                if let Some(child) = fields.get(name.as_str()).map(|field| field.node).or(*additional) {
                    fill_at(schema, child, value);
                }
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            list.iter_mut().for_each(|item| fill_at(schema, *items, item));
        }
        _ => {}
    }
}

impl OfType {
    fn fill(&self, map: &mut Map<String, Value>) {
        if let Some(computed) = self.computed {
            computed(map);
        }
        for row in &self.rows {
            if row.applies(map) {
                if row.zero_is_absent && map.get(row.field).is_some_and(|given| *given == "" || *given == 0) {
                    map.remove(row.field);
                }
                object::fill(map, row.field, row.value.clone());
            }
        }
    }
}

impl Row {
    fn applies(&self, map: &Map<String, Value>) -> bool {
        self.when.as_ref().is_none_or(|(field, values)| {
            let found = map.get(*field).and_then(Value::as_str).unwrap_or_default();
            values.contains(&found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_row_names_a_field_that_exists() {
        for (type_name, of_type) in table() {
            let schema = Schema::builtin(type_name).unwrap_or_else(|| panic!("no type {type_name}"));
            for row in &of_type.rows {
                assert!(schema.at(&[row.field]).is_some(), "{type_name}.{}", row.field);
            }
        }
        let lines = include_str!("../../facts/defaults.tsv").lines().count() - 1;
        assert_eq!(table().values().map(|of_type| of_type.rows.len()).sum::<usize>(), lines);
    }

    #[test]
    fn a_pod_deep_in_a_cron_job_gets_its_defaults() {
        let schema = Schema::builtin("batch.v1.CronJob").unwrap();
        let mut job =
            json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}}});
        fill(&schema, &mut job);
        let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        assert_eq!(pod["restartPolicy"], "Always");
        assert_eq!(pod["containers"][0]["terminationMessagePolicy"], "File");
        assert_eq!(job["spec"]["concurrencyPolicy"], "Allow");
    }

    #[test]
    fn a_zero_value_of_a_typed_client_is_nothing_said() {
        let cases = [
            ("rbac.v1.RoleBinding", "/roleRef/apiGroup", json!(""), json!("rbac.authorization.k8s.io")),
            ("rbac.v1.ClusterRoleBinding", "/subjects/0/apiGroup", json!(""), json!("rbac.authorization.k8s.io")),
            ("flowcontrol.v1.FlowSchema", "/spec/matchingPrecedence", json!(0), json!(1000)),
            (
                "flowcontrol.v1.PriorityLevelConfiguration",
                "/spec/limited/limitResponse/queuing/queues",
                json!(0),
                json!(64),
            ),
            (
                "flowcontrol.v1.PriorityLevelConfiguration",
                "/spec/limited/limitResponse/queuing/handSize",
                json!(0),
                json!(8),
            ),
            ("batch.v1.Job", "/spec/podFailurePolicy/rules/0/onPodConditions/0/status", json!(""), json!("True")),
            ("core.v1.Pod", "/spec/restartPolicy", json!(""), json!("Always")),
            ("core.v1.Pod", "/spec/containers/0/imagePullPolicy", json!(""), json!("IfNotPresent")),
            ("core.v1.Pod", "/spec/containers/0/livenessProbe/periodSeconds", json!(0), json!(10)),
            ("core.v1.Service", "/spec/ports/0/protocol", json!(""), json!("TCP")),
            ("core.v1.Service", "/spec/type", json!(""), json!("ClusterIP")),
            ("core.v1.Secret", "/type", json!(""), json!("Opaque")),
            ("batch.v1.CronJob", "/spec/concurrencyPolicy", json!(""), json!("Allow")),
            ("apps.v1.Deployment", "/spec/strategy/type", json!(""), json!("RollingUpdate")),
            // Behind a pointer, zero is a value.
            ("apps.v1.Deployment", "/spec/replicas", json!(0), json!(0)),
            ("flowcontrol.v1.PriorityLevelConfiguration", "/spec/limited/nominalConcurrencyShares", json!(0), json!(0)),
            ("networking.v1.IngressClass", "/spec/parameters/scope", json!(""), json!("")),
            (
                "admissionregistration.v1.ValidatingWebhookConfiguration",
                "/webhooks/0/failurePolicy",
                json!(""),
                json!(""),
            ),
        ];
        for (type_name, path, given, wanted) in cases {
            let schema = Schema::builtin(type_name).unwrap();
            // Builds what the path names, from its end.
            let object = path.rsplit('/').filter(|step| !step.is_empty()).fold(given, |inner, step| match step {
                "0" => json!([inner]),
                "roleRef" => json!({step: {"apiGroup": inner["apiGroup"], "kind": "Role", "name": "r"}}),
                "subjects" => json!({step: [{"apiGroup": "", "kind": "User", "name": "u"}]}),
                _ => json!({step: inner}),
            });
            let mut object = pintle_schema::decode::decode(&schema, object).unwrap().value;
            if let Some(container) = object.pointer_mut("/spec/containers/0").and_then(Value::as_object_mut) {
                container.insert("image".into(), "nginx:1".into());
            }
            fill(&schema, &mut object);
            assert_eq!(object.pointer(path), Some(&wanted), "{type_name} {path}");
        }
    }

    #[test]
    fn what_a_user_says_stays() {
        let schema = Schema::builtin("apps.v1.Deployment").unwrap();
        let mut deployment = json!({"spec": {"replicas": 0, "strategy": {"type": "Recreate"}}});
        fill(&schema, &mut deployment);
        assert_eq!(deployment["spec"]["replicas"], 0);
        assert!(deployment["spec"]["strategy"].get("rollingUpdate").is_none());
    }
}
