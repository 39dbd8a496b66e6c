//! A cluster whose node is this machine, for one test.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Value, json};

use crate::harness::eventually;
use crate::harness::kubectl::Kubectl;
use crate::harness::program::{Place, Program, REAL};
use crate::skip;

pub const IMAGE: &str = "localhost/busybox:1";

/// Tests run side by side: each has addresses of its own.
static SUBNET: AtomicU8 = AtomicU8::new(0);

pub struct Real {
    pub kubectl: Kubectl,
    program: Option<Program>,
    pub place: Place,
    flags: Vec<String>,
}

impl Deref for Real {
    type Target = Kubectl;

    fn deref(&self) -> &Kubectl {
        &self.kubectl
    }
}

/// Whether this machine can run containers; the test is reported as skipped if not.
pub fn can_run() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let programs = ["containerd", "runc", "ctr", "busybox"].map(|program| (program, on_path(program)));
    let needs = [("root", root)];
    let missing: Vec<&str> =
        needs.into_iter().chain(programs).filter(|(_, there)| !there).map(|(need, _)| need).collect();
    if !missing.is_empty() {
        skip::skip(&missing);
    }
    missing.is_empty()
}

/// The directory of somebody else's CNI plugins.
pub fn plugins() -> PathBuf {
    let asked = std::env::var_os("CNI_PATH").map(PathBuf::from);
    asked.unwrap_or_else(|| PathBuf::from("/usr/lib/cni"))
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).any(|directory| directory.join(program).is_file())
}

impl Real {
    /// A cluster that is gone when the test ends, with busybox on board.
    pub async fn start(flags: &[&str]) -> Real {
        Real::start_in(Place::new(), flags).await
    }

    /// The same in a place that the test has made ready.
    pub async fn start_in(place: Place, flags: &[&str]) -> Real {
        let mut own = own_flags(&place, flags);
        if place.network.is_none() {
            let subnet = format!("10.{}.0.0/24", 150 + SUBNET.fetch_add(1, Ordering::Relaxed) % 100);
            own.extend(["--pod-cidr".to_owned(), subnet]);
        }
        let mut real = Real { kubectl: place.kubectl(), program: None, flags: own, place };
        real.up().await;
        real.import(IMAGE, 0);
        real
    }

    /// A machine that joins the cluster of another, which gave it these words.
    pub async fn join(place: Place, cluster: &Real, words: &[String], flags: &[&str]) -> Real {
        std::fs::copy(cluster.place.path("kubeconfig"), place.path("kubeconfig")).expect("a file");
        let flags: Vec<String> = words.iter().cloned().chain(own_flags(&place, flags)).collect();
        let mut real = Real { kubectl: cluster.kubectl.clone(), program: None, flags, place };
        real.rejoin().await;
        real.import(IMAGE, 0);
        real
    }

    /// Starts the agent of a machine that has joined, again if it was killed.
    pub async fn rejoin(&mut self) {
        let program = self.place.start(&self.flags.iter().map(String::as_str).collect::<Vec<_>>());
        eventually("the machine has joined", async || {
            let said = program.stdout();
            if said.contains("joined") { Ok(()) } else { Err(said + &program.stderr()) }
        })
        .await;
        self.program = Some(program);
    }

    /// Brings an image of busybox in under this name, made larger by some megabytes that do not compress.
    pub fn import(&self, name: &str, megabytes: usize) {
        let archive = busybox(&self.place.path(&name.replace(['/', ':'], "-")), name, megabytes);
        let data = self.place.path("data").display().to_string();
        let imported = self.pintle(&["image", "import", &archive, "--data-dir", &data]);
        assert!(imported.contains(name), "{imported}");
    }

    /// The names of the images that the runtime has.
    pub fn images(&self) -> String {
        self.pintle(&["image", "list", "--data-dir", &self.place.path("data").display().to_string()])
    }

    /// Starts the program, again if it was killed.
    pub async fn up(&mut self) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).chain([REAL]).collect();
        self.program = Some(self.place.up(&flags).await);
        self.until("get nodes", |nodes| nodes.contains(" Ready ")).await;
    }

    /// A kubectl as old ones are: streams over SPDY alone.
    pub fn over_spdy(&self) -> Kubectl {
        let words = ["env", "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"];
        let mut kubectl = self.kubectl.clone();
        kubectl.program.splice(..0, words.map(str::to_owned));
        kubectl
    }

    /// As a power cut would end it; containers run on.
    pub async fn kill(&mut self) {
        let mut program = self.program.take().expect("it runs");
        program.child.kill().await.expect("it is killed");
    }

    pub fn pintle(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_pintle")).args(arguments).output().expect("pintle starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes or changes an object.
    pub async fn apply(&self, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or("object").to_owned();
        let file = self.place.path(&format!("{name}.json"));
        std::fs::write(&file, object.to_string()).expect("a file");
        self.ok(&format!("apply -f {}", file.display())).await;
    }

    /// A Pod with this spec; containers without an image get busybox, and a script becomes a command.
    pub async fn pod(&self, name: &str, mut spec: Value) {
        for list in ["initContainers", "containers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if container.get("image").is_none() {
                    container["image"] = IMAGE.into();
                }
                if let Some(script) = container.as_object_mut().and_then(|fields| fields.remove("script")) {
                    container["command"] = json!(["sh", "-c", script]);
                }
            }
        }
        self.apply(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})).await;
    }

    pub async fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("get {what} -o json")).await).expect("JSON")
    }

    /// Looks at a Pod until it is as it should be.
    pub async fn pod_until(&self, name: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("Pod {name}: {what}"), async || {
            let pod = self.get(&format!("pod {name}")).await;
            match fits(&pod) {
                true => Ok(pod),
                false => Err(format!("{}\n{}", pod["status"], self.ok("get events").await)),
            }
        })
        .await
    }

    pub async fn phase(&self, name: &str, phase: &str) -> Value {
        self.pod_until(name, phase, |pod| pod["status"]["phase"] == phase).await
    }

    /// What a container has written, without times and streams.
    pub fn log(&self, pod: &Value, container: &str, attempt: u32) -> String {
        let meta = &pod["metadata"];
        let text = |field: &str| meta[field].as_str().unwrap_or_default();
        let directory = format!("{}_{}_{}", text("namespace"), text("name"), text("uid"));
        let file = self.place.path(&format!("data/node/logs/pods/{directory}/{container}/{attempt}.log"));
        let log = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        log.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
    }

    /// The containers that run, sandboxes aside.
    pub fn running(&self) -> BTreeSet<String> {
        let socket = self.place.path("data/node/containerd/containerd.sock");
        let list = |arguments: &[&str]| {
            let mut command = Command::new("ctr");
            let output = command.arg("-a").arg(&socket).args(["-n", "k8s.io"]).args(arguments).output();
            String::from_utf8_lossy(&output.expect("ctr starts").stdout).into_owned()
        };
        let of_pods = list(&["containers", "ls", "-q", "labels.\"io.cri-containerd.kind\"==container"]);
        let of_pods: BTreeSet<&str> = of_pods.lines().collect();
        let tasks = list(&["tasks", "ls"]);
        let running = tasks.lines().filter(|line| line.ends_with("RUNNING")).filter_map(|line| line.split(' ').next());
        running.filter(|id| of_pods.contains(id)).map(str::to_owned).collect()
    }

    /// How many containers the runtime has, dead ones too; sandboxes count.
    pub fn containers(&self) -> usize {
        let socket = self.place.path("data/node/containerd/containerd.sock");
        let output =
            Command::new("ctr").arg("-a").arg(socket).args(["-n", "k8s.io", "containers", "ls", "-q"]).output();
        String::from_utf8_lossy(&output.expect("ctr starts").stdout).lines().count()
    }
}

/// What keeps tests that run side by side apart.
fn own_flags(place: &Place, flags: &[&str]) -> Vec<String> {
    let data = place.path("data").display().to_string();
    let plugins = place.path("plugins").display().to_string();
    // Nothing of a test is left in the machine\'s own directory of logs.
    let logs = place.path("data/node/logs/pods").display().to_string();
    let own = ["--data-dir", &data, "--device-plugin-path", &plugins, "--pod-logs-dir", &logs];
    // Whether the disk of the machine is nearly full must not decide what other tests see.
    let eviction = ["--eviction-hard", "memory.available<50Mi"];
    let eviction = if flags.contains(&eviction[0]) { &[][..] } else { &eviction[..] };
    own.iter().chain(eviction).chain(flags).map(|flag| (*flag).to_owned()).collect()
}

impl Drop for Real {
    fn drop(&mut self) {
        // Containers outlive the agent by design: whatever the test has left is ended here, by the agent itself if it can,
        // since that gives addresses and namespaces back too.
        if self.program.is_some() {
            let remove = format!(
                "{} --kubeconfig {} delete pods --all --all-namespaces --grace-period=1 --timeout=20s",
                self.place.words("${PINTLE_KUBECTL:-kubectl}").join(" "),
                self.place.path("kubeconfig").display()
            );
            let _ = Command::new("sh").args(["-c", &remove]).output();
        }
        if let Some(id) = self.program.as_ref().and_then(|program| program.child.id()) {
            let _ = Command::new("kill").arg("-KILL").arg(id.to_string()).status();
        }
        let node = self.place.path("data/node/containerd");
        let script = format!(
            "cd {0} 2>/dev/null || exit 0; C='ctr -a containerd.sock -n k8s.io'; \
             for t in $($C tasks ls -q); do $C tasks kill -s KILL $t; done; \
             for i in 1 2 3 4 5 6 7 8 9 10; do $C tasks ls | grep -q RUNNING || break; sleep 0.2; done; \
             for t in $($C tasks ls -q); do $C tasks rm $t; done; kill $(cat containerd.pid); \
             for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 $(cat containerd.pid) || break; sleep 0.2; done; \
             grep ' {1}' /proc/mounts | cut -d' ' -f2 | sort -r | while read m; do umount -l $m; done; \
             B=$(sed -n 's/.*\"bridge\":\"\\([^\"]*\\)\".*/\\1/p' cni/99-pintle.conflist); ip link del $B; \
             for f in ip ip6; do for t in $B $B-pods $B-policy; do nft delete table $f $t; done; done",
            node.display(),
            self.place.path("data").display(),
        );
        let _ = Command::new("sh").args(["-c", &script]).output();
    }
}

/// An image with a static busybox under the names that scripts use.
pub fn busybox(directory: &Path, name: &str, megabytes: usize) -> String {
    std::fs::create_dir(directory).expect("a directory");
    let script = include_str!("../../../container/tests/busybox.sh");
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("NAME", name).env("MEGABYTES", megabytes.to_string()).current_dir(directory);
    let made = command.status().expect("sh starts");
    assert!(made.success());
    directory.join("image.tar").display().to_string()
}
