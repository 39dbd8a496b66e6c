//! What a runtime that keeps nothing is told of a Pod: simulated containers outlive the program that simulates them.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use pintle_container::{ContainerId, PodRef, Recalled, RecalledRun};

/// What the Pod's status says; nothing if it says of no container that it ran.
pub(super) fn recalled(pod: &Pod, status: &PodStatus, runtime_name: &str) -> Option<Recalled> {
    let meta = &pod.metadata;
    let statuses = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let runs: Vec<RecalledRun> = statuses.filter_map(|status| run(status, runtime_name)).collect();
    let is_own = pod.spec.as_ref().is_none_or(|spec| spec.host_network != Some(true));
    let addresses = status.pod_ips.iter().flatten().filter(|_| is_own).filter_map(|ip| ip.ip.parse().ok()).collect();
    let pod = PodRef {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone()?,
    };
    let annotations = meta.annotations.clone().unwrap_or_default();
    (!runs.is_empty()).then_some(Recalled { pod, annotations, addresses, runs })
}

fn run(status: &ContainerStatus, runtime_name: &str) -> Option<RecalledRun> {
    let state = status.state.as_ref()?;
    let (started_at, ended) = match (&state.running, &state.terminated) {
        (Some(running), _) => (running.started_at.as_ref()?.0, None),
        (None, Some(ended)) => {
            let finished_at = ended.finished_at.as_ref()?.0;
            (ended.started_at.as_ref()?.0, Some((finished_at, ended.exit_code)))
        }
        (None, None) => return None,
    };
    let id = status.container_id.as_deref()?.strip_prefix(runtime_name)?.strip_prefix("://")?;
    Some(RecalledRun {
        id: ContainerId(id.to_owned()),
        name: status.name.clone(),
        attempt: u32::try_from(status.restart_count).ok()?,
        image: status.image.clone(),
        image_id: status.image_id.clone(),
        started_at,
        ended,
    })
}
