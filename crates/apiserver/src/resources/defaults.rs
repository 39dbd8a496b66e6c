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
            if let [type_name, field, value, when] = line.split('\t').collect::<Vec<_>>()[..]
                && let Ok(value) = serde_json::from_str(value)
            {
                let when = when.split_once('=').map(|(field, values)| (field, values.split('|').collect()));
                table.entry(type_name).or_default().rows.push(Row { field, value, when });
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
    fn what_a_user_says_stays() {
        let schema = Schema::builtin("apps.v1.Deployment").unwrap();
        let mut deployment = json!({"spec": {"replicas": 0, "strategy": {"type": "Recreate"}}});
        fill(&schema, &mut deployment);
        assert_eq!(deployment["spec"]["replicas"], 0);
        assert!(deployment["spec"]["strategy"].get("rollingUpdate").is_none());
    }
}
