//! The loops that hand out certificates, and those that clear up behind them.

use std::sync::OnceLock;
use std::time::Duration;

use crate::{create, torture, with};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, Patch, PatchParams};
use pintle_meta::clock::rfc3339;
use pintle_testkit::{Cluster, Scenario};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);

/// One for all runs: what a run asks for must not depend on chance.
fn asked() -> &'static str {
    static ASKED: OnceLock<String> = OnceLock::new();
    ASKED.get_or_init(|| {
        let asked = pintle_apiserver::pki::ask("system:node:far", "system:nodes", &[], &[]).unwrap();
        BASE64_STANDARD.encode(asked.pem)
    })
}

fn request(name: &str, signer: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": asked(), "signerName": signer, "usages": ["digital signature", "client auth"]}})
}

async fn three_requests(cluster: &Cluster) {
    create(cluster, request("first", "kubernetes.io/kube-apiserver-client-kubelet")).await;
    create(cluster, request("second", "kubernetes.io/kube-apiserver-client-kubelet")).await;
    create(cluster, request("of-others", "example.com/signer")).await;
    cluster.settle().await;
}

async fn decide(cluster: &Cluster, name: &str, decision: &str) {
    let now = rfc3339(cluster.clock.now());
    let condition =
        json!({"type": decision, "status": "True", "reason": "Test", "message": "m", "lastUpdateTime": now});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let requests: Api<CertificateSigningRequest> = Api::all(cluster.client());
    requests.patch_subresource("approval", name, &PatchParams::default(), &patch).await.unwrap();
}

#[test]
fn a_node_gets_its_certificate_wherever_the_loop_that_approves_is_lost() {
    let scenario = Scenario::of("certificatesigningrequest-approving-controller")
        .on(with(&["csrapproving", "csrsigning"], 0, false))
        .ignoring("status.certificate")
        .steps(|cluster| async move { three_requests(&cluster).await });
    torture(&scenario);
}

#[test]
fn a_node_gets_its_certificate_wherever_the_loop_that_signs_is_lost() {
    let scenario = Scenario::of("certificatesigningrequest-signing-controller")
        .on(with(&["csrapproving", "csrsigning"], 0, false))
        // A certificate has a serial number of its own.
        .ignoring("status.certificate")
        .steps(|cluster| async move {
            three_requests(&cluster).await;
            let mut wrong = request("wrong", "kubernetes.io/kube-apiserver-client-kubelet");
            wrong["spec"]["usages"] = json!(["digital signature", "server auth"]);
            create(&cluster, wrong).await;
            decide(&cluster, "wrong", "Approved").await;
        });
    torture(&scenario);
}

#[test]
fn requests_that_are_answered_or_forgotten_go_wherever_their_loop_is_lost() {
    let scenario = Scenario::of("certificatesigningrequest-cleaner-controller")
        .on(with(&["csrcleaner"], 0, false))
        .steps(|cluster| async move {
            for name in ["forgotten", "denied", "approved", "late"] {
                if name == "late" {
                    cluster.advance(20 * HOUR).await;
                }
                create(&cluster, request(name, "example.com/signer")).await;
            }
            decide(&cluster, "denied", "Denied").await;
            decide(&cluster, "approved", "Approved").await;
            cluster.advance(5 * HOUR).await;
        });
    torture(&scenario);
}

#[test]
fn tokens_that_have_expired_go_wherever_their_loop_is_lost() {
    let scenario = Scenario::of("token-cleaner").on(with(&["tokencleaner"], 0, false)).steps(|cluster| async move {
        for (id, hours) in [("aaaaaa", Some(1)), ("bbbbbb", Some(2)), ("cccccc", Some(9)), ("dddddd", None)] {
            let mut token = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
                    "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
                    "stringData": {"token-id": id, "token-secret": "0123456789abcdef"}});
            if let Some(hours) = hours {
                token["stringData"]["expiration"] = rfc3339(cluster.clock.now() + hours * HOUR).into();
            }
            create(&cluster, token).await;
        }
        cluster.advance(3 * HOUR).await;
    });
    torture(&scenario);
}
