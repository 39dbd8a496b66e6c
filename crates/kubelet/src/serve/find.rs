//! The Pod, the sandbox and the container that a path names.

use std::path::PathBuf;
use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec};
use pintle_container::{Container, Sandbox, SandboxState, State};
use pintle_runtime::Key;

use super::{Failure, Serving};
use crate::logs::place;
use crate::pods::{Home, node_of};
use crate::statics::mirror::uid_at_runtime;

pub(super) fn pod(serving: &Serving, home: &Home, namespace: &str, name: &str) -> Result<Arc<Pod>, Failure> {
    let pod = serving.pods.informer().get(&Key::new(namespace, name));
    let pod = pod.filter(|pod| node_of(pod) == Some(&home.name));
    pod.ok_or_else(|| Failure::missing(format!("pod {name:?} does not exist")))
}

/// The container as it runs; one that does not run takes no commands.
pub(super) async fn running(
    serving: &Serving,
    home: &Home,
    namespace: &str,
    pod_name: &str,
    container: &str,
) -> Result<Container, Failure> {
    let pod = pod(serving, home, namespace, pod_name)?;
    let runs = runs(home, &pod, container).await?;
    let running = runs.into_iter().rfind(Container::is_running);
    running.ok_or_else(|| Failure::missing(format!("container not found ({container:?}): it does not run")))
}

/// The container that somebody attaches to, with its log if all of that is to be told: it takes input once, and nobody was attached
/// to it before. Then it may have ended.
pub(super) async fn attachable(
    serving: &Serving,
    home: &Home,
    namespace: &str,
    pod_name: &str,
    container: &str,
) -> Result<(Container, Option<PathBuf>), Failure> {
    let pod = pod(serving, home, namespace, pod_name)?;
    let takes_once = crate::ephemeral::find(pod.spec.as_ref().unwrap_or(&PodSpec::default()), container)
        .is_some_and(|spec| spec.stdin_once == Some(true));
    let runs = runs(home, &pod, container).await?;
    if let Some(machine) = home.machine.as_ref().filter(|_| takes_once)
        && let Some(run) = runs.iter().rfind(|run| run.started_at().is_some())
        && serving.pods.attaches_first(&Key::new(namespace, pod_name), uid_at_runtime(&pod), &run.id)
    {
        let log = place::file(machine.logs(), &run.pod, &run.name, run.attempt);
        return Ok((run.clone(), Some(log)));
    }
    let running = runs.into_iter().rfind(Container::is_running).map(|run| (run, None));
    running.ok_or_else(|| Failure::missing(format!("container not found ({container:?}): it does not run")))
}

/// The sandbox whose network the Pod has.
pub(super) async fn sandbox(serving: &Serving, home: &Home, namespace: &str, name: &str) -> Result<Sandbox, Failure> {
    let pod = pod(serving, home, namespace, name)?;
    let uid = uid_at_runtime(&pod);
    let sandboxes = home.runtime.list_sandboxes(Some(uid)).await.map_err(failed)?;
    let ready = sandboxes.into_iter().rfind(|sandbox| sandbox.state == SandboxState::Ready);
    ready.ok_or_else(|| Failure::bad(format!("pod {name:?} does not run")))
}

/// The run whose log is wanted, in upstream's words where there is none.
pub(super) async fn logged(home: &Home, pod: &Pod, container: &str, previous: bool) -> Result<Container, Failure> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if !specified(pod, container) {
        return Err(Failure::missing(format!("container {container:?} not found in pod {name:?}")));
    }
    let runs = runs(home, pod, container).await?;
    if previous {
        // The status knows which one that is: a run that ended and has no successor yet is the one before, too, once the
        // container waits for its next.
        let id = last_terminated(pod, container);
        let run = id.and_then(|id| runs.into_iter().find(|run| run.id.0 == id));
        let why = || Failure::bad(format!("previous terminated container {container:?} in pod {name:?} not found"));
        return run.ok_or_else(why);
    }
    let started = runs.into_iter().rfind(|run| matches!(run.state, State::Running { .. } | State::Exited { .. }));
    started.ok_or_else(|| {
        let why = match waiting_reason(pod, container) {
            None => return Failure::bad(format!("container {container:?} in pod {name:?} is not available")),
            Some("ErrImagePull") => "image can't be pulled",
            Some("ImagePullBackOff") => "trying and failing to pull image",
            Some(reason) => reason,
        };
        Failure::bad(format!("container {container:?} in pod {name:?} is waiting to start: {why}"))
    })
}

/// All runs of a container that the runtime knows, oldest first.
async fn runs(home: &Home, pod: &Pod, container: &str) -> Result<Vec<Container>, Failure> {
    let uid = uid_at_runtime(pod);
    let mut runs = home.runtime.list_containers(Some(uid)).await.map_err(failed)?;
    runs.retain(|run| run.name == container);
    runs.sort_by_key(|run| run.attempt);
    Ok(runs)
}

fn specified(pod: &Pod, container: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let names = crate::make::containers(spec).map(|container| &container.name);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| &container.name);
    names.chain(ephemeral).any(|name| name == container)
}

fn status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|status| status.name == container)
}

fn waiting_reason<'a>(pod: &'a Pod, container: &str) -> Option<&'a str> {
    status(pod, container)?.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

/// The runtime's name for the run before, without the runtime's own name in front.
fn last_terminated<'a>(pod: &'a Pod, container: &str) -> Option<&'a str> {
    let id = status(pod, container)?.last_state.as_ref()?.terminated.as_ref()?.container_id.as_deref()?;
    id.split_once("://").map(|(_, id)| id)
}

pub(super) fn failed(error: pintle_container::Error) -> Failure {
    let code = match error {
        pintle_container::Error::NotFound { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Failure(code, error.to_string())
}
