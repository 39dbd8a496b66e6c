//! What a controller in a Pod needs: names, Services, and the API server under its own account. All of it in a network that has no
//! way out.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::harness::program::Place;
use crate::node::{Real, can_run};
use crate::skip;

/// A network namespace with loopback alone; it goes with the test.
pub struct Alone(pub String);

impl Alone {
    pub fn new(name: &str) -> Alone {
        let alone = Alone(format!("pintle-{}-{name}", std::process::id()));
        for line in [format!("netns add {}", alone.0), format!("-n {} link set lo up", alone.0)] {
            let done = Command::new("ip").args(line.split(' ')).status();
            assert!(done.is_ok_and(|status| status.success()), "ip {line}");
        }
        alone
    }

    pub fn place(&self) -> Place {
        let mut place = Place::new();
        place.network = Some(self.0.clone());
        place
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// The kubectl of the tests, which stands for every program that is written with client-go.
pub fn kubectl() -> String {
    let kubectl = std::env::var("PINTLE_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", &kubectl]).output().expect("sh starts");
    String::from_utf8_lossy(&found.stdout).trim().to_owned()
}

#[tokio::test]
async fn a_controller_in_a_pod_finds_the_api_server_by_its_name_and_is_known_by_its_account() {
    if !can_run() {
        return;
    }
    let alone = Alone::new("inside");
    let cluster = Real::start_in(alone.place(), &[]).await;
    cluster.ok("create serviceaccount operator").await;
    cluster.ok("create role reads --verb=list --resource=pods").await;
    cluster.ok("create rolebinding operator-reads --role=reads --serviceaccount=default:operator").await;
    let account = "/var/run/secrets/kubernetes.io/serviceaccount";
    let script = format!(
        "kubectl get pods -o name; kubectl get secrets 2>&1; \
         kubectl --server=https://kubernetes.default.svc --certificate-authority={account}/ca.crt \
         --token=$(cat {account}/token) get pods -o name; echo done; sleep 1000"
    );
    cluster
        .pod(
            "operator",
            json!({"serviceAccountName": "operator", "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "script": script,
                    "volumeMounts": [{"name": "kubectl", "mountPath": "/bin/kubectl", "readOnly": true}]}],
                "volumes": [{"name": "kubectl", "hostPath": {"path": kubectl(), "type": "File"}}]}),
        )
        .await;
    let said = cluster.until("logs operator", |said| said.contains("done")).await;
    assert_eq!(said.matches("pod/operator\n").count(), 2, "by address and by name:\n{said}");
    let refused = "User \"system:serviceaccount:default:operator\" cannot list resource \"secrets\"";
    assert!(said.contains(refused), "{said}");
    assert!(!cluster.ok("get endpoints kubernetes").await.contains("<none>"));
}

#[tokio::test]
async fn pods_find_each_other_by_the_name_of_a_service() {
    if !can_run() {
        return;
    }
    let alone = Alone::new("services");
    let cluster = Real::start_in(alone.place(), &[]).await;
    for name in ["web-a", "web-b"] {
        cluster
            .apply(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": crate::node::IMAGE,
                    "command": ["sh", "-c", "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"],
                    "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}}]}}))
            .await;
    }
    for (name, address) in [("web", json!({})), ("all", json!({"clusterIP": "None"}))] {
        let mut spec = json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
        spec.as_object_mut().expect("an object").extend(address.as_object().expect("an object").clone());
        cluster.apply(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})).await;
    }
    cluster.ok("wait --for=condition=Ready pod/web-a pod/web-b --timeout=60s").await;
    // Asks as often as it is told. The busybox of Debian is linked in such a way that only its nslookup can look names up.
    let asks = r#"for i in $(seq $1); do printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 2 $2 80 2>&1 | tail -n 1; done"#;
    let script = format!("cat > /ask <<'END'\n{asks}\nEND\nsleep 1000");
    let asking = json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": script}]});
    cluster.pod("asks", asking).await;
    cluster.ok("wait --for=condition=Ready pod/asks --timeout=60s").await;
    let address = cluster.ok("get service web -o jsonpath={.spec.clusterIP}").await;
    let found = "exec asks -- nslookup web.default.svc.cluster.local";
    cluster.until(found, |said| said.contains(&format!("Address: {address}"))).await;
    let tries = &format!("exec asks -- sh /ask 20 {address}");
    let said = cluster.until(tries, |said| said.contains("web-a") && said.contains("web-b")).await;
    assert_eq!(said.lines().count(), 20, "none is lost:\n{said}");
    let names = cluster
        .until("exec asks -- nslookup all.default.svc.cluster.local", |said| said.matches("Address").count() >= 3)
        .await;
    assert!(names.contains("10.96.0.10"), "{names}");
    let kubeconfig = cluster.place.path("kubeconfig").display().to_string();
    let words = cluster.place.words(env!("CARGO_BIN_EXE_pintle"));
    let shown = Command::new(&words[0])
        .args(&words[1..])
        .args(["network", "show", "pod/web-a", "--kubeconfig", &kubeconfig])
        .output()
        .expect("pintle starts");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!("{address}:80 tcp\n  to one of ")) && shown.contains("tcp-pick-0-2"), "{shown}");
    // One that goes is not asked any more, and neither is one that nobody serves.
    cluster.ok("delete pod web-a").await;
    cluster.until(tries, |said| !said.contains("web-a") && said.lines().count() == 20).await;
    cluster.ok("delete pod web-b").await;
    cluster.until(&format!("exec asks -- sh /ask 1 {address}"), |said| said.contains("refused")).await;
}

#[tokio::test]
async fn what_a_compiler_made_runs_in_a_pod_after_one_command() {
    if !can_run() {
        return;
    }
    let alone = Alone::new("images");
    let cluster = Real::start_in(alone.place(), &[]).await;
    let data = cluster.place.path("data").display().to_string();
    let own = env!("CARGO_BIN_EXE_pintle");
    let said = cluster.pintle(&["image", "build", own, "-t", "localhost/own:1", "--data-dir", &data]);
    assert!(said.contains("localhost/own:1"), "{said}");
    // And on top of another one.
    let from = ["image", "build", own, "-t", "localhost/own:2", "--from", crate::node::IMAGE, "--data-dir", &data];
    cluster.pintle(&from);
    assert!(cluster.images().contains("localhost/own:2"));
    let spec = json!({"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "localhost/own:1", "args": ["--version"]}]});
    cluster.pod("alone", spec).await;
    cluster.phase("alone", "Succeeded").await;
    assert!(cluster.ok("logs alone").await.starts_with("pintle "));
    let both = json!({"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "localhost/own:2", "command": ["sh", "-c", "ls /pintle /bin/sh"]}]});
    cluster.pod("both", both).await;
    cluster.phase("both", "Succeeded").await;
}

const CNREX: &str = r#"
apiVersion: cnat.programming-kubernetes.info/v1alpha1
kind: At
metadata:
  name: cnrex
spec:
  schedule: "2022-10-01T00:00:00Z"
  containers:
  - name: shell
    image: centos:7
    command:
    - "bin/bash"
    - "-c"
    - echo "Hello China"
"#;

/// An image with the machine's own bash, under the name that the manifest asks for.
const CENTOS: &str = r#"
set -e
mkdir -p layer/bin
for file in /bin/bash $(ldd /bin/bash | grep -o '/[^ ]*'); do mkdir -p layer/$(dirname $file); cp -L $file layer/$file; done
tar -C layer -cf layer.tar .
sum=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' $sum > config.json
printf '[{"Config":"config.json","RepoTags":["docker.io/library/centos:7"],"Layers":["layer.tar"]}]' > manifest.json
tar -cf image.tar config.json manifest.json layer.tar
rm -r layer layer.tar config.json manifest.json
"#;

/// The example operator, which is built beside this program whenever the whole workspace is.
fn at_operator() -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_BIN_EXE_pintle")).with_file_name("at-operator");
    if !found.is_file() {
        skip::skip(&["target/debug/at-operator (cargo build --package at-operator)"]);
        return None;
    }
    Some(found)
}

#[tokio::test]
async fn the_example_operator_does_its_work_from_a_pod_of_the_cluster_that_it_serves() {
    if !can_run() {
        return;
    }
    let Some(operator) = at_operator() else { return };
    let alone = Alone::new("operator");
    let cluster = Real::start_in(alone.place(), &[]).await;
    let data = cluster.place.path("data").display().to_string();
    let operator = operator.display().to_string();
    cluster.pintle(&["image", "build", &operator, "-t", "localhost/at-operator:1", "--data-dir", &data]);
    let cloud = cluster.place.path("cloud");
    std::fs::create_dir(&cloud).expect("a directory");
    std::os::unix::fs::chown(&cloud, Some(65532), None).expect("root may");
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operators/at/manifests");
    for name in ["crd.yaml", "rbac.yaml", "deployment.yaml"] {
        let text = std::fs::read_to_string(manifests.join(name)).expect("a manifest");
        let file = cluster.place.path(name);
        std::fs::write(&file, text.replace("/var/lib/at-cloud", &cloud.display().to_string())).expect("a file");
        cluster.ok(&format!("apply -f {}", file.display())).await;
    }
    cluster.ok("-n at-operator rollout status deployment/at-operator --timeout=60s").await;
    cluster
        .apply(json!({"apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At", "metadata": {"name": "hello"},
            "spec": {"schedule": "2022-10-01T00:00:00Z", "containers": [{"name": "c", "image": crate::node::IMAGE,
                "command": ["sh", "-c", "echo Hello China"]}]}}))
        .await;
    cluster.ok("wait at/hello --for=jsonpath={.status.phase}=DONE --timeout=60s").await;
    let pod = cluster.ok("get at/hello -o jsonpath={.status.pod}").await;
    assert_eq!(cluster.ok(&format!("logs {pod}")).await, "Hello China\n");
    // The manifest of the documents that this project began with, as it stands there.
    let made = Command::new("sh").args(["-c", CENTOS]).current_dir(cluster.place.path("cloud")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let archive = cluster.place.path("cloud/image.tar").display().to_string();
    cluster.pintle(&["image", "import", &archive, "--data-dir", &data]);
    let file = cluster.place.path("cnrex.yaml");
    std::fs::write(&file, CNREX).expect("a file");
    cluster.ok(&format!("apply -f {}", file.display())).await;
    cluster.ok("wait at/cnrex --for=jsonpath={.status.phase}=DONE --timeout=60s").await;
    let pod = cluster.ok("get at/cnrex -o jsonpath={.status.pod}").await;
    assert_eq!(cluster.ok(&format!("logs {pod}")).await, "Hello China\n");
    // Nobody is left to release them otherwise.
    cluster.ok("delete at hello cnrex --timeout=60s").await;
}
