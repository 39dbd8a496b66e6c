//! What to do about one Website, from what is there: no I/O, so that every state can be tested.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use pintle_runtime::conditions::{self, ConditionType, Report};
use pintle_runtime::plan::Note;
use pintle_runtime::{Plan, Write, owner};

use crate::reconcile::NAME;
use crate::types::{Holds, Website};

/// On the Deployment's Pods: the UID of what they belong to. A name may be longer than a label's value.
const LABEL: &str = "example.com/website";

/// When a name that is taken is looked at again: nothing wakes us when it is free.
const TAKEN: Duration = Duration::from_secs(60);

pub fn plan(object: &Website, found: Option<&Deployment>, now: Timestamp) -> Plan {
    let (mut plan, report) = (Plan::default(), Report::on(object.meta(), now));
    let mut status = object.status.clone().unwrap_or_default();
    let was_ready = conditions::is_true(&status.conditions, Holds::Ready.as_str());
    status.observed_generation = object.meta().generation;
    let (name, wanted) = (object.name_any(), deployment_for(object));
    if found.is_some_and(|found| !owner::is_controlled_by(&found.metadata, object.meta().uid.as_deref())) {
        let message = format!("Deployment {name} belongs to somebody else; delete it, or choose another name");
        if report.set(&mut status.conditions, Holds::Ready, false, "NameTaken", &message) {
            plan.events.push(Note::warning("NameTaken", message));
        }
        plan.again = Some(TAKEN);
    } else {
        plan.writes.push(match found {
            None => Write::create(&wanted).saying("Created", "Deployment {name} was created"),
            // Nothing is sent while the Deployment is as it should be.
            Some(found) => Write::apply(&Deployment { metadata: of(found, &wanted), ..wanted }, NAME)
                .over(Some(found))
                .saying("Corrected", "Deployment {name} is as asked for again"),
        });
        let (ready, complete) = progress(object, found);
        status.ready_replicas = ready;
        let reason = if complete { "AllReady" } else { "InProgress" };
        let message = format!("{ready} of {} Pods are ready", object.spec.replicas);
        report.set(&mut status.conditions, Holds::Ready, complete, reason, &message);
        if complete && !was_ready {
            plan.events.push(Note::normal("Ready", message));
        }
    }
    plan.set_status(object, object.status.as_ref(), &status);
    plan
}

/// How many Pods are ready, and whether that is all of them as they should be.
fn progress(object: &Website, found: Option<&Deployment>) -> (i32, bool) {
    let Some(found) = found else { return (0, false) };
    let status = found.status.clone().unwrap_or_default();
    let (ready, all) = (status.ready_replicas.unwrap_or_default(), Some(object.spec.replicas));
    // Until the Deployment's own loop has seen the latest change, its figures are about the one before.
    let is_current = status.observed_generation >= found.metadata.generation;
    let none_is_old = status.updated_replicas.or(Some(0)) == all && status.replicas.or(Some(0)) == all;
    (ready, is_current && none_is_old && found.metadata.deletion_timestamp.is_none() && Some(ready) == all)
}

/// The metadata of what is applied to this very Deployment, and to none that has taken its name.
fn of(found: &Deployment, wanted: &Deployment) -> ObjectMeta {
    ObjectMeta { uid: found.metadata.uid.clone(), ..wanted.metadata.clone() }
}

/// The Deployment as it should be. It has the name of its owner, so that there cannot be two.
pub fn deployment_for(object: &Website) -> Deployment {
    let labels = Some([(LABEL.to_owned(), object.uid().unwrap_or_default())].into());
    let container = Container { name: "main".into(), image: Some(object.spec.image.clone()), ..Container::default() };
    Deployment {
        // The garbage collector deletes it with its owner.
        metadata: owner::child(object, &object.name_any()),
        spec: Some(DeploymentSpec {
            replicas: Some(object.spec.replicas),
            selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}
