//! What admission costs a write: without webhooks, with a thousand that are not meant, with one that is.
//!
//! `cargo bench -p pintle-testkit --bench admission`, or `cargo xtask bench admission`. Every cluster is in this process over a
//! store in memory, and all take turns, so that what else the machine does falls on all of them. The figures are CPU time of the
//! thread that does everything, the webhook's own work included, and the time that a client waits.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use pintle_apiserver::nodes::network::Direct;
use pintle_runtime::webhook::{Hook, Mutation, Request, Verdict, WebhookConfig, WebhookServer};
use pintle_testkit::Cluster;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const ROUNDS: usize = 40;
const WRITES: usize = 50;
const CONFIGURATIONS: usize = 1000;

/// A cluster and what was measured in it.
struct Case {
    name: &'static str,
    cluster: Cluster,
    cpu: Vec<Duration>,
    waited: Vec<Duration>,
}

impl Case {
    async fn new(name: &'static str) -> Case {
        Case { name, cluster: Cluster::bare().await, cpu: Vec::new(), waited: Vec::new() }
    }

    /// A thousand configurations, each with one webhook that nobody answers.
    async fn with_many(name: &'static str, resource: &str, selector: Value) -> Case {
        let case = Case::new(name).await;
        for index in 0..CONFIGURATIONS {
            let hook = json!({"name": "h.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/"}, "namespaceSelector": selector,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}]});
            let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration", "metadata": {"name": format!("c-{index:04}")}, "webhooks": [hook]});
            case.cluster.create(configuration).await.expect("a configuration");
        }
        case
    }

    /// One webhook on loopback, over TLS.
    async fn with_webhook(name: &'static str, is_mutating: bool) -> Case {
        let case = Case::new(name).await;
        let outbound = &case.cluster.server.registry.outbound;
        outbound.set_network(Arc::new(Direct::connecting_to(|_| true)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let mut config = WebhookConfig::new("default", "hook", "hook-tls");
        config.url = Some(format!("https://{}", listener.local_addr().expect("an address")));
        let server = WebhookServer::new(case.cluster.context(), config);
        let server = match is_mutating {
            true => server.mutating(Hook::about::<ConfigMap>("/m"), |request: Request<ConfigMap>| async move {
                request.object.map_or_else(Mutation::unchanged, |mut map| {
                    map.data.get_or_insert_default().insert("seen".into(), "yes".into());
                    Mutation::to(map)
                })
            }),
            false => {
                server.validating(Hook::about::<ConfigMap>("/v"), |_: Request<ConfigMap>| async { Verdict::allow() })
            }
        };
        tokio::spawn(server.serve_on(listener));
        let kind = if is_mutating { "mutating" } else { "validating" };
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/hook");
        let is_there = async || (case.cluster.request("GET", &path, "", "").await.code == 200).then_some(());
        case.cluster.eventually("the webhook is registered", is_there).await;
        case
    }

    async fn round(&mut self, round: usize) {
        let (began, cpu) = (now(), cpu_time());
        for index in 0..WRITES {
            let map = json!({"metadata": {"name": format!("m-{round}-{index}")}, "data": {"key": "x".repeat(1024)}});
            let path = "/api/v1/namespaces/default/configmaps";
            let answer = self.cluster.request("POST", path, "application/json", map.to_string()).await;
            assert_eq!(answer.code, 201, "{}: {}", self.name, answer.body);
        }
        let count = u32::try_from(WRITES).expect("a few");
        self.waited.push(began.elapsed() / count);
        self.cpu.push((cpu_time() - cpu) / count);
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

async fn run() {
    let elsewhere = json!({"matchLabels": {"guarded": "yes"}});
    let mut cases = vec![
        Case::new("no webhook").await,
        Case::with_many("1,000 about another resource", "secrets", json!({})).await,
        Case::with_many("1,000 about another namespace", "configmaps", elsewhere).await,
        Case::with_webhook("one validating webhook", false).await,
        Case::with_webhook("one mutating webhook", true).await,
    ];
    for round in 0..ROUNDS {
        for case in &mut cases {
            case.round(round).await;
        }
    }
    println!(
        "one create of a ConfigMap of 1 KiB, median of {ROUNDS} rounds of {WRITES}; beyond that without a webhook"
    );
    let of = |case: &Case| (median(&case.cpu), median(&case.waited));
    let plain = of(&cases[0]);
    for case in &cases {
        let (cpu, waited) = of(case);
        println!(
            "{:<32} CPU {:>7.1} µs ({:>+7.1}), waited {:>7.1} µs ({:>+7.1})",
            case.name,
            micros(cpu),
            micros(cpu) - micros(plain.0),
            micros(waited),
            micros(waited) - micros(plain.1)
        );
    }
}

fn median(of: &[Duration]) -> Duration {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}
