//! Doing what the plan says: one Pod with a name that only this At can have, so that it can never run twice.

use crate::plan::{Run, Step, step};
use crate::types::{At, AtStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use pintle_runtime::{
    Action, ApiError, Attempt, Clock, Context, Controller, Error, Informer, Key, Reconciler, Recorder, owner,
};
use serde_json::json;

/// Runs the operator until its context's shutdown fires.
pub async fn run(context: Context) {
    let (ats, pods) = (context.informers.of::<At>(), context.informers.of::<Pod>());
    let reconciler = AtReconciler {
        client: context.client.clone(),
        clock: context.clock.clone(),
        recorder: context.recorder("at-operator"),
        ats: ats.clone(),
    };
    Controller::new("at", &context)
        .workers(2)
        .watch(&ats, |change| vec![change.key()])
        .watch(&pods, |change| owner::controller_key::<At>(&change.object().metadata).into_iter().collect())
        .run(reconciler)
        .await;
}

struct AtReconciler {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    ats: Informer<At>,
}

impl Reconciler for AtReconciler {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(at) = self.ats.get(key) else { return Ok(Action::done()) };
        if at.meta().deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        // Asked of the server, not of the cache: a Pod that was just started may not have come back yet.
        let run = match pods.get_opt(&pod_name(&at)).await? {
            Some(pod) if owner::is_controlled_by(&pod.metadata, at.meta().uid.as_deref()) => state(&pod),
            _ => Run::Absent,
        };
        match step(&at, run, self.clock.now()) {
            Step::Rest => Ok(Action::done()),
            Step::Wait(time) => Ok(Action::requeue_after(time)),
            Step::StartPod => {
                match pods.create(&PostParams::default(), &pod_for(&at)?).await {
                    Err(error) if !error.is_already_exists() => return Err(error.into()),
                    _ => {}
                }
                let status = AtStatus { phase: Some(crate::types::Phase::Running), message: "the command runs".into() };
                self.record(&at, status).await
            }
            Step::Record(status) => self.record(&at, status).await,
        }
    }
}

impl AtReconciler {
    async fn record(&self, at: &At, status: AtStatus) -> Result<Action, Error> {
        let api: Api<At> = Api::namespaced(self.client.clone(), &at.namespace().unwrap_or_default());
        // The version guards the transition: from one state there is one step.
        let patch = json!({"metadata": {"resourceVersion": at.resource_version()}, "status": status});
        api.patch_status(&at.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.recorder.normal(at, "Phase", &status.message);
        Ok(Action::done())
    }
}

fn pod_name(at: &At) -> String {
    format!("{}-at-{}", at.name_any(), at.uid().unwrap_or_default().split('-').next().unwrap_or_default())
}

fn state(pod: &Pod) -> Run {
    match pod.status.as_ref().and_then(|s| s.phase.as_deref()) {
        Some("Succeeded") => Run::Succeeded,
        Some("Failed") => Run::Failed,
        _ => Run::Unfinished,
    }
}

fn pod_for(at: &At) -> Result<Pod, Error> {
    let pod = json!({
        "metadata": {
            "name": pod_name(at), "namespace": at.namespace(), "annotations": at.annotations(),
            "ownerReferences": [owner::controller_reference(at)],
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "command", "image": "busybox", "command": ["sh", "-c", at.spec.command]}]},
    });
    serde_json::from_value(pod).map_err(|error| Error::Invalid(error.to_string()))
}
