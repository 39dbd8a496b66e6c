//! Refuses, for any built-in kind, values that a type's fields do not take: `facts/rules.tsv` has the simple rules.
//!
//! As with defaults, a rule counts wherever its type stands. What one field alone cannot decide is a function of the
//! type, listed in [`CHECKS`]; what only a kind can decide is in the kind's own file.

use super::core::pod_spec;
use super::{admissionregistration, autoscaling, batch, check, core, networking, policy, rbac};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use pintle_schema::{Kind, NodeId, Schema};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::OnceLock;

type Check = fn(&Value, &Path, &mut Errors);

/// What takes more than one field to decide, by type.
const CHECKS: &[(&str, Check)] = &[
    ("meta.v1.LabelSelector", check::label_selector),
    ("core.v1.PodSpec", pod_spec::validate::spec),
    ("core.v1.PodTemplateSpec", pod_spec::validate::template),
    ("core.v1.PersistentVolumeClaimSpec", core::persistent_volume_claim::check_spec),
    ("batch.v1.JobSpec", batch::job_spec::check),
    ("autoscaling.v2.MetricSpec", autoscaling::metrics::check_metric),
    ("policy.v1.PodDisruptionBudgetSpec", policy::pod_disruption_budget::check_spec),
    ("networking.v1.IngressSpec", networking::ingress::check_spec),
    ("networking.v1.NetworkPolicySpec", networking::network_policy::check_spec),
    ("admissionregistration.v1.ValidatingWebhook", admissionregistration::webhook::check),
    ("admissionregistration.v1.MutatingWebhook", admissionregistration::webhook::check),
    ("admissionregistration.v1.RuleWithOperations", admissionregistration::rule::check),
    ("rbac.v1.PolicyRule", rbac::role::check_rule),
    ("rbac.v1.Subject", rbac::binding::check_subject),
];

enum Rule {
    Required(&'static str),
    /// One of these, sorted as the error shows them.
    OneOf(Vec<&'static str>),
    NotNegative,
    /// At least one, with the words of the error.
    Positive(&'static str),
    Between(i64, i64),
    Text(fn(&str) -> rules::Problems),
}

struct Row {
    field: &'static str,
    rule: Rule,
}

#[derive(Default)]
struct OfType {
    rows: Vec<Row>,
    check: Option<Check>,
}

/// The fields that take one of a list of values: type, field, values.
pub fn enumerations() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    table().iter().flat_map(|(type_name, of_type)| {
        of_type.rows.iter().filter_map(|row| match &row.rule {
            Rule::OneOf(values) => Some((*type_name, row.field, values.as_slice())),
            _ => None,
        })
    })
}

fn table() -> &'static BTreeMap<&'static str, OfType> {
    static TABLE: OnceLock<BTreeMap<&'static str, OfType>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: BTreeMap<&'static str, OfType> = BTreeMap::new();
        for line in include_str!("../../facts/rules.tsv").lines().skip(1) {
            if let [type_name, field, rule, argument] = line.split('\t').collect::<Vec<_>>()[..]
                && let Some(rule) = Rule::parse(rule, argument)
            {
                table.entry(type_name).or_default().rows.push(Row { field, rule });
            }
        }
        for (type_name, check) in CHECKS {
            table.entry(type_name).or_default().check = Some(*check);
        }
        table
    })
}

/// Checks everything but metadata, which is the same for all kinds, and a kind's own status.
pub fn check(schema: &Schema, value: &Value, errors: &mut Errors) {
    let Value::Object(map) = value else { return };
    let node = schema.node(schema.root_id());
    if let Some(of_type) = node.type_name.and_then(|name| table().get(name)) {
        of_type.check(value, map, &Path::root(), errors);
    }
    for (name, value) in map.iter().filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status")) {
        if let Some(child) = schema.child(schema.root_id(), name) {
            check_at(schema, child, value, &Path::new(name), errors);
        }
    }
}

fn check_at(schema: &Schema, id: NodeId, value: &Value, path: &Path, errors: &mut Errors) {
    let node = schema.node(id);
    match (value, &node.kind) {
        (Value::Object(map), Kind::Object { fields, additional }) => {
            if let Some(of_type) = node.type_name.and_then(|name| table().get(name)) {
                of_type.check(value, map, path, errors);
            }
            for (name, value) in map.iter().filter(|(_, value)| value.is_object() || value.is_array()) {
                match fields.get(name.as_str()).map(|field| field.node) {
                    Some(child) => check_at(schema, child, value, &path.child(name), errors),
                    None => {
                        if let Some(child) = additional {
                            check_at(schema, *child, value, &path.key(name), errors);
                        }
                    }
                }
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            for (i, item) in list.iter().enumerate().filter(|(_, item)| item.is_object()) {
                check_at(schema, *items, item, &path.index(i), errors);
            }
        }
        _ => {}
    }
}

impl OfType {
    fn check(&self, value: &Value, map: &Map<String, Value>, path: &Path, errors: &mut Errors) {
        for row in &self.rows {
            row.check(map, path, errors);
        }
        if let Some(check) = self.check {
            check(value, path, errors);
        }
    }
}

impl Rule {
    fn parse(rule: &str, argument: &'static str) -> Option<Self> {
        Some(match rule {
            "required" => Rule::Required(argument),
            "one of" => Rule::OneOf(argument.split('|').collect()),
            "not negative" => Rule::NotNegative,
            "positive" => Rule::Positive(check::POSITIVE),
            "above zero" => Rule::Positive(check::ABOVE_ZERO),
            "between" => {
                let (low, high) = argument.split_once('-')?;
                Rule::Between(low.parse().ok()?, high.parse().ok()?)
            }
            "text" => Rule::Text(match argument {
                "dns label" => rules::dns_label,
                "dns subdomain" => rules::dns_subdomain,
                "qualified name" => rules::qualified_name,
                "label value" => rules::label_value,
                "port name" => rules::port_name,
                "path segment" => rules::path_segment,
                _ => return None,
            }),
            _ => return None,
        })
    }
}

impl Row {
    fn check(&self, map: &Map<String, Value>, path: &Path, errors: &mut Errors) {
        let value = map.get(self.field).filter(|value| !value.is_null());
        let here = || path.child(self.field);
        let number = value.and_then(Value::as_i64);
        match &self.rule {
            Rule::Required(detail) => {
                let empty = match value {
                    None => true,
                    Some(Value::String(text)) => text.is_empty(),
                    Some(Value::Array(list)) => list.is_empty(),
                    Some(Value::Object(map)) => map.is_empty(),
                    Some(Value::Number(number)) => number.as_i64() == Some(0),
                    Some(_) => false,
                };
                if empty {
                    errors.push(Error::required(&here(), *detail));
                }
            }
            Rule::OneOf(values) => {
                if let Some(text) = value.and_then(Value::as_str)
                    && !values.contains(&text)
                {
                    errors.push(Error::not_supported(&here(), text, values));
                }
            }
            Rule::NotNegative => {
                if let Some(number) = number.filter(|n| *n < 0) {
                    errors.push(Error::invalid(&here(), number, check::NOT_NEGATIVE));
                }
            }
            Rule::Positive(detail) => {
                if let Some(number) = number.filter(|n| *n <= 0) {
                    errors.push(Error::invalid(&here(), number, *detail));
                }
            }
            Rule::Between(low, high) => {
                if let Some(number) = number.filter(|n| n < low || n > high) {
                    let detail = format!("must be between {low} and {high}, inclusive");
                    errors.push(Error::invalid(&here(), number, detail));
                }
            }
            Rule::Text(rule) => {
                let text = value.and_then(Value::as_str).unwrap_or_default();
                if !text.is_empty() {
                    errors.extend(rule(text).into_iter().map(|problem| Error::invalid(&here(), text, problem)));
                }
            }
        }
    }
}

/// The list at a key, with the path of each item.
pub fn items<'a>(value: &'a Value, path: &Path, key: &str) -> impl Iterator<Item = (Path, &'a Value)> {
    let here = path.child(key);
    object::list(value, &[key]).iter().enumerate().map(move |(i, item)| (here.index(i), item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_be_read_and_names_a_field_that_exists() {
        for (type_name, of_type) in table() {
            let schema = Schema::builtin(type_name).unwrap_or_else(|| panic!("no type {type_name}"));
            for row in &of_type.rows {
                assert!(schema.at(&[row.field]).is_some(), "{type_name}.{}", row.field);
            }
        }
        let lines = include_str!("../../facts/rules.tsv").lines().count() - 1;
        assert_eq!(table().values().map(|t| t.rows.len()).sum::<usize>(), lines);
    }
}
