//! What a script makes of a container, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, advance};

use super::*;
use crate::container::{ContainerConfig, ContainerId, State};
use crate::image::PullRequest;
use crate::runtime::{ProbeKind, Runtime};
use crate::sandbox::{PodRef, SandboxConfig, SandboxState};

fn simulated() -> Simulated {
    Simulated::new(Clock::virtual_from(Timestamp::UNIX_EPOCH))
}

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "shop".into(), name: name.into(), uid: format!("uid-{name}") }
}

fn script(lines: &[(&str, &str)]) -> BTreeMap<String, String> {
    lines.iter().map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned())).collect()
}

async fn started(node: &Node, name: &str, lines: &[(&str, &str)]) -> ContainerId {
    let sandbox = node.run_sandbox(SandboxConfig { pod: pod(name), ..SandboxConfig::default() }).await.unwrap();
    let config = ContainerConfig { name: "c".into(), annotations: script(lines), ..ContainerConfig::default() };
    let id = node.create_container(&sandbox, &SandboxConfig::default(), config).await.unwrap();
    node.start_container(&id).await.unwrap();
    id
}

async fn state(node: &Node, id: &ContainerId) -> State {
    node.container_status(id).await.unwrap().state
}

async fn exit_code(node: &Node, id: &ContainerId) -> Option<i32> {
    node.container_status(id).await.unwrap().exit_code()
}

#[tokio::test(start_paused = true)]
async fn without_a_script_a_container_runs_until_it_is_asked_to_stop() {
    let node = simulated().node("n", 0);
    let id = started(&node, "a", &[]).await;
    advance(Duration::from_secs(86_400)).await;
    assert!(matches!(state(&node, &id).await, State::Running { .. }));
    node.stop_container(&id, Duration::from_secs(30)).await.unwrap();
    assert_eq!(exit_code(&node, &id).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_of_starts_and_ends_at_their_time() {
    let node = simulated().node("n", 0);
    let id = started(&node, "a", &[("start-delay", "2s"), ("run-for", "5s"), ("exit-code", "3")]).await;
    assert_eq!(state(&node, &id).await, State::Starting);
    let began = Instant::now();
    assert_eq!(node.changes().await, [pod("a")].into());
    assert_eq!(began.elapsed().as_secs(), 2);
    assert!(matches!(state(&node, &id).await, State::Running { .. }));
    assert_eq!(node.changes().await, [pod("a")].into());
    assert_eq!(began.elapsed().as_secs(), 7);
    assert_eq!(exit_code(&node, &id).await, Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_obeyed_in_its_time_or_forced_at_the_end_of_the_grace() {
    let node = simulated().node("n", 0);
    let grace = Duration::from_secs(30);
    type Lines = &'static [(&'static str, &'static str)];
    let cases: [(Lines, u64, i32); 4] = [
        (&[("stop-takes", "3s")], 3, 0),
        (&[("stop-takes", "3s"), ("stop-exit-code", "143")], 3, 143),
        (&[("stop-takes", "1m")], 30, 137),
        (&[("ignores-term", "true")], 30, 137),
    ];
    for (index, (lines, seconds, code)) in cases.into_iter().enumerate() {
        let id = started(&node, &format!("p{index}"), lines).await;
        node.changes().await;
        let began = Instant::now();
        node.stop_container(&id, grace).await.unwrap();
        assert!(node.container_status(&id).await.unwrap().stopping);
        node.changes().await;
        assert_eq!((began.elapsed().as_secs(), exit_code(&node, &id).await), (seconds, Some(code)), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_answer_by_script() {
    let node = simulated().node("n", 0);
    let lines = [("ready-after", "5s"), ("ready-fails-after", "20s"), ("liveness-fails-after", "10s")];
    let id = started(&node, "a", &lines).await;
    let answers = async || {
        let healthy = async |kind| node.probe(&id, kind).await.unwrap().is_ok();
        (healthy(ProbeKind::Readiness).await, healthy(ProbeKind::Liveness).await)
    };
    assert_eq!(answers().await, (false, true));
    advance(Duration::from_secs(5)).await;
    assert_eq!(answers().await, (true, true));
    advance(Duration::from_secs(5)).await;
    assert_eq!(answers().await, (true, false));
    advance(Duration::from_secs(10)).await;
    assert_eq!(answers().await, (false, false));
}

#[tokio::test(start_paused = true)]
async fn a_pull_takes_its_time_and_may_fail() {
    let node = simulated().node("n", 0);
    let pull = |lines: &[(&str, &str)]| {
        let annotations = script(lines);
        node.pull_image(PullRequest {
            image: "r:5000/web:1".into(),
            container: "c".into(),
            annotations,
            ..PullRequest::default()
        })
    };
    assert!(pull(&[("pull-fails", "true")]).await.is_err());
    let began = Instant::now();
    let image = pull(&[("pull-delay", "4s")]).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 4);
    assert!(image.id.starts_with("r:5000/web@sha256:"), "{}", image.id);
    assert_eq!(node.image("r:5000/web:1").await.unwrap(), Some(image));
}

#[tokio::test(start_paused = true)]
async fn addresses_are_given_back_and_not_given_twice() {
    let node = simulated().node("n", 300);
    let mut first = None;
    for round in 0..600 {
        let config = SandboxConfig { pod: pod(&round.to_string()), ..SandboxConfig::default() };
        let id = node.run_sandbox(config).await.unwrap();
        let sandbox = node.list_sandboxes(Some(&format!("uid-{round}"))).await.unwrap().remove(0);
        assert!(sandbox.addresses[0].to_string().starts_with("10.65.44."));
        assert_ne!(first.replace(sandbox.addresses[0]), Some(sandbox.addresses[0]));
        node.remove_sandbox(&id).await.unwrap();
    }
    assert!(node.list_sandboxes(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_agent_that_comes_back_finds_what_it_left() {
    let world = simulated();
    let id = started(&world.node("n", 0), "a", &[]).await;
    let again = world.node("n", 0);
    assert_eq!(again.list_containers(Some("uid-a")).await.unwrap()[0].id, id);
    assert!(world.node("other", 1).list_containers(None).await.unwrap().is_empty());
    let sandbox = again.list_sandboxes(None).await.unwrap().remove(0);
    again.stop_sandbox(&sandbox.id).await.unwrap();
    assert_eq!(again.list_sandboxes(None).await.unwrap()[0].state, SandboxState::NotReady);
    assert_eq!(exit_code(&again, &id).await, Some(137));
    world.forget("n");
    assert!(world.node("n", 0).list_containers(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_container_uses_what_its_script_says_until_it_is_told_otherwise() {
    let node = simulated().node("n", 0);
    started(&node, "idle", &[]).await;
    started(&node, "busy", &[("cpu", "500m"), ("memory", "64Mi")]).await;
    advance(Duration::from_secs(10)).await;
    let used = node.usage().await.unwrap();
    assert_eq!(used.len(), 1, "one that uses nothing is not told of");
    assert_eq!((used[0].cpu_nanoseconds, used[0].memory_working_set), (5_000_000_000, 64 << 20));
    node.use_cpu("uid-busy", 100);
    advance(Duration::from_secs(10)).await;
    assert_eq!(node.usage().await.unwrap()[0].cpu_nanoseconds, 6_000_000_000);
}
