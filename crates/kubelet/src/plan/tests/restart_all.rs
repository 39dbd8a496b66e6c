//! Containers that restart all others.

use super::*;

fn spec() -> Value {
    let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]);
    json!({"restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [
            {"name": "main", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rule},
            {"name": "done", "image": "i"}, {"name": "web", "image": "i"}]})
}

fn scene(code: i32) -> Scene {
    let scene = Scene::new(spec()).sandbox(SandboxState::Ready).status(json!({"phase": "Running"}));
    let scene = scene.run("init", 0, exited(0, 10)).run("main", 0, exited(code, 99));
    scene.run("done", 0, exited(0, 20)).run("web", 0, running())
}

#[test]
fn a_container_that_says_so_restarts_all_of_its_pod() {
    let mut scene = scene(88);
    let plan = scene.plan();
    assert!(matches!(&plan.actions[..], [Action::Stop { container, .. }] if container == "web"), "{:?}", plan.actions);
    assert!(plan.restarting_all);
    let status = scene.json();
    assert_eq!(status["phase"], "Running");
    let told = condition(&status, "AllContainersRestarting");
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("RestartAllContainersStarted")));

    scene.world.containers[3].state = exited(137, 100);
    let plan = scene.plan();
    let [Action::Reset { runs, container, backoff }] = &plan.actions[..] else { panic!("{:?}", plan.actions) };
    let names: Vec<&str> = runs.iter().map(|id| id.0.as_str()).collect();
    assert_eq!((names, container.as_str()), (vec!["init-0", "done-0", "web-0", "main-0"], "main"));
    assert_eq!(backoff.wait, Duration::from_secs(10));
    assert_eq!(scene.json()["phase"], "Running", "it goes on");

    // All runs are gone: it begins anew, also with what had ended for good.
    scene.pod.status = Some(plan.status);
    scene.world.containers.clear();
    assert!(matches!(&scene.plan().actions[..], [Action::Start { container, attempt: 1, .. }] if container == "init"));
    let mut scene = scene.run("init", 1, exited(0, 101));
    let started: Vec<String> = scene
        .plan()
        .actions
        .iter()
        .map(|action| match action {
            Action::Start { container, attempt: 1, .. } => container.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(started, ["main", "done", "web"]);
    for name in ["main", "done", "web"] {
        scene = scene.run(name, 1, running());
    }
    assert!(scene.plan().actions.is_empty() && !scene.plan().restarting_all);
    assert_eq!(condition(&scene.json(), "AllContainersRestarting")["status"], "False");
}

#[test]
fn one_that_ends_so_again_and_again_waits_longer_each_time() {
    let mut scene = scene(88);
    scene.world.containers[3].state = exited(137, 100);
    scene.backoffs.insert("main".into(), RestartBackoff { wait: Duration::from_secs(20), updated_at: at(90) });
    let plan = scene.plan();
    assert_eq!((plan.actions.len(), plan.wake_at), (0, Some(at(119))));
    scene.now = 119;
    assert!(matches!(&scene.plan().actions[..], [Action::Reset { backoff, .. }] if backoff.wait.as_secs() == 40));
}

#[test]
fn runs_are_counted_also_before_anybody_was_told_of_them() {
    let mut scene = Scene::new(spec()).sandbox(SandboxState::Ready);
    scene.restarting_all = true;
    scene.forgotten.insert("init".into(), 0);
    assert!(matches!(&scene.plan().actions[..], [Action::Start { attempt: 1, .. }]));
}

#[test]
fn another_end_restarts_nobody() {
    let mut scene = scene(1);
    assert!(scene.plan().actions.is_empty() && !scene.plan().restarting_all);
    scene.world.containers[3].state = exited(0, 100);
    assert_eq!(scene.json()["phase"], "Failed");
}
