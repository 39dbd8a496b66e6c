//! A StatefulSet: Pods with names and storage of their own, one after the other.

use super::scale_paths;
use crate::resources::check::{self, same};
use crate::resources::print::{AGE, CONTAINERS, IMAGES, NAME, count, text};
use crate::strategy::{Printed, ScalePaths, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::{Value, json};
use std::borrow::Cow;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Ready", "Number of the pod with ready state", |set, _| {
        format!("{}/{}", count(set, &["status", "readyReplicas"]), count(set, &["spec", "replicas"])).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const OTHER_FIELDS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

const UNLIMITED_HISTORY: &str =
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
const COUNTS: [&str; 5] = ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];

pub struct StatefulSet;

impl Strategy for StatefulSet {
    fn default(&self, set: &mut Value) {
        let templates = object::at_mut(set, &["spec", "volumeClaimTemplates"]).and_then(Value::as_array_mut);
        for template in templates.into_iter().flatten() {
            let template = object::as_map(template);
            object::fill(template, "apiVersion", "v1");
            object::fill(template, "kind", "PersistentVolumeClaim");
        }
    }

    fn prepare_create(&self, set: &mut Value) {
        object::set(set, &["status"], json!({"replicas": 0, "availableReplicas": 0}));
    }

    /// The loop sets these fields of the template itself, and mounts a claim for each template of one.
    fn as_checked<'a>(&self, set: &'a Value) -> Cow<'a, Value> {
        let mut checked = set.clone();
        let claims: Vec<Value> = object::list(set, &["spec", "volumeClaimTemplates"])
            .iter()
            .map(|template| {
                let name = object::text(template, &["metadata", "name"]);
                json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
            })
            .collect();
        if let Some(spec) = object::at_mut(&mut checked, &["spec", "template", "spec"]).and_then(Value::as_object_mut) {
            spec.remove("hostname");
            spec.remove("subdomain");
            let is_other = |volume: &Value| claims.iter().all(|claim| claim["name"] != volume["name"]);
            let others = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
            let others: Vec<Value> = others.filter(|volume| is_other(volume)).cloned().collect();
            if !claims.is_empty() {
                spec.insert("volumes".to_owned(), claims.iter().cloned().chain(others).collect());
            }
        }
        Cow::Owned(checked)
    }

    fn validate(&self, set: &Value, old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let service = object::text(set, &["spec", "serviceName"]);
        // It never changes, so one that is stored is tolerated.
        if old.is_none() && !service.is_empty() {
            check::text(service, &spec.child("serviceName"), rules::dns_label, errors);
        }
        let policy = object::text(set, &["spec", "podManagementPolicy"]);
        if !matches!(policy, "OrderedReady" | "Parallel") {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(Error::invalid(&spec.child("podManagementPolicy"), policy, detail));
        }
        let strategy = spec.child("updateStrategy");
        match object::text(set, &["spec", "updateStrategy", "type"]) {
            "RollingUpdate" => {
                let value = object::at(set, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
                let path = strategy.child("rollingUpdate").child("maxUnavailable");
                if let Some(value) = value.filter(|value| !value.is_null()) {
                    check::number_or_percent(Some(value), &path, errors);
                    if check::is_zero(Some(value)) {
                        errors.push(Error::invalid(&path, value.clone(), "cannot be 0"));
                    }
                    check::not_more_than_all(Some(value), &path, errors);
                }
            }
            "OnDelete" => {
                if object::at(set, &["spec", "updateStrategy", "rollingUpdate"]).is_some_and(Value::is_object) {
                    let shown = set["spec"]["updateStrategy"]["rollingUpdate"].clone();
                    let detail = "only allowed for updateStrategy 'RollingUpdate'";
                    errors.push(Error::invalid(&strategy.child("rollingUpdate"), shown, detail));
                }
            }
            other => errors.push(Error::invalid(&strategy, other, "must be 'RollingUpdate' or 'OnDelete'")),
        }
        check::selects_template(set, "statefulset", errors);
        check::always_restarts(set, "StatefulSet", errors);
    }

    fn validate_update(&self, set: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        let mut spec = set.get("spec").cloned().unwrap_or_default();
        let was = old.get("spec").cloned().unwrap_or_default();
        for key in CHANGEABLE {
            match was.get(key) {
                Some(value) => object::set(&mut spec, &[key], value.clone()),
                None => drop(object::remove(&mut spec, &[key])),
            }
        }
        // What is stored spells out an empty name.
        object::fill(object::as_map(&mut spec), "serviceName", "");
        if !same(&spec, &was) {
            errors.push(Error::forbidden(&Path::new("spec"), OTHER_FIELDS));
        }
    }

    fn validate_status(&self, set: &Value, old: &Value, errors: &mut Errors) {
        check::counts(set, old, &COUNTS, errors);
        check::parts_of_replicas(set, &COUNTS[1..], errors);
    }

    fn warnings(&self, set: &Value, _old: Option<&Value>) -> Vec<String> {
        let limit = object::integer(set, &["spec", "revisionHistoryLimit"]);
        limit.filter(|limit| *limit < 0).map(|_| UNLIMITED_HISTORY.to_owned()).into_iter().collect()
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::dns_label(name)
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn scale(&self) -> Option<ScalePaths> {
        scale_paths()
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(change: Value) -> Value {
        let mut set = json!({"spec": {"podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}});
        for (key, value) in change.as_object().into_iter().flatten() {
            set["spec"][key] = value.clone();
        }
        set
    }

    fn problems(set: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Errors::default();
        StatefulSet.validate(set, old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_service_that_could_not_be_named_is_refused_once() {
        let bad = set(json!({"serviceName": "not a name"}));
        assert!(problems(&bad, None)[0].starts_with("spec.serviceName: Invalid value"), "{:?}", problems(&bad, None));
        assert!(problems(&bad, Some(&bad)).is_empty(), "it cannot be changed any more");
        assert!(problems(&set(json!({"serviceName": ""})), None).is_empty());
    }

    #[test]
    fn an_update_must_be_able_to_move() {
        for (most, expected) in
            [(json!(0), "cannot be 0"), (json!("0%"), "cannot be 0"), (json!("101%"), "must not be greater")]
        {
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}});
            let found = problems(&set(json!({"updateStrategy": strategy})), None);
            assert!(found.len() == 1 && found[0].contains(expected), "{most}: {found:?}");
        }
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
        assert!(problems(&set(json!({"updateStrategy": strategy})), None).is_empty());
    }

    #[test]
    fn a_container_mounts_a_claim_of_its_own() {
        let mut set = set(json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}));
        set["spec"]["template"]["spec"] = json!({"hostname": "Not A Name", "subdomain": "x",
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]});
        let checked = StatefulSet.as_checked(&set);
        let expected = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                                          {"name": "cache", "emptyDir": {}}]});
        assert_eq!(checked["spec"]["template"]["spec"], expected);
    }

    #[test]
    fn a_status_cannot_count_more_pods_than_there_are() {
        let status = |status: Value, old: Value| {
            let mut errors = Errors::default();
            StatefulSet.validate_status(&json!({"status": status}), &json!({"status": old}), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(status(json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}), json!({})).is_empty());
        for (wrong, field) in [
            (json!({"replicas": -1}), "status.replicas"),
            (json!({"replicas": 1, "currentReplicas": 2}), "status.currentReplicas"),
            (json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}), "status.availableReplicas"),
            (json!({"collisionCount": 1}), "status.collisionCount"),
        ] {
            let found = status(wrong.clone(), json!({"collisionCount": 2}));
            assert!(found.iter().any(|problem| problem.starts_with(field)), "{wrong}: {found:?}");
        }
        let limit = set(json!({"revisionHistoryLimit": -1}));
        assert_eq!(StatefulSet.warnings(&limit, None), [UNLIMITED_HISTORY]);
    }
}
