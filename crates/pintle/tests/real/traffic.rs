//! What users of a service would lose: requests, while it is updated or while the program that carries them is exchanged.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::inside::Alone;
use crate::node::{IMAGE, Real, can_run};

/// Clients of the machine's own, which ask until they are told to stop; each answer is a line.
struct Clients {
    children: Vec<Child>,
    directory: std::path::PathBuf,
}

impl Clients {
    fn start(cluster: &Real, count: usize, address: &str) -> Clients {
        let directory = cluster.place.path("clients");
        std::fs::create_dir_all(&directory).expect("a directory");
        let script = format!(
            "while [ ! -e {0}/stop ]; do \
             A=$(printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 5 {address} 80 | busybox tail -n 1); echo ${{A:-lost}}; done > {0}/$0",
            directory.display()
        );
        let one = |number: usize| {
            let words = cluster.place.words("sh");
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).args(["-c", &script, &format!("answers-{number}")]);
            command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh starts")
        };
        Clients { children: (0..count).map(one).collect(), directory }
    }

    /// All answers.
    fn stop(mut self) -> Vec<String> {
        std::fs::write(self.directory.join("stop"), "").expect("a file");
        for child in &mut self.children {
            child.wait().expect("it ends");
        }
        let files = std::fs::read_dir(&self.directory).expect("a directory").flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

#[tokio::test]
async fn a_rolling_update_under_load_loses_no_request() {
    if !can_run() {
        return;
    }
    let alone = Alone::new("rolling");
    let cluster = Real::start_in(alone.place(), &[]).await;
    // As the documentation advises: who is told to end waits until nobody sends any more.
    cluster
        .apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": IMAGE,
                    "command": ["sh", "-c", "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"],
                    "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
                    "lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}]}}}}))
        .await;
    cluster.ok("expose deployment web --port=80 --target-port=8080").await;
    cluster.ok("rollout status deployment/web --timeout=60s").await;
    let address = cluster.ok("get service web -o jsonpath={.spec.clusterIP}").await;
    let before = cluster.ok("get pods -o name").await;
    let clients = Clients::start(&cluster, 3, &address);
    cluster.ok("rollout restart deployment/web").await;
    cluster.ok("rollout status deployment/web --timeout=120s").await;
    let gone = |pods: &str| before.lines().all(|old| !pods.contains(old));
    cluster.until("get pods -o name", gone).await;
    let answers = clients.stop();
    let lost = answers.iter().filter(|answer| *answer == "lost").count();
    assert!(lost == 0 && answers.len() > 100, "{lost} of {} are lost", answers.len());
    let served: std::collections::BTreeSet<&String> = answers.iter().collect();
    assert!(served.len() > 3, "old ones and new ones have answered: {served:?}");
}

#[tokio::test]
async fn connections_live_on_when_the_program_is_killed_and_started_again() {
    if !can_run() {
        return;
    }
    let alone = Alone::new("established");
    let mut cluster = Real::start_in(alone.place(), &[]).await;
    let echoes = "while :; do nc -l -p 80 -e cat; done";
    cluster
        .pod("echo", json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": echoes}]}))
        .await;
    cluster.ok("label pod echo app=echo").await;
    cluster.ok("expose pod echo --port=80").await;
    cluster.ok("wait --for=condition=Ready pod/echo --timeout=60s").await;
    let address = cluster.ok("get service echo -o jsonpath={.spec.clusterIP}").await;
    let script = format!(
        "sleep 1; i=0; (while :; do i=$((i + 1)); echo $i; sleep 0.1; done) | nc {address} 80; echo ended; sleep 1000"
    );
    cluster
        .pod("talks", json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": script}]}))
        .await;
    let last = |said: &str| said.lines().last().and_then(|line| line.parse::<u32>().ok()).unwrap_or(0);
    let said = cluster.until("logs talks", |said| last(said) > 5 || said.contains("ended")).await;
    assert!(!said.contains("ended"), "{said}");
    cluster.kill().await;
    cluster.up().await;
    let then = last(&said) + 20;
    let said = cluster.until("logs talks", |said| last(said) > then || said.contains("ended")).await;
    assert!(!said.contains("ended"), "the connection was lost:\n{said}");
    let numbers: Vec<u32> = said.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "nothing of it is missing: {numbers:?}");
}

#[tokio::test]
async fn a_load_balancer_answers_at_the_address_of_the_node() {
    if !can_run() {
        return;
    }
    let alone = Alone::new("balanced");
    let cluster = Real::start_in(alone.place(), &[]).await;
    let script = "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 8080 -h /www";
    cluster
        .pod("web", json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": script}]}))
        .await;
    cluster.ok("wait --for=condition=Ready pod/web --timeout=60s").await;
    cluster.ok("label pod web app=web").await;
    cluster.ok("expose pod web --port=8088 --target-port=8080 --type=LoadBalancer").await;
    let address = cluster
        .until("get service web -o jsonpath={.status.loadBalancer.ingress[0].ip}", |address| !address.is_empty())
        .await;
    let node = cluster.get("nodes").await["items"][0]["status"]["addresses"][0]["address"].clone();
    assert_eq!(node, json!(address));
    let ask = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 5 {address} 8088 | busybox tail -n 1");
    let words = cluster.place.words("sh");
    let mut answer = String::new();
    for _ in 0..50 {
        let output = Command::new(&words[0]).args(&words[1..]).args(["-c", &ask]).output().expect("sh starts");
        answer = String::from_utf8_lossy(&output.stdout).into_owned();
        if answer == "hello\n" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert_eq!(answer, "hello\n");
    let asks = format!("wget -qO- http://{address}:8088/");
    cluster.pod("asks", json!({"restartPolicy": "Never", "containers": [{"name": "c", "script": asks}]})).await;
    let pod = cluster.phase("asks", "Succeeded").await;
    assert_eq!(cluster.log(&pod, "c", 0), "hello\n");
}
