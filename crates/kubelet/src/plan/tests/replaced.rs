//! Sandboxes that died and containers whose image changed: what runs gives way to what the spec says.

use super::*;

fn stops(plan: &Plan) -> Vec<(&str, &str, bool)> {
    let of = |action| match action {
        &Action::Stop { ref container, ref message, replace, .. } => {
            Some((container.as_str(), message.as_str(), replace))
        }
        _ => None,
    };
    plan.actions.iter().filter_map(of).collect()
}

#[test]
fn containers_of_a_dead_sandbox_are_stopped_and_come_back_in_a_new_one() {
    let scene = Scene::new(web("Always")).sandbox(SandboxState::NotReady).run("web", 0, running());
    let plan = scene.plan();
    assert_eq!(stops(&plan), [("web", "Stopping container web", false)]);
    assert!(plan.replaces_sandbox && !plan.gone);

    let ended = Scene::new(web("Always")).sandbox(SandboxState::NotReady).run("web", 0, exited(137, 99));
    let old = Action::StopSandbox(SandboxId("s0".into()));
    assert_eq!(ended.plan().actions, [old, Action::RunSandbox { attempt: 1 }]);
    assert!(ended.plan().replaces_sandbox);

    let again = ended.sandbox(SandboxState::Ready);
    assert!(matches!(&again.plan().actions[..], [Action::Start { attempt: 1, .. }]), "{:?}", again.plan().actions);
    assert!(!again.plan().replaces_sandbox);
}

#[test]
fn what_was_made_in_a_dead_sandbox_and_never_ran_is_made_again() {
    let scene = Scene::new(web("Always")).sandbox(SandboxState::NotReady).run("web", 0, State::Created);
    assert!(matches!(scene.plan().actions[..], [Action::StopSandbox(_), Action::RunSandbox { attempt: 1 }]));
    let again = scene.sandbox(SandboxState::Ready);
    assert!(matches!(&again.plan().actions[..], [Action::Start { attempt: 1, made: None, .. }]));
}

#[test]
fn a_pod_that_is_not_restarted_fails_with_its_sandbox() {
    let scene = Scene::new(web("Never")).sandbox(SandboxState::NotReady).run("web", 0, running());
    assert_eq!(stops(&scene.plan()).len(), 1);
    let ended = Scene::new(web("Never")).sandbox(SandboxState::NotReady).run("web", 0, exited(137, 99));
    assert!(ended.plan().actions.is_empty());
    assert_eq!(ended.json()["phase"], "Failed");
}

#[test]
fn of_two_sandboxes_neither_stays() {
    let scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, running());
    let scene = scene.sandbox(SandboxState::Ready);
    assert_eq!(stops(&scene.plan()).len(), 1);
}

#[test]
fn a_changed_image_restarts_the_container_whatever_the_policy_says() {
    for policy in ["Always", "Never"] {
        let mut spec = web(policy);
        spec["containers"][0]["image"] = json!("new");
        let mut scene = Scene::new(spec.clone()).sandbox(SandboxState::Ready).run("web", 0, running());
        let plan = scene.plan();
        assert_eq!(stops(&plan), [("web", "Container web definition changed, will be restarted", true)], "{policy}");
        scene.world.containers[0].stopping = true;
        assert!(scene.plan().actions.is_empty(), "once is enough");

        // Stopped for that, it starts at once; however often it failed before.
        let mut ended = Scene::new(spec).sandbox(SandboxState::Ready).run("web", 0, exited(137, 99));
        ended.replaced.insert(ContainerId("web-0".into()));
        ended.backoffs.insert("web".into(), RestartBackoff { wait: Duration::from_secs(300), updated_at: at(90) });
        assert!(matches!(&ended.plan().actions[..], [Action::Start { attempt: 1, .. }]), "{policy}");
        assert_eq!(ended.json()["phase"], "Running", "{policy}");
    }
}

#[test]
fn a_container_that_ended_for_good_is_not_brought_back_by_another_image() {
    let mut spec = web("Never");
    spec["containers"][0]["image"] = json!("new");
    let ended = Scene::new(spec).sandbox(SandboxState::Ready).run("web", 0, exited(0, 99));
    assert_eq!(ended.json()["phase"], "Succeeded");
}

#[test]
fn a_container_that_is_not_restarted_is_not_said_to_be() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "web", "livenessProbe": {}}]});
    let mut scene = Scene::new(spec).sandbox(SandboxState::Ready).run("web", 0, running());
    scene.verdicts.insert((ContainerId("web-0".into()), ProbeKind::Liveness), false);
    assert_eq!(stops(&scene.plan()), [("web", "Container web failed liveness probe", false)]);
}
