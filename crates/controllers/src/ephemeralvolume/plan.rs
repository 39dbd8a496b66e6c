//! The claims that a Pod's ephemeral volumes stand for.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::plan::Note;
use pintle_runtime::{Plan, Write, owner, storage};

/// A claim of somebody else may go: it is looked at again.
const RETRY: Duration = Duration::from_secs(30);

pub(super) fn has_ephemeral_volumes(pod: &Pod) -> bool {
    ephemeral(pod).next().is_some()
}

fn ephemeral(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter(|volume| volume.ephemeral.is_some())
}

/// Creates the claims that are not there. One of that name that is not the Pod's own is somebody's data: it is left alone, and
/// the Pod does not start.
pub(super) fn plan(pod: &Pod, find: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>) -> Plan {
    let mut plan = Plan::default();
    if pod.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    for volume in ephemeral(pod) {
        let Some(name) = storage::claim_name(pod, volume) else { continue };
        match find(&name) {
            Some(claim) if owner::is_controlled_by(&claim.metadata, pod.metadata.uid.as_deref()) => {}
            Some(_) => {
                let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
                let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
                let message = format!(
                    "ephemeral volume {}: PVC {namespace}/{name} was not created for pod {namespace}/{pod_name} (pod is not \
                     owner)",
                    volume.name
                );
                plan.events.push(Note::warning("FailedBinding", message));
                plan.look_again(Some(RETRY));
            }
            None => plan.writes.extend(claim_of(pod, volume, &name)),
        }
    }
    plan
}

fn claim_of(pod: &Pod, volume: &Volume, name: &str) -> Option<Write> {
    let template = volume.ephemeral.as_ref()?.volume_claim_template.clone()?;
    let said = template.metadata.unwrap_or_default();
    let claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: pod.metadata.namespace.clone(),
            labels: said.labels,
            annotations: said.annotations,
            owner_references: Some(vec![owner::controller_reference(pod)]),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec),
        status: None,
    };
    let message = format!("ephemeral volume {}: create PVC {name}: {{error}}", volume.name);
    Some(Write::create(&claim).warning("FailedBinding", message))
}
