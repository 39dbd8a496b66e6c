//! A containerd that somebody else runs: its Pods are ours, its life is not.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::eventually;
use crate::harness::program::{Place, REAL};
use crate::node::{IMAGE, Real, busybox, can_run, plugins};
use crate::skip;

/// As an administrator starts it.
struct Containerd {
    child: Child,
    place: Place,
}

impl Containerd {
    /// With the plugins of a directory, and networks that are set up already.
    async fn start(pause: &str, plugins: Option<PathBuf>, network: Option<Value>) -> Containerd {
        let place = Place::new();
        let path = |name: &str| place.path(name).display().to_string();
        let plugins = plugins.unwrap_or_else(|| place.path("bin")).display().to_string();
        std::fs::create_dir(place.path("net.d")).expect("a directory");
        if let Some(network) = network {
            std::fs::write(place.path("net.d/10-somebody.conflist"), network.to_string()).expect("a file");
        }
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
        for (family, part) in
            ["ip", "ip6"].into_iter().flat_map(|family| ["", "-pods", "-policy"].map(|part| (family, part)))
        {
            let table = format!("{bridge}{part}");
            let _ = Command::new("nft").args(["delete", "table", family, &table]).stderr(Stdio::null()).status();
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
    let containerd = Containerd::start("localhost/pintle/pause:1", None, None).await;
    let pause = other.place.path("data/node/containerd/pause.tar").display().to_string();
    let imported = containerd.ctr(&["images", "import", &pause]).expect("an image");
    assert!(imported.contains("localhost/pintle/pause:1"), "{imported}");
    drop(other);

    let place = Place::new();
    let data = place.path("data").display().to_string();
    let _reset = Reset(data.clone());
    let plugins = place.path("plugins").display().to_string();
    let endpoint = format!("unix://{}", containerd.place.path("socket").display());
    let flags = ["--data-dir", &data, "--container-runtime-endpoint", &endpoint, "--pod-cidr", "10.148.0.0/24"];
    let logs = place.path("logs/pods").display().to_string();
    let more =
        ["--pod-logs-dir", &logs, "--device-plugin-path", &plugins, "--eviction-hard", "memory.available<50Mi", REAL];
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
    let own = std::fs::read_link(containerd.place.path("bin/pintle-cni")).expect("the plugin is where it looks");
    assert_eq!(own, PathBuf::from(env!("CARGO_BIN_EXE_pintle")));

    // Another cluster on the same runtime sees nothing of it, and so removes nothing.
    let neighbour = Place::new();
    let theirs = neighbour.path("data").display().to_string();
    let _reset_of_theirs = Reset(theirs.clone());
    let flags_of_theirs = ["--data-dir", &theirs, "--container-runtime-endpoint", &endpoint];
    let logs_of_theirs = neighbour.path("logs/pods").display().to_string();
    let more_of_theirs = ["--pod-logs-dir", &logs_of_theirs, "--device-plugin-path", &theirs, "--eviction-hard"];
    let second =
        neighbour.up(&[&flags_of_theirs[..], &more_of_theirs[..], &["memory.available<50Mi", REAL]].concat()).await;
    neighbour.kubectl().until("get nodes", |nodes| nodes.contains(" Ready ")).await;
    assert!(containerd.ctr(&["tasks", "ls"]).expect("it answers").contains("RUNNING"));
    drop(second);

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

#[tokio::test]
async fn pods_have_the_network_that_somebody_has_set_up() {
    if !can_run() {
        return;
    }
    if !plugins().join("bridge").is_file() {
        return skip::skip(&["CNI plugins"]);
    }
    let other = Real::start(&[]).await;
    let network = json!({"cniVersion": "0.4.0", "name": "theirs", "plugins": [{"type": "bridge", "bridge": "theirs0",
        "isGateway": true, "ipam": {"type": "host-local", "dataDir": other.place.path("theirs"),
            "ranges": [[{"subnet": "10.147.0.0/24"}]]}}]});
    let containerd = Containerd::start("localhost/pintle/pause:1", Some(plugins()), Some(network)).await;
    let _bridge = Theirs;
    let pause = other.place.path("data/node/containerd/pause.tar").display().to_string();
    containerd.ctr(&["images", "import", &pause]).expect("an image");

    let place = Place::new();
    let data = place.path("data").display().to_string();
    let _reset = Reset(data.clone());
    let devices = place.path("plugins").display().to_string();
    let endpoint = format!("unix://{}", containerd.place.path("socket").display());
    let logs = place.path("logs/pods").display().to_string();
    let flags = ["--data-dir", &data, "--container-runtime-endpoint", &endpoint, "--device-plugin-path", &devices];
    let flags = [&flags[..], &["--pod-logs-dir", &logs]].concat();
    let _program = place.up(&[&flags[..], &["--eviction-hard", "memory.available<50Mi", REAL][..]].concat()).await;
    let kubectl = place.kubectl();
    kubectl.until("get nodes", |nodes| nodes.contains(" Ready ")).await;
    let archive = busybox(&place.path("image"), IMAGE, 0);
    containerd.ctr(&["images", "import", &archive]).expect("an image");
    kubectl.ok(&format!("run guest --image={IMAGE} --restart=Never -- sleep 1000")).await;
    let address = kubectl.until("get pod guest -o jsonpath={.status.podIP}", |said| !said.is_empty()).await;
    assert!(address.starts_with("10.147.0."), "{address}");
    assert!(!containerd.place.path("net.d/99-pintle.conflist").exists(), "theirs is left alone");
    kubectl.ok("delete pod guest --grace-period=1").await;
    eventually("nothing of it is left", async || {
        let left = containerd.ctr(&["containers", "ls", "-q"])?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Takes away what a cluster leaves on purpose when it stops: rules, so that packets flow on.
struct Reset(String);

impl Drop for Reset {
    fn drop(&mut self) {
        // Whoever was killed holds its locks for a moment.
        let script = r#"for i in 1 2 3 4 5 6 7 8 9 10; do "$0" reset --yes --data-dir "$1" && exit 0; sleep 0.3; done"#;
        let _ = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_pintle"), &self.0]).output();
    }
}

/// The bridge that their plugin makes.
struct Theirs;

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", "theirs0"]).stderr(Stdio::null()).status();
    }
}
