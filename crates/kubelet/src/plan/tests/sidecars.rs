//! How sidecars end: after the others, in reverse, with what is left of the Pod's grace.

use super::*;

fn spec(policy: &str) -> Value {
    let hook = json!({"preStop": {"exec": {"command": ["bye"]}}});
    json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 30,
        "initContainers": [
            {"name": "proxy", "image": "i", "restartPolicy": "Always"},
            {"name": "logs", "image": "i", "restartPolicy": "Always", "lifecycle": hook}],
        "containers": [{"name": "web", "image": "i"}]})
}

fn scene() -> Scene {
    let scene = Scene::new(spec("Always")).sandbox(SandboxState::Ready);
    scene.run("proxy", 0, running()).run("logs", 0, running()).run("web", 0, running()).deleted(30)
}

fn pre_stop(container: &str, seconds: u64) -> Action {
    let id = ContainerId(format!("{container}-0"));
    Action::PreStop { id, container: container.into(), grace: Duration::from_secs(seconds) }
}

#[test]
fn a_sidecar_waits_for_its_turn_and_the_wait_is_taken_from_its_grace() {
    let mut scene = scene();
    assert_eq!(scene.plan().actions, [stop("web", 30), pre_stop("logs", 30)]);
    assert!(scene.plan().ends);
    let asked = |name: &str, seconds| (ContainerId(format!("{name}-0")), Duration::from_secs(seconds));
    scene.asked.extend([asked("web", 30)]);
    scene.ending_since = Some(at(100));
    scene.hooked.insert(ContainerId("logs-0".into()), Hooked::Going);
    scene.now = 110;
    assert!(scene.plan().actions.is_empty());
    // The others have ended, but its hook has not.
    scene.world.containers[2].state = exited(0, 112);
    scene.now = 112;
    assert!(scene.plan().actions.is_empty());
    scene.hooked.insert(ContainerId("logs-0".into()), Hooked::Done);
    assert_eq!(scene.plan().actions, [stop("logs", 18)], "in reverse, with what is left");
    scene.world.containers[1].state = exited(0, 120);
    scene.now = 120;
    assert_eq!(scene.plan().actions, [stop("proxy", 10)]);
}

#[test]
fn a_sidecar_does_not_wait_longer_than_the_grace() {
    let mut scene = scene();
    scene.asked.insert(ContainerId("web-0".into()), Duration::from_secs(30));
    scene.ending_since = Some(at(100));
    scene.hooked.insert(ContainerId("logs-0".into()), Hooked::Done);
    scene.now = 125;
    let plan = scene.plan();
    assert_eq!((plan.actions.len(), plan.wake_at), (0, Some(at(130))));
    scene.now = 130;
    assert_eq!(scene.plan().actions, [stop("logs", 2), stop("proxy", 2)]);
}

#[test]
fn a_pod_that_has_done_its_work_ends_its_sidecars_one_after_the_other() {
    let mut scene = Scene::new(spec("Never")).sandbox(SandboxState::Ready);
    scene = scene.run("proxy", 0, running()).run("logs", 0, running()).run("web", 0, exited(0, 99));
    assert_eq!(scene.plan().actions, [stop("logs", 30)]);
    scene.world.containers[1].state = exited(0, 104);
    (scene.ending_since, scene.now) = (Some(at(100)), 104);
    assert_eq!(scene.plan().actions, [stop("proxy", 26)]);
}
