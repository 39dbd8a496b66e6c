//! A containerd that somebody else runs: its Pods are ours, its life is not.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::harness::eventually;
use crate::harness::program::{Place, REAL};
use crate::node::{IMAGE, Real, busybox, can_run, plugins};

/// As an administrator starts it, with plugins and no network set up.
struct Containerd {
    child: Child,
    place: Place,
}

impl Containerd {
    async fn start(pause: &str) -> Containerd {
        let place = Place::new();
        let path = |name: &str| place.path(name).display().to_string();
        let plugins = plugins().display().to_string();
        let configuration = format!(
            "version = 2\nroot = \"{}\"\nstate = \"{}\"\n[grpc]\n  address = \"{}\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"{pause}\"\n  restrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\n  bin_dir = {plugins:?}\n  conf_dir = \"{}\"\n",
            path("root"),
            path("state"),
            path("socket"),
            path("net.d")
        );
        std::fs::write(place.path("config.toml"), configuration).expect("a file");
        let mut command = Command::new("containerd");
        command.arg("--config").arg(place.path("config.toml")).stdout(Stdio::null()).stderr(Stdio::null());
        let containerd = Containerd { child: command.spawn().expect("containerd starts"), place };
        eventually("containerd answers", async || containerd.ctr(&["version"]).map(drop)).await;
        containerd
    }

    fn ctr(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("ctr");
        command.arg("-a").arg(self.place.path("socket")).args(["-n", "k8s.io"]).args(arguments);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let file = self.place.path("net.d/99-pintle.conflist");
        let network = std::fs::read_to_string(file).unwrap_or_default();
        let network: serde_json::Value = serde_json::from_str(&network).unwrap_or_default();
        let bridge = network["plugins"][0]["bridge"].as_str().unwrap_or("none").to_owned();
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        let _ = Command::new("ip").args(["link", "del", &bridge]).stderr(Stdio::null()).status();
        for family in ["ip", "ip6"] {
            let _ = Command::new("nft").args(["delete", "table", family, &bridge]).stderr(Stdio::null()).status();
        }
    }
}

#[tokio::test]
async fn pods_run_on_the_containerd_that_the_machine_has_and_it_outlives_us() {
    if !can_run() {
        return;
    }
    // What holds sandboxes is an image that a private containerd is given.
    let other = Real::start(&[]).await;
    let containerd = Containerd::start("localhost/pintle/pause:1").await;
    let pause = other.place.path("data/node/containerd/pause.tar").display().to_string();
    let imported = containerd.ctr(&["images", "import", &pause]).expect("an image");
    assert!(imported.contains("localhost/pintle/pause:1"), "{imported}");
    drop(other);

    let place = Place::new();
    let data = place.path("data").display().to_string();
    let plugins = place.path("plugins").display().to_string();
    let endpoint = format!("unix://{}", containerd.place.path("socket").display());
    let flags = ["--data-dir", &data, "--container-runtime-endpoint", &endpoint, "--pod-cidr", "10.148.0.0/24"];
    let more = ["--device-plugin-path", &plugins, "--eviction-hard", "memory.available<50Mi", REAL];
    let mut program = place.up(&[&flags[..], &more[..]].concat()).await;
    let kubectl = place.kubectl();
    assert!(program.stdout().contains("a bridge for Pods"), "{}", program.stdout());
    kubectl.until("get nodes", |nodes| nodes.contains(" Ready ")).await;

    let archive = busybox(&place.path("image"), IMAGE, 0);
    let pintle = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(["image", "import", &archive, "--container-runtime-endpoint", &endpoint])
        .output()
        .expect("pintle starts");
    assert!(pintle.status.success(), "{}", String::from_utf8_lossy(&pintle.stderr));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "guest"}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": IMAGE, "command": ["sh", "-c", "echo hello; sleep 1000"]}]}});
    std::fs::write(place.path("pod.json"), pod.to_string()).expect("a file");
    kubectl.ok(&format!("apply -f {}", place.path("pod.json").display())).await;
    kubectl.until("get pod guest", |said| said.contains("1/1")).await;
    kubectl.until("logs guest", |said| said == "hello\n").await;
    let address = kubectl.ok("get pod guest -o jsonpath={.status.podIP}").await;
    assert!(address.starts_with("10.148.0."), "{address}");

    // Stopping the cluster stops neither the Pod nor what runs it; starting it again restarts nothing.
    let id = program.child.id().expect("it runs").to_string();
    let _ = Command::new("kill").arg(&id).status();
    program.child.wait().await.expect("it ends");
    assert!(containerd.ctr(&["tasks", "ls"]).expect("it answers").contains("RUNNING"));
    let _program = place.up(&[&flags[..], &more[..]].concat()).await;
    kubectl.until("get pod guest", |said| said.contains("1/1") && said.contains("Running")).await;
    let restarts = kubectl.ok("get pod guest -o jsonpath={.status.containerStatuses[0].restartCount}").await;
    assert_eq!(restarts, "0");
    kubectl.ok("delete pod guest").await;
    eventually("nothing of it is left", async || {
        let left = containerd.ctr(&["containers", "ls", "-q"])?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}
