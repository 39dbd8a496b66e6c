//! Two machines, each a network namespace of this one: a link between them that can be cut.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::eventually_within;
use crate::harness::program::Place;
use crate::node::{Real, can_run};

/// A silent node is given 50 s, and the loop that looks for it some more.
const SILENCE: Duration = Duration::from_secs(120);

/// Two namespaces with a cable between them; both go with it.
struct Cable {
    ends: [String; 2],
}

impl Cable {
    fn lay(name: &str) -> Cable {
        let ends = ["a", "b"].map(|end| format!("pintle-{}-{name}-{end}", std::process::id()));
        let [a, b] = &ends;
        for line in [
            format!("ip netns add {a}"),
            format!("ip netns add {b}"),
            format!("ip -n {a} link add cable type veth peer name cable netns {b}"),
            format!("ip -n {a} addr add 10.249.0.1/24 dev cable"),
            format!("ip -n {b} addr add 10.249.0.2/24 dev cable"),
            format!("ip -n {a} link set lo up"),
            format!("ip -n {b} link set lo up"),
            format!("ip -n {a} link set cable up"),
            format!("ip -n {b} link set cable up"),
        ] {
            run(&line);
        }
        Cable { ends }
    }

    fn cut(&self) {
        run(&format!("ip -n {} link set cable down", self.ends[1]));
    }

    fn mend(&self) {
        run(&format!("ip -n {} link set cable up", self.ends[1]));
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in &self.ends {
            let _ = Command::new("ip").args(["netns", "del", end]).status();
        }
    }
}

fn run(line: &str) {
    let mut words = line.split(' ');
    let status = Command::new(words.next().unwrap_or_default()).args(words).status();
    assert!(status.is_ok_and(|status| status.success()), "{line}");
}

/// Names of the Pods of a node, and whether each is on its way out.
fn on(pods: &Value, node: &str) -> Vec<(String, bool)> {
    let of_node = |pod: &&Value| pod["spec"]["nodeName"] == node;
    let items = pods["items"].as_array().into_iter().flatten().filter(of_node);
    items
        .map(|pod| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, !pod["metadata"]["deletionTimestamp"].is_null())
        })
        .collect()
}

/// A cluster that begins at one end of the cable, and a machine at the other that has joined it.
async fn two_machines(cable: &Cable) -> (Real, Real) {
    let [here, there] = cable.ends.clone().map(|end| {
        let mut place = Place::new();
        place.network = Some(end);
        place
    });
    let one = Real::start_in(here, &["--listen", "10.249.0.1:6443"]).await;
    let kubeconfig = one.place.path("kubeconfig").display().to_string();
    let words = one.place.words(env!("CARGO_BIN_EXE_pintle"));
    let created = Command::new(&words[0])
        .args(&words[1..])
        .args(["token", "create", "--kubeconfig", &kubeconfig])
        .output()
        .expect("pintle starts");
    let created = String::from_utf8_lossy(&created.stdout).into_owned();
    let invitation = created.lines().find_map(|line| line.trim().strip_prefix("pintle ")).expect("a command");
    let invitation: Vec<String> = invitation.split(' ').map(str::to_owned).collect();
    let two = Real::join(there, &one, &invitation, &["--name", "two"]).await;
    one.until("get nodes", |nodes| nodes.matches(" Ready ").count() == 2).await;
    (one, two)
}

#[tokio::test]
async fn pods_of_two_machines_reach_each_other_by_address_service_and_name() {
    if !can_run() {
        return;
    }
    let cable = Cable::lay("reach");
    let (one, _two) = two_machines(&cable).await;
    let nodes = one.ok("get nodes").await;
    let first = one_name(&nodes).to_owned();
    let ranges = one.ok("get nodes -o jsonpath={.items[*].spec.podCIDR}").await;
    assert_eq!(ranges.split(' ').collect::<std::collections::BTreeSet<_>>(), ["10.244.0.0/24", "10.244.1.0/24"].into());
    for (name, node) in [("near", first.as_str()), ("far", "two")] {
        let script = format!("while :; do echo {name} | nc -l -p 80; done");
        one.pod(
            name,
            json!({"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": script}]}),
        )
        .await;
        one.ok(&format!("label pod {name} app={name}")).await;
        one.ok(&format!("expose pod {name} --type=NodePort --port=80")).await;
    }
    let said = async |from: &str, to: &str| {
        let asked = format!("exec {from} -- nc -w 3 {to} 80");
        eventually_within(Duration::from_secs(20), "an answer", async || {
            let answer = one.run(&asked).await;
            let is_one = ["near", "far"].contains(&answer.stdout.trim());
            if is_one { Ok(answer.stdout) } else { Err(answer.to_string()) }
        })
        .await
    };
    let address = async |pod: &str| {
        let pod = one.phase(pod, "Running").await;
        pod["status"]["podIP"].as_str().expect("a running Pod has an address").to_owned()
    };
    let (near, far) = (address("near").await, address("far").await);
    assert!(near.starts_with("10.244.0.") && far.starts_with("10.244.1."), "{near} {far}");
    // By address, by a Service's name (each machine answers names itself), both ways.
    for (from, to, who) in
        [("near", far.as_str(), "far"), ("far", &near, "near"), ("near", "far", "far"), ("far", "near", "near")]
    {
        assert_eq!(said(from, to).await.trim(), who, "from {from} to {to}");
    }
    // A port of each machine leads to the Pod, wherever it is.
    let port = one.ok("get service far -o jsonpath={.spec.ports[0].nodePort}").await;
    for (space, machine) in [(&cable.ends[1], "10.249.0.1"), (&cable.ends[0], "10.249.0.2")] {
        let asked = Command::new("ip")
            .args(["netns", "exec", space, "busybox", "nc", "-w", "3", machine, port.trim()])
            .stdin(std::process::Stdio::null())
            .output();
        let asked = String::from_utf8_lossy(&asked.expect("ip starts").stdout).into_owned();
        assert_eq!(asked.trim(), "far", "at {machine}");
    }
    // Policies hold across machines: who may not is not let in, who may is.
    one.apply(json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed"},
        "spec": {"podSelector": {"matchLabels": {"app": "far"}}, "policyTypes": ["Ingress"], "ingress": [
            {"from": [{"podSelector": {"matchLabels": {"may": "enter"}}}]}]}}))
        .await;
    let asked = format!("exec near -- nc -w 2 {far} 80");
    eventually_within(Duration::from_secs(20), "the policy holds", async || {
        let answer = one.run(&asked).await;
        if answer.stdout.contains("far") { Err(answer.to_string()) } else { Ok(()) }
    })
    .await;
    one.ok("label pod near may=enter").await;
    assert_eq!(said("near", &far).await.trim(), "far");
}

#[tokio::test]
async fn a_machine_that_is_cut_off_loses_its_pods_to_others_and_comes_back_clean() {
    if !can_run() {
        return;
    }
    let cable = Cable::lay("cut");
    let (one, mut two) = two_machines(&cable).await;

    // Pods end up on both, and those on the far node are reached from here.
    let tolerations: Vec<Value> = ["not-ready", "unreachable"]
        .map(|what| {
            json!({"key": format!("node.kubernetes.io/{what}"), "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 2})
        })
        .to_vec();
    one.apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"tolerations": tolerations, "terminationGracePeriodSeconds": 1, "containers": [{"name": "c",
                "image": "localhost/busybox:1", "command": ["sh", "-c", "echo hello from $HOSTNAME; sleep 1000"]}]}}}}))
        .await;
    one.ok("rollout status deployment/web --timeout=60s").await;
    let far = on(&one.get("pods").await, "two");
    assert_eq!(far.len(), 2, "{far:?}");
    let (pod, _) = &far[0];
    one.until(&format!("logs {pod}"), |said| said.contains(&format!("hello from {pod}"))).await;
    for kubectl in [one.kubectl.clone(), one.over_spdy()] {
        assert_eq!(kubectl.ok(&format!("exec {pod} -- echo over two hops")).await, "over two hops\n");
    }
    let running = two.running();
    assert_eq!(running.len(), 2, "{running:?}");

    // Cut off: the node is given up, its Pods are replaced here; there they run on, since nobody can tell it.
    cable.cut();
    eventually_within(SILENCE, "the node is given up and its Pods are replaced", async || {
        let (nodes, pods) = (one.ok("get nodes").await, one.get("pods").await);
        let (near, far) = (on(&pods, one_name(&nodes)), on(&pods, "two"));
        let given_up = nodes.contains("NotReady") && far.len() == 2 && far.iter().all(|(_, leaving)| *leaving);
        if given_up && near.len() == 4 { Ok(()) } else { Err(format!("{nodes}\n{near:?}\n{far:?}")) }
    })
    .await;
    one.ok("rollout status deployment/web --timeout=60s").await;
    assert_eq!(two.running(), running, "what runs on a node that is cut off runs on");

    // Healed: the node learns what it missed, ends what is no longer wanted, and is a node like any other.
    cable.mend();
    eventually_within(SILENCE, "the node is back and rid of its old Pods", async || {
        let (nodes, pods) = (one.ok("get nodes").await, one.get("pods").await);
        let (ready, far) = (nodes.matches(" Ready ").count() == 2, on(&pods, "two"));
        if ready && far.is_empty() && two.running().is_empty() { Ok(()) } else { Err(format!("{nodes}\n{far:?}")) }
    })
    .await;
    one.until("get node two -o jsonpath={.spec.taints}", str::is_empty).await;

    // And its agent may be lost and found like any other: the certificate lets it in.
    two.kill().await;
    two.rejoin().await;
    one.ok("scale deployment/web --replicas=8").await;
    one.ok("rollout status deployment/web --timeout=60s").await;
    assert_eq!(on(&one.get("pods").await, "two").len(), 4);
}

fn one_name(nodes: &str) -> &str {
    nodes.lines().skip(1).filter_map(|line| line.split(' ').next()).find(|name| *name != "two").unwrap_or_default()
}
