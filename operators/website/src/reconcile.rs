//! Doing what the plan says. Each write can be the last before a crash; the next process goes on from what is there.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use pintle_runtime::conditions::{self, ConditionType, Report};
use pintle_runtime::{
    Action, ApiError, Attempt, Context, Controller, Error, Informer, Key, Reconciler, Recorder, Status, when,
};
use serde_json::json;

use crate::plan::{Step, deployment_for, spec_for, step};
use crate::types::{Holds, Website, WebsiteStatus};

/// The name under which the operator writes, records events and is known to tests.
pub const NAME: &str = "website-operator";

/// When a name that is taken is looked at again: nobody tells us when it is free.
const TAKEN: Duration = Duration::from_secs(60);

/// Runs the operator until its context's shutdown fires.
pub async fn run(context: Context) {
    let operator = Operator {
        recorder: context.recorder(NAME),
        objects: context.informers.of(),
        deployments: context.informers.of(),
    };
    Controller::new("website", &context)
        .for_each::<Website>(when::spec)
        .owns::<Deployment>(when::anything)
        .workers(2)
        .run(operator)
        .await;
}

struct Operator {
    recorder: Recorder,
    objects: Informer<Website>,
    deployments: Informer<Deployment>,
}

impl Reconciler for Operator {
    async fn reconcile(&self, key: &Key, attempt: &Attempt) -> Result<Action, Error> {
        let Some(object) = self.objects.get(key) else { return Ok(Action::done()) };
        // On its way out. There is nothing to clean up here: what it owns goes with it.
        if object.meta().deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let mut status = Status::of(&*object);
        let was_ready = is_ready(&status);
        let outcome = self.bring_about(&object, &mut status, attempt).await;
        let becomes_ready = !was_ready && is_ready(&status);
        let action = status.leave(&attempt.api(), outcome).await?;
        if becomes_ready {
            self.recorder.normal(&*object, "Ready", format!("all {} Pods are ready", object.spec.replicas));
        }
        Ok(action)
    }
}

impl Operator {
    async fn bring_about(
        &self,
        object: &Website,
        status: &mut WebsiteStatus,
        attempt: &Attempt,
    ) -> Result<Action, Error> {
        let report = Report::on(object.meta(), attempt.now());
        let (found, api) = (self.deployments.get(&attempt.key), attempt.api::<Deployment>());
        status.observed_generation = object.meta().generation;
        let name = object.name_any();
        match (step(object, found.as_deref()), found) {
            (Step::Rest { ready, complete }, _) => {
                status.ready_replicas = ready;
                let reason = if complete { "AllReady" } else { "InProgress" };
                let message = format!("{ready} of {} Pods are ready", object.spec.replicas);
                report.set(&mut status.conditions, Holds::Ready, complete, reason, message);
            }
            (Step::Refuse, _) => {
                let message = format!("Deployment {name} belongs to somebody else; delete it, or choose another name");
                if report.set(&mut status.conditions, Holds::Ready, false, "NameTaken", &message) {
                    self.recorder.warning(object, "NameTaken", message);
                }
                return Ok(Action::requeue_after(TAKEN));
            }
            (Step::Correct, Some(found)) => {
                // The version says: as it was seen, or not at all. Fields that are not ours are not in the patch.
                let seen = json!({"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version});
                let patch = json!({"metadata": seen, "spec": spec_for(object)});
                api.patch(&name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
                self.recorder.normal(object, "Corrected", format!("Deployment {name} is as asked for again"));
                report.set(&mut status.conditions, Holds::Ready, false, "InProgress", "the Deployment was changed");
            }
            (Step::Create | Step::Correct, _) => {
                match api.create(&PostParams::default(), &deployment_for(object)).await {
                    // The cache did not show it yet; the next attempt sees whose it is.
                    Err(error) if error.is_already_exists() => return Err(Error::Stale),
                    other => drop(other?),
                }
                self.recorder.normal(object, "Created", format!("Deployment {name} was created"));
                report.set(&mut status.conditions, Holds::Ready, false, "InProgress", "the Deployment was created");
            }
        }
        // What comes next, the Deployment tells: its changes wake this key.
        Ok(Action::done())
    }
}

fn is_ready(status: &WebsiteStatus) -> bool {
    conditions::is_true(&status.conditions, Holds::Ready.as_str())
}
