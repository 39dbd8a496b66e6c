//! Containers that are held to other amounts while they run.

use super::*;

fn sized(cpu: &str, policy: &str) -> Value {
    json!({"restartPolicy": "Always", "containers": [{
        "name": "web", "image": "i", "resources": {"requests": {"cpu": cpu}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": policy}]}]})
}

fn held_to(cpu: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "PodResizePending", "status": "True"}], "containerStatuses": [{
        "name": "web", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": "simulated://web-0", "state": {"running": {}},
        "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}]})
}

#[test]
fn a_container_that_runs_is_held_to_what_its_pod_was_given_and_keeps_running_unless_it_asked_otherwise() {
    let scene = |policy: &str| {
        Scene::new(sized("2", policy)).status(held_to("1")).sandbox(SandboxState::Ready).run("web", 0, running())
    };
    let run = (ContainerId("web-0".into()), "web".to_owned());
    let plan = scene("NotRequired").plan();
    assert_eq!((plan.actions, plan.resizing), (vec![Action::Resize(vec![run.clone()])], true));
    let status = scene("NotRequired").json();
    assert_eq!(status["containerStatuses"][0]["resources"], json!({"requests": {"cpu": "1"}}));
    assert_eq!(condition(&status, "PodResizeInProgress")["status"], "True");

    let message = "Container web resize requires restart".to_owned();
    let grace = Duration::from_secs(30);
    let stop = Action::Stop { id: run.0.clone(), container: run.1.clone(), grace, message, replace: false };
    assert_eq!(scene("RestartContainer").plan().actions, [stop]);

    let mut done = scene("NotRequired");
    done.resizing.note_held(&run.0, &done.pod.spec.clone().unwrap().containers[0]);
    let status = done.json();
    assert!(done.plan().actions.is_empty() && !done.plan().resizing);
    assert_eq!(status["containerStatuses"][0]["resources"], json!({"requests": {"cpu": "2"}}));
    let kinds: Vec<&Value> = status["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert!(!kinds.iter().any(|kind| kind.as_str().unwrap().starts_with("PodResize")), "{kinds:?}");
}

#[test]
fn a_resize_that_failed_is_told_and_waits_and_nobody_resizes_what_ends() {
    let scene = || {
        Scene::new(sized("2", "NotRequired")).status(held_to("1")).sandbox(SandboxState::Ready).run("web", 0, running())
    };
    let mut failed = scene();
    failed.resizing.fail("no".into(), at(90));
    assert!(failed.plan().actions.is_empty());
    let status = failed.json();
    let told = condition(&status, "PodResizeInProgress");
    assert_eq!((&told["reason"], &told["message"]), (&json!("Error"), &json!("no")));
    failed.now = 120;
    assert!(matches!(failed.plan().actions[..], [Action::Resize(_)]));
    assert!(matches!(scene().deleted(5).plan().actions[..], [Action::Stop { .. }]));
}
