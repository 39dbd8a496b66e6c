//! Real containers, in a containerd of the test's own: what the trait promises is looked at from inside and from outside.
//!
//! Needs root, and containerd, runc, ctr and busybox-static; where they are missing the tests are reported as skipped.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pintle_container::cri::private::{Private, import};
use pintle_container::{
    ContainerConfig, ContainerId, Cri, Mount, PodRef, Runtime, Sandbox, SandboxConfig, SandboxId, SandboxState, State,
};

#[path = "../../../xtask/src/test/skip.rs"]
mod skip;
mod unwired;

const IMAGE: &str = "localhost/busybox:1";

fn can_run() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let busybox = Command::new("busybox").arg("true").status().is_ok_and(|status| status.success());
    let needs = [("root", root), ("containerd, runc and ctr", Private::is_possible()), ("busybox", busybox)];
    let missing: Vec<&str> = needs.into_iter().filter(|(_, there)| !there).map(|(need, _)| need).collect();
    if !missing.is_empty() {
        skip::skip(&missing);
    }
    missing.is_empty()
}

/// An image with nothing but a static busybox and its names.
fn busybox(directory: &Path) -> std::path::PathBuf {
    let made = Command::new("sh").args(["-c", include_str!("busybox.sh")]).current_dir(directory).status();
    let made = made.expect("sh starts");
    assert!(made.success());
    directory.join("image.tar")
}

struct Node {
    private: Option<Private>,
    cri: Cri,
    directory: tempfile::TempDir,
}

async fn start(prefix: &str) -> Node {
    let directory = tempfile::tempdir().expect("a directory");
    let config = unwired::config(&directory.path().join("c"), prefix);
    let (private, cri) = Private::start(&config).await.expect("containerd starts");
    import(private.socket(), &busybox(directory.path())).await.expect("the image is imported");
    Node { private: Some(private), cri, directory }
}

impl Node {
    fn sandbox(&self, name: &str) -> SandboxConfig {
        SandboxConfig {
            pod: PodRef { namespace: "shop".into(), name: name.into(), uid: format!("uid-{name}") },
            hostname: name.to_owned(),
            log_directory: self.directory.path().join("logs").join(name).to_string_lossy().into_owned(),
            ..SandboxConfig::default()
        }
    }

    async fn run(&self, id: &SandboxId, shared: &SandboxConfig, config: ContainerConfig) -> ContainerId {
        let config = ContainerConfig { image: IMAGE.into(), log_path: format!("{}.log", config.name), ..config };
        let made = self.cri.create_container(id, shared, config).await.expect("it is created");
        self.cri.start_container(&made).await.expect("it is started");
        made
    }

    /// Waits for news of its Pods until it has ended.
    async fn end_of(&self, id: &ContainerId) -> (i32, String) {
        loop {
            let found = self.cri.container_status(id).await.expect("it is known");
            if let State::Exited { exit_code, reason, .. } = found.state {
                return (exit_code, reason);
            }
            tokio::time::timeout(Duration::from_secs(60), self.cri.changes()).await.expect("it ends within a minute");
        }
    }

    fn log(&self, shared: &SandboxConfig, name: &str) -> String {
        std::fs::read_to_string(Path::new(&shared.log_directory).join(format!("{name}.log"))).expect("a log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // What a failed assertion left running goes with the machine's processes of this directory.
        let Some(private) = self.private.take() else { return };
        let socket = private.socket().to_owned();
        let remove = format!(
            "for p in $(ctr -a {0} -n k8s.io tasks ls -q); do ctr -a {0} -n k8s.io tasks kill -s KILL $p; done; sleep 0.2",
            socket.display()
        );
        let _ = Command::new("sh").args(["-c", &remove]).output();
        let _ = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(private.stop());
        })
        .join();
    }
}

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_runs_logs_is_entered_and_ends_with_its_code() {
    if !can_run() {
        return;
    }
    let node = start("10.213.0").await;
    assert_eq!(node.cri.version().name, "containerd");
    let health = node.cri.health().await;
    assert_eq!((&health.runtime, &health.network), (&Ok(()), &Ok(())));

    let images = node.cri.list_images().await.expect("images");
    let pinned: Vec<&str> = images.iter().filter(|image| image.pinned).map(|image| image.name.as_str()).collect();
    assert_eq!(pinned, ["localhost/pintle/pause:1"], "what every Pod needs is never removed");

    let shared = node.sandbox("web");
    let id = node.cri.run_sandbox(shared.clone()).await.expect("a sandbox");
    let sandboxes = node.cri.list_sandboxes(Some("uid-web")).await.expect("a list");
    let [Sandbox { state: SandboxState::Ready, addresses, .. }] = &sandboxes[..] else { panic!("{sandboxes:?}") };
    assert!(addresses[0].to_string().starts_with("10.213.0."), "{addresses:?}");
    assert!(node.cri.list_sandboxes(Some("another")).await.expect("a list").is_empty());

    let host = node.directory.path().join("shared");
    std::fs::create_dir(&host).expect("a directory");
    let mount = Mount { host_path: host.to_string_lossy().into(), container_path: "/data".into(), ..Mount::default() };
    let config = ContainerConfig {
        name: "main".into(),
        command: shell(
            "echo hello $WHO from $(cat /etc/hostname); echo oops >&2; touch /data/seen; while :; do [ -e /data/end ] && exit 7; sleep 0.05; done",
        ),
        environment: vec![("WHO".into(), "you".into())],
        mounts: vec![mount],
        ..ContainerConfig::default()
    };
    let main = node.run(&id, &shared, config).await;
    let running = node.cri.container_status(&main).await.expect("it is known");
    assert!(running.is_running() && running.pod == shared.pod && running.name == "main", "{running:?}");

    let executed = node.cri.exec(&main, &shell("id -u; exit 3"), Duration::from_secs(10)).await.expect("it runs");
    assert_eq!((executed.exit_code, executed.output.as_slice()), (3, &b"0\n"[..]));
    let usage = node.cri.usage().await.expect("usage");
    assert!(usage.iter().any(|usage| usage.id == main && usage.memory_usage > 0), "{usage:?}");

    std::fs::write(host.join("end"), "").expect("a file");
    assert_eq!(node.end_of(&main).await, (7, "Error".to_owned()));
    assert!(host.join("seen").exists());
    let log = node.log(&shared, "main");
    assert!(log.contains("stdout F hello you from web") && log.contains("stderr F oops"), "{log}");

    node.cri.remove_container(&main).await.expect("it goes");
    node.cri.remove_container(&main).await.expect("gone is gone");
    node.cri.remove_sandbox(&id).await.expect("it goes");
    assert!(node.cri.list_sandboxes(None).await.expect("a list").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_does_not_listen_is_killed_after_its_grace_and_one_that_listens_ends_itself() {
    if !can_run() {
        return;
    }
    let node = start("10.213.1").await;
    let shared = node.sandbox("stubborn");
    let id = node.cri.run_sandbox(shared.clone()).await.expect("a sandbox");
    let named = |name: &str, script: &str| ContainerConfig {
        name: name.into(),
        command: shell(script),
        ..ContainerConfig::default()
    };
    let polite = named("polite", "trap 'exit 9' TERM; touch /tmp/up; while :; do sleep 0.05; done");
    let polite = node.run(&id, &shared, polite).await;
    let deaf = node.run(&id, &shared, named("deaf", "trap '' TERM; touch /tmp/up; while :; do sleep 0.05; done")).await;
    for container in [&polite, &deaf] {
        let up = shell("while [ ! -e /tmp/up ]; do sleep 0.05; done");
        node.cri.exec(container, &up, Duration::from_secs(20)).await.expect("the trap is set");
        node.cri.stop_container(container, Duration::from_secs(1)).await.expect("it is asked");
        assert!(node.cri.container_status(container).await.expect("known").stopping);
    }
    assert_eq!(node.end_of(&polite).await.0, 9);
    assert_eq!(node.end_of(&deaf).await.0, 137);
    node.cri.remove_sandbox(&id).await.expect("it goes with its containers");
    assert!(node.cri.list_containers(None).await.expect("a list").is_empty());
}
