//! A Deployment: Pods of one template, replaced bit by bit when it changes.

use super::scale_paths;
use crate::resources::check;
use crate::resources::print::{AGE, CONTAINERS, IMAGES, NAME, count, selector, text, wide};
use crate::strategy::{Printed, ScalePaths, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Ready", "Number of the pod with ready state", |deployment, _| {
        let (ready, all) = (count(deployment, &["status", "readyReplicas"]), count(deployment, &["spec", "replicas"]));
        format!("{ready}/{all}").into()
    }),
    text("Up-to-date", "apps.v1.DeploymentStatus.updatedReplicas", |deployment, _| {
        count(deployment, &["status", "updatedReplicas"])
    }),
    text("Available", "apps.v1.DeploymentStatus.availableReplicas", |deployment, _| {
        count(deployment, &["status", "availableReplicas"])
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", "apps.v1.DeploymentSpec.selector", |deployment, _| {
        selector(object::at(deployment, &["spec", "selector"]))
    }),
];

pub struct Deployment;

impl Strategy for Deployment {
    fn validate(&self, deployment: &Value, _old: Option<&Value>, errors: &mut Errors) {
        check::selects_template(deployment, "deployment", errors);
        check::always_restarts(deployment, "ReplicaSet", errors);
        check_strategy(deployment, errors);
        let seconds = |key: &str| object::integer(deployment, &["spec", key]);
        if let Some(deadline) = seconds("progressDeadlineSeconds")
            && deadline <= seconds("minReadySeconds").unwrap_or(0)
        {
            let here = Path::new("spec").child("progressDeadlineSeconds");
            errors.push(Error::invalid(&here, deadline, "must be greater than minReadySeconds"));
        }
    }

    fn validate_update(&self, deployment: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(deployment, old, &["spec", "selector"], errors);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    /// What tools write beside the spec may make a new revision.
    fn counts_annotations(&self) -> bool {
        true
    }

    fn scale(&self) -> Option<ScalePaths> {
        scale_paths()
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn check_strategy(deployment: &Value, errors: &mut Errors) {
    let path = Path::new("spec").child("strategy").child("rollingUpdate");
    let rolling = object::at(deployment, &["spec", "strategy", "rollingUpdate"]).filter(|r| r.is_object());
    match (object::text(deployment, &["spec", "strategy", "type"]), rolling) {
        ("Recreate", Some(_)) => {
            errors.push(Error::forbidden(&path, "may not be specified when strategy `type` is 'Recreate'"));
        }
        ("RollingUpdate", Some(rolling)) => {
            let (away, extra) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            check::number_or_percent(away, &path.child("maxUnavailable"), errors);
            check::number_or_percent(extra, &path.child("maxSurge"), errors);
            if check::is_zero(away) && check::is_zero(extra) {
                let shown = away.cloned().unwrap_or_default();
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(Error::invalid(&path.child("maxUnavailable"), shown, detail));
            }
            check::not_more_than_all(away, &path.child("maxUnavailable"), errors);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(labels: Value, rolling: Value) -> Value {
        json!({"spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": labels}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        }})
    }

    #[test]
    fn a_deployment_that_could_never_settle_is_refused() {
        let fine = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
        for (object, error) in [
            (deployment(json!({"app": "x"}), fine.clone()), None),
            (
                deployment(json!({"app": "y"}), fine),
                Some(
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`",
                ),
            ),
            (
                deployment(json!({"app": "x"}), json!({"maxUnavailable": 0, "maxSurge": "0%"})),
                Some("spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"),
            ),
        ] {
            let mut errors = Errors::new();
            Deployment.validate(&object, None, &mut errors);
            assert_eq!(errors.first().map(ToString::to_string).as_deref(), error);
        }
    }

    #[test]
    fn what_a_deployment_selects_stays() {
        let old = json!({"spec": {"selector": {"matchLabels": {"app": "x"}}}});
        let new = json!({"spec": {"selector": {"matchLabels": {"app": "y"}}}});
        let mut errors = Errors::new();
        Deployment.validate_update(&new, &old, "", &mut errors);
        assert_eq!(
            errors[0].to_string(),
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"y\"}}: field is immutable"
        );
    }
}
