//! What a user would lose if plans went wrong.

mod replaced;
mod resize;
mod restart_all;
mod sidecars;

use pintle_container::{PodRef, ProbeKind, State};
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A Pod, what the runtime has of it, and all that is remembered.
struct Scene {
    pod: Pod,
    world: World,
    verdicts: BTreeMap<(ContainerId, ProbeKind), bool>,
    pulls: BTreeMap<String, Pull>,
    refusals: BTreeMap<String, Refusal>,
    backoffs: BTreeMap<String, RestartBackoff>,
    hooks: BTreeMap<ContainerId, Hook>,
    asked: BTreeMap<ContainerId, Duration>,
    evicted: Option<Evicted>,
    resizing: Resizing,
    replaced: BTreeSet<ContainerId>,
    ending_since: Option<Timestamp>,
    restarting_all: bool,
    forgotten: BTreeMap<String, u32>,
    hooked: BTreeMap<ContainerId, Hooked>,
    now: i64,
}

impl Verdicts for BTreeMap<(ContainerId, ProbeKind), bool> {
    fn verdict(&self, id: &ContainerId, kind: ProbeKind) -> Option<bool> {
        self.get(&(id.clone(), kind)).copied()
    }
}

impl Scene {
    fn new(spec: Value) -> Self {
        let pod = json!({"metadata": {"name": "p", "namespace": "shop", "uid": "u"}, "spec": spec});
        Scene {
            pod: serde_json::from_value(pod).unwrap(),
            world: World::default(),
            verdicts: BTreeMap::new(),
            pulls: BTreeMap::new(),
            refusals: BTreeMap::new(),
            backoffs: BTreeMap::new(),
            hooks: BTreeMap::new(),
            asked: BTreeMap::new(),
            evicted: None,
            resizing: Resizing::default(),
            replaced: BTreeSet::new(),
            ending_since: None,
            restarting_all: false,
            forgotten: BTreeMap::new(),
            hooked: BTreeMap::new(),
            now: 100,
        }
    }

    fn status(mut self, status: Value) -> Self {
        self.pod.status = serde_json::from_value(status).unwrap();
        self
    }

    fn sandbox(mut self, state: SandboxState) -> Self {
        let attempt = u32::try_from(self.world.sandboxes.len()).unwrap();
        let addresses = vec![[10, 64, 0, 2].into()];
        let (pod, created_at) = (PodRef::default(), at(0));
        let id = SandboxId(format!("s{attempt}"));
        self.world.sandboxes.push(Sandbox { id, pod, attempt, state, created_at, addresses });
        self
    }

    fn run(mut self, name: &str, attempt: u32, state: State) -> Self {
        self.world.containers.push(Container {
            id: ContainerId(format!("{name}-{attempt}")),
            sandbox: self.world.sandboxes.last().unwrap().id.clone(),
            pod: PodRef::default(),
            name: name.into(),
            attempt,
            image: "i".into(),
            image_id: "i@sha256:0".into(),
            created_at: at(0),
            state,
            asked_image: Some("i".into()),
            stopping: false,
        });
        self
    }

    fn deleted(mut self, grace: i64) -> Self {
        self.pod.metadata.deletion_timestamp = Some(at(90).into());
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
        self
    }

    fn plan(&self) -> Plan {
        let status = self.pod.status.clone().unwrap_or_default();
        plan(&Input {
            pod: &self.pod,
            spec: self.pod.spec.as_ref().unwrap(),
            ephemeral: &crate::ephemeral::containers(self.pod.spec.as_ref().unwrap()),
            status: &status,
            world: &self.world,
            verdicts: &self.verdicts,
            pulls: &self.pulls,
            refusals: &self.refusals,
            backoffs: &self.backoffs,
            hooks: &self.hooks,
            dead: &Collection::default(),
            asked: &self.asked,
            evicted: self.evicted.as_ref(),
            resizing: &self.resizing,
            replaced: &self.replaced,
            ending_since: self.ending_since,
            restarting_all: self.restarting_all,
            forgotten: &self.forgotten,
            hooked: &self.hooked,
            host_address: [10, 0, 0, 1].into(),
            runtime_name: "simulated",
            now: at(self.now),
        })
    }

    fn json(&self) -> Value {
        serde_json::to_value(self.plan().status).unwrap()
    }
}

fn web(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "web", "image": "i"}]})
}

fn running() -> State {
    State::Running { started_at: at(1) }
}

fn exited(code: i32, second: i64) -> State {
    let reason = if code == 0 { "Completed" } else { "Error" }.into();
    State::Exited { started_at: Some(at(1)), finished_at: at(second), exit_code: code, reason, message: String::new() }
}

fn start(container: &str, attempt: u32) -> Action {
    Action::Start { container: container.into(), attempt, made: None, backoff: None }
}

fn stop(container: &str, seconds: u64) -> Action {
    Action::Stop {
        id: ContainerId(format!("{container}-0")),
        container: container.into(),
        grace: Duration::from_secs(seconds),
        message: format!("Stopping container {container}"),
        replace: false,
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == kind).unwrap()
}

#[test]
fn a_pod_gets_a_sandbox_then_its_containers_then_runs() {
    let scene = Scene::new(web("Always"));
    assert_eq!(scene.plan().actions, [Action::RunSandbox { attempt: 0 }]);
    assert_eq!(scene.json()["phase"], "Pending");
    let scene = scene.sandbox(SandboxState::Ready);
    assert_eq!(scene.plan().actions, [start("web", 0)]);
    assert_eq!(scene.json()["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    let scene = scene.run("web", 0, running());
    let (plan, status) = (scene.plan(), scene.json());
    assert!(plan.actions.is_empty() && plan.wake_at.is_none());
    assert_eq!(status["phase"], "Running");
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.64.0.2"), &json!("10.0.0.1")));
    assert_eq!(status["containerStatuses"][0]["containerID"], "simulated://web-0");
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&status, kind)["status"], "True", "{kind}");
    }
}

#[test]
fn a_restarted_agent_plans_nothing_for_what_is_as_it_should_be() {
    let scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, running());
    let written = scene.json();
    let mut again = scene.status(written.clone());
    again.now = 500;
    assert!(again.plan().actions.is_empty());
    assert_eq!(again.json(), written, "times and all");
}

#[test]
fn init_containers_run_one_after_the_other_before_the_rest() {
    let spec = json!({"restartPolicy": "Always", "initContainers": [{"name": "one"}, {"name": "two"}],
                      "containers": [{"name": "web"}]});
    let scene = Scene::new(spec).sandbox(SandboxState::Ready);
    assert_eq!(scene.plan().actions, [start("one", 0)]);
    let scene = scene.run("one", 0, running());
    assert!(scene.plan().actions.is_empty());
    let status = scene.json();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(condition(&status, "Initialized")["message"], "containers with incomplete status: [one two]");
    let mut scene = scene;
    scene.world.containers[0].state = exited(0, 50);
    assert_eq!(scene.plan().actions, [start("two", 0)]);
    let scene = scene.run("two", 0, exited(0, 60));
    assert_eq!(scene.plan().actions, [start("web", 0)]);
}

#[test]
fn a_failed_init_container_fails_a_pod_that_never_restarts() {
    let spec = json!({"restartPolicy": "Never", "initContainers": [{"name": "one"}], "containers": [{"name": "web"}]});
    let scene = Scene::new(spec).sandbox(SandboxState::Ready).run("one", 0, exited(2, 50));
    assert_eq!(scene.json()["phase"], "Failed");
    assert_eq!(scene.plan().actions, [Action::StopSandbox(SandboxId("s0".into()))]);
}

#[test]
fn a_sidecar_starts_before_the_rest_and_stops_after_it() {
    let spec = json!({"restartPolicy": "Never",
                      "initContainers": [{"name": "mesh", "restartPolicy": "Always"}], "containers": [{"name": "job"}]});
    let scene = Scene::new(spec).sandbox(SandboxState::Ready);
    assert_eq!(scene.plan().actions, [start("mesh", 0)]);
    let scene = scene.run("mesh", 0, running());
    assert_eq!(scene.plan().actions, [start("job", 0)]);
    let mut scene = scene.run("job", 0, running()).deleted(30);
    assert_eq!(scene.plan().actions, [stop("job", 30)]);
    scene.world.containers[1].state = exited(0, 95);
    assert_eq!(scene.plan().actions, [stop("mesh", 30)]);
}

#[test]
fn restart_policies_decide_over_an_end() {
    let cases = [
        ("Always", 0, "Running", true),
        ("Always", 1, "Running", true),
        ("OnFailure", 0, "Succeeded", false),
        ("OnFailure", 1, "Running", true),
        ("Never", 0, "Succeeded", false),
        ("Never", 1, "Failed", false),
    ];
    for (policy, code, phase, restarts) in cases {
        let scene = Scene::new(web(policy)).sandbox(SandboxState::Ready).run("web", 0, exited(code, 100));
        let plan = scene.plan();
        assert_eq!(plan.status.phase.as_deref(), Some(phase), "{policy} {code}");
        let expected = match restarts {
            true => Action::Start {
                container: "web".into(),
                attempt: 1,
                made: None,
                backoff: Some(RestartBackoff { wait: Duration::from_secs(10), updated_at: at(100) }),
            },
            false => Action::StopSandbox(SandboxId("s0".into())),
        };
        assert_eq!(plan.actions, [expected], "{policy} {code}");
    }
}

#[test]
fn a_container_that_ends_again_waits_and_says_so() {
    let mut scene = Scene::new(web("Always")).sandbox(SandboxState::Ready);
    scene = scene.run("web", 0, exited(1, 40)).run("web", 1, exited(1, 99));
    scene.backoffs.insert("web".into(), RestartBackoff { wait: Duration::from_secs(10), updated_at: at(41) });
    let (plan, status) = (scene.plan(), scene.json());
    assert_eq!(plan.actions, [Action::Remove(ContainerId("web-0".into()))], "one dead run is kept");
    assert_eq!((plan.wake_at, plan.backing_off), (Some(at(109)), vec!["web".to_owned()]));
    let container = &status["containerStatuses"][0];
    assert_eq!((&status["phase"], &container["restartCount"]), (&json!("Running"), &json!(1)));
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    let message = "back-off 10s restarting failed container=web pod=p_shop(u)";
    assert_eq!(container["state"]["waiting"]["message"], message);
    assert_eq!(container["lastState"]["terminated"]["containerID"], "simulated://web-1");
    assert_eq!(condition(&status, "Ready")["message"], "containers with unready status: [web]");
    scene.now = 109;
    assert!(matches!(scene.plan().actions[..], [Action::Start { attempt: 2, .. }, Action::Remove(_)]));
    let scene = scene.run("web", 2, running());
    assert_eq!(scene.plan().actions, [Action::Remove(ContainerId("web-0".into()))]);
    assert_eq!(scene.json()["containerStatuses"][0]["lastState"]["terminated"]["containerID"], "simulated://web-1");
}

#[test]
fn a_deleted_pod_is_stopped_with_its_grace_then_closed() {
    let mut scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, running()).deleted(20);
    assert_eq!(scene.plan().actions, [stop("web", 20)]);
    scene.asked.insert(ContainerId("web-0".into()), Duration::from_secs(20));
    assert!(scene.plan().actions.is_empty(), "once is enough");
    scene.pod.metadata.deletion_grace_period_seconds = Some(5);
    assert_eq!(scene.plan().actions, [stop("web", 5)], "someone is in a hurry");
    scene.world.containers[0].state = exited(0, 100);
    assert_eq!(scene.plan().actions, [Action::StopSandbox(SandboxId("s0".into()))]);
    scene.world.sandboxes[0].state = SandboxState::NotReady;
    let (plan, status) = (scene.plan(), scene.json());
    assert!(plan.gone && plan.actions.is_empty());
    assert_eq!(status["phase"], "Succeeded");
    assert_eq!(condition(&status, "Ready")["reason"], "PodCompleted");
}

#[test]
fn a_pod_deleted_before_it_began_is_closed_as_failed() {
    let scene = Scene::new(web("Always")).deleted(30);
    let (plan, status) = (scene.plan(), scene.json());
    assert!(plan.gone && plan.actions.is_empty());
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "ContainerStatusUnknown");
}

#[test]
fn a_failed_liveness_probe_ends_the_run_and_an_unready_one_stays() {
    let spec = json!({"restartPolicy": "Always", "containers": [{"name": "web",
        "livenessProbe": {"terminationGracePeriodSeconds": 3}, "readinessProbe": {}}]});
    let mut scene = Scene::new(spec).sandbox(SandboxState::Ready).run("web", 0, running());
    let web = ContainerId("web-0".into());
    assert_eq!(scene.json()["containerStatuses"][0]["ready"], false);
    scene.verdicts.insert((web.clone(), ProbeKind::Readiness), true);
    assert_eq!(condition(&scene.json(), "Ready")["status"], "True");
    scene.verdicts.insert((web.clone(), ProbeKind::Liveness), false);
    let message = "Container web failed liveness probe, will be restarted".to_owned();
    let grace = Duration::from_secs(3);
    assert_eq!(
        scene.plan().actions,
        [Action::Stop { id: web, container: "web".into(), grace, message, replace: false }]
    );
    scene.world.containers[0].stopping = true;
    assert!(scene.plan().actions.is_empty());
}

#[test]
fn a_pod_past_its_deadline_fails() {
    let mut spec = web("Always");
    spec["activeDeadlineSeconds"] = json!(60);
    let scene = Scene::new(spec).status(json!({"phase": "Running", "startTime": "1970-01-01T00:01:00Z"}));
    let mut scene = scene.sandbox(SandboxState::Ready).run("web", 0, running());
    assert_eq!(scene.plan().wake_at, Some(at(120)));
    scene.now = 120;
    let status = scene.json();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
    assert_eq!(scene.plan().actions, [stop("web", 30)]);
}

#[test]
fn an_image_that_cannot_be_had_is_told_and_tried_again() {
    let mut scene = Scene::new(web("Always")).sandbox(SandboxState::Ready);
    scene.pulls.insert("web".into(), Pull::Going);
    assert!(scene.plan().actions.is_empty());
    let failed = |image: &str| {
        let (image, message) = (image.to_owned(), "no".to_owned());
        Pull::Failed(FailedPull { image, message, failed_at: at(100), wait: Duration::from_secs(10) })
    };
    scene.pulls.insert("web".into(), failed("other"));
    assert_eq!(scene.plan().actions, [start("web", 0)], "the Pod names another image by now");
    scene.pulls.insert("web".into(), failed("i"));
    let reason = |scene: &Scene| scene.json()["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    assert_eq!((reason(&scene), scene.plan().wake_at), (json!("ErrImagePull"), Some(at(101))));
    scene.now = 101;
    assert_eq!((reason(&scene), scene.plan().wake_at), (json!("ImagePullBackOff"), Some(at(110))));
    scene.now = 110;
    assert_eq!(scene.plan().actions, [start("web", 0)]);
    scene.pulls.insert(
        "web".into(),
        Pull::Refused { reason: "ErrImageNeverPull", image: "i".into(), message: "not here".into(), retry_at: at(120) },
    );
    assert_eq!((reason(&scene), scene.plan().wake_at), (json!("ErrImageNeverPull"), Some(at(120))));
    scene.now = 120;
    assert_eq!(scene.plan().actions, [start("web", 0)], "someone may have brought it");
}

#[test]
fn containers_lost_with_the_machine_count_as_restarted() {
    let before = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, running()).json();
    let scene = Scene::new(web("Always")).status(before.clone());
    assert_eq!(scene.json()["phase"], "Running", "it was running, and will be");
    assert_eq!(scene.plan().actions, [Action::RunSandbox { attempt: 0 }]);
    let scene = scene.sandbox(SandboxState::Ready);
    assert_eq!(scene.plan().actions, [start("web", 1)]);
    let status = scene.run("web", 1, running()).json();
    let container = &status["containerStatuses"][0];
    assert_eq!(container["restartCount"], 1);
    assert_eq!(container["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    let never = Scene::new(web("Never")).status(before);
    assert_eq!(never.json()["phase"], "Failed", "it may have done its work, or not: it must not run twice");
}

#[test]
fn init_containers_lost_with_the_machine_run_again() {
    let spec = json!({"restartPolicy": "Always", "initContainers": [{"name": "one"}], "containers": [{"name": "web"}]});
    let before = Scene::new(spec.clone()).sandbox(SandboxState::Ready);
    let before = before.run("one", 0, exited(0, 50)).run("web", 0, running()).json();
    let scene = Scene::new(spec).status(before).sandbox(SandboxState::Ready);
    assert_eq!(scene.plan().actions, [start("one", 1)]);
    let scene = scene.run("one", 1, exited(0, 99));
    assert_eq!(scene.plan().actions, [start("web", 1)]);
}

#[test]
fn a_lost_sandbox_is_replaced_and_everything_in_it_runs_again() {
    let spec = json!({"restartPolicy": "Always", "initContainers": [{"name": "one"}], "containers": [{"name": "web"}]});
    let scene = Scene::new(spec).sandbox(SandboxState::NotReady);
    let scene = scene.run("one", 0, exited(0, 50)).run("web", 0, exited(137, 99));
    assert!(matches!(scene.plan().actions[..], [Action::StopSandbox(_), Action::RunSandbox { attempt: 1 }]));
    let scene = scene.sandbox(SandboxState::Ready);
    assert!(matches!(&scene.plan().actions[..], [Action::Start { container, attempt: 1, .. }] if container == "one"));
}

#[test]
fn a_readiness_gate_keeps_a_pod_from_being_ready_and_its_condition_is_kept() {
    let mut spec = web("Always");
    spec["readinessGates"] = json!([{"conditionType": "lb"}]);
    let scene = Scene::new(spec).sandbox(SandboxState::Ready).run("web", 0, running());
    let status = scene.json();
    assert_eq!(condition(&status, "Ready")["reason"], "ReadinessGatesNotReady");
    let scene = scene.status(json!({"conditions": [{"type": "lb", "status": "True"}]}));
    let status = scene.json();
    assert_eq!(condition(&status, "Ready")["status"], "True");
    assert_eq!(condition(&status, "lb")["status"], "True");
}

#[test]
fn a_container_that_was_made_and_never_started_is_started_and_not_counted_as_restarted() {
    let scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, State::Created);
    let made = Some(ContainerId("web-0".into()));
    let expected = Action::Start { container: "web".into(), attempt: 0, made, backoff: None };
    assert_eq!(scene.plan().actions, [expected]);
}

#[test]
fn a_container_is_being_made_until_its_hook_has_ended_and_stopped_if_that_failed() {
    let mut scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, running());
    scene.hooks.insert(ContainerId("web-0".into()), Hook::Going);
    let status = scene.json();
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    assert_eq!((&status["containerStatuses"][0]["ready"], &status["phase"]), (&json!(false), &json!("Pending")));
    assert!(scene.plan().actions.is_empty());

    scene.hooks.insert(ContainerId("web-0".into()), Hook::Failed);
    let [Action::Stop { message, .. }] = &scene.plan().actions[..] else { panic!("{:?}", scene.plan().actions) };
    assert_eq!(message, "FailedPostStartHook");
    scene.asked.insert(ContainerId("web-0".into()), Duration::from_secs(30));
    assert!(scene.plan().actions.is_empty(), "it is asked once");

    scene.hooks.clear();
    scene.asked.clear();
    assert_eq!(scene.json()["phase"], "Running");
}

#[test]
fn a_container_that_cannot_be_made_says_why_and_is_tried_again() {
    let mut scene = Scene::new(web("Always")).sandbox(SandboxState::Ready);
    let message = "configmap \"settings\" not found".to_owned();
    let refusal = Refusal { reason: "CreateContainerConfigError", message, until: at(110) };
    scene.refusals.insert("web".into(), refusal);
    let plan = scene.plan();
    assert_eq!((plan.actions, plan.wake_at), (Vec::new(), Some(at(110))));
    let waiting = json!({"reason": "CreateContainerConfigError", "message": "configmap \"settings\" not found"});
    assert_eq!(scene.json()["containerStatuses"][0]["state"]["waiting"], waiting);
    assert_eq!(scene.json()["phase"], "Pending");
    scene.now = 110;
    assert!(matches!(scene.plan().actions[..], [Action::Start { .. }]));
}

#[test]
fn a_container_that_the_runtime_could_not_start_and_left_as_it_was_is_not_started_again_at_once() {
    let mut scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, State::Created);
    let refusal = Refusal { reason: "RunContainerError", message: "no such file".to_owned(), until: at(101) };
    scene.refusals.insert("web".into(), refusal);
    assert_eq!(scene.plan().actions, Vec::new());
    let waiting = json!({"reason": "RunContainerError", "message": "no such file"});
    assert_eq!(scene.json()["containerStatuses"][0]["state"]["waiting"], waiting);
    scene.now = 101;
    assert!(matches!(scene.plan().actions[..], [Action::Start { made: Some(_), .. }]));
}

#[test]
fn sidecars_are_stopped_when_the_others_have_ended_and_only_then_is_the_pod_over() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "web", "image": "i"}],
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}]});
    let scene = Scene::new(spec.clone()).sandbox(SandboxState::Ready).run("side", 0, running());
    let ended = scene.run("web", 0, exited(3, 99));
    assert!(matches!(&ended.plan().actions[..], [Action::Stop { container, .. }] if container == "side"));
    assert_eq!(ended.json()["phase"], "Running");
    let scene =
        Scene::new(spec).sandbox(SandboxState::Ready).run("side", 0, exited(0, 100)).run("web", 0, exited(3, 99));
    assert_eq!(scene.json()["phase"], "Failed");
}

#[test]
fn an_ephemeral_container_starts_once_beside_the_others_and_changes_nothing_for_the_pod() {
    let spec = json!({"containers": [{"name": "web", "image": "i"}],
        "ephemeralContainers": [{"name": "look", "image": "i", "targetContainerName": "web"}]});
    let scene = Scene::new(spec).sandbox(SandboxState::Ready).run("web", 0, running());
    assert_eq!(scene.plan().actions, [start("look", 0)]);
    assert_eq!(scene.json()["phase"], "Running");
    assert_eq!(condition(&scene.json(), "Ready")["status"], "True");
    let scene = scene.run("look", 0, exited(1, 99));
    assert!(scene.plan().actions.is_empty(), "it is not started again");
    let status = scene.json();
    assert_eq!(status["ephemeralContainerStatuses"][0]["state"]["terminated"]["exitCode"], 1);
    assert_eq!((&status["phase"], &condition(&status, "Ready")["status"]), (&json!("Running"), &json!("True")));
}

#[test]
fn a_container_that_never_started_does_not_keep_a_deleted_pod() {
    let scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, State::Created).deleted(30);
    assert_eq!(scene.plan().actions, [Action::StopSandbox(SandboxId("s0".into()))]);
    let scene = Scene::new(web("Always")).sandbox(SandboxState::NotReady).run("web", 0, State::Created).deleted(30);
    assert!(scene.plan().gone);
}

#[test]
fn a_pod_that_does_not_end_is_looked_at_again() {
    let mut scene = Scene::new(web("Always")).sandbox(SandboxState::Ready).run("web", 0, running()).deleted(30);
    assert_eq!((scene.plan().actions, scene.plan().wake_at), (vec![stop("web", 30)], Some(at(110))));
    scene.asked.insert(ContainerId("web-0".into()), Duration::from_secs(30));
    assert_eq!((scene.plan().actions, scene.plan().wake_at), (Vec::new(), Some(at(110))));
}

#[test]
fn an_evicted_pod_fails_when_nothing_of_it_runs_any_more_and_says_why() {
    let spec = json!({"terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "i"}]});
    let evicted = Evicted {
        reason: "Evicted",
        message: "low on memory".into(),
        grace: Duration::from_secs(5),
        disrupts: Some("low on memory".into()),
    };
    let running = State::Running { started_at: at(1) };
    let mut scene =
        Scene::new(spec).status(json!({"phase": "Running"})).sandbox(SandboxState::Ready).run("c", 0, running);
    scene.evicted = Some(evicted);
    let plan = scene.plan();
    let [Action::Stop { grace, .. }] = plan.actions.as_slice() else { panic!("{:?}", plan.actions) };
    assert_eq!((*grace, plan.status.phase.as_deref()), (Duration::from_secs(5), Some("Running")));
    assert_eq!(plan.status.reason, None, "what it holds is not free yet");

    let (reason, message) = ("Error".to_owned(), String::new());
    let ended = State::Exited { started_at: Some(at(1)), finished_at: at(99), exit_code: 137, reason, message };
    scene.world.containers[0].state = ended;
    let plan = scene.plan();
    let status = &plan.status;
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    assert_eq!(status.message.as_deref(), Some("low on memory"));
    let disrupted = status.conditions.iter().flatten().find(|condition| condition.type_ == "DisruptionTarget").unwrap();
    assert_eq!(disrupted.reason.as_deref(), Some("TerminationByKubelet"));
    assert_eq!(plan.actions, [Action::StopSandbox(SandboxId("s0".into()))]);
}

#[test]
fn a_pod_that_the_node_refused_tells_nothing_but_that() {
    let refused = json!({"phase": "Failed", "reason": "Evicted", "message": "Pod was rejected: no room"});
    let scene = Scene::new(json!({"containers": [{"name": "c", "image": "i"}]})).status(refused);
    let plan = scene.plan();
    assert_eq!((Some(&plan.status), plan.actions.len(), plan.gone), (scene.pod.status.as_ref(), 0, true));
}
