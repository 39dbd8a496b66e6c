//! The exec credential plugin: a kubeconfig without a secret, whose credentials expire and are made anew.

use super::proxy::Proxy;
use super::{Cluster, assert_says};
use crate::harness::eventually;
use crate::harness::program::{Place, Program};
use serde_json::Value;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A cluster whose kubeconfig runs `pintle credential`, for certificates that live as long as this.
async fn with_plugin(ttl: &str) -> Cluster {
    let place = Place::new();
    let pki = place.path("pki").display().to_string();
    let flags = ["--ephemeral", "--pki", &pki, "--kubeconfig-credentials", "exec", "--credential-ttl", ttl];
    let program: Program = place.up(&flags).await;
    Cluster { kubectl: place.kubectl(), _program: program, place }
}

/// Which certificate a request showed.
fn credential(review: &Value) -> String {
    let id = &review["status"]["userInfo"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    id.as_str().unwrap_or_else(|| panic!("no credential in {review}")).to_owned()
}

#[tokio::test]
async fn a_client_that_runs_for_long_goes_on_when_its_credential_expires() {
    let cluster = with_plugin("3s").await;
    let proxy = Proxy::open(&cluster).await;
    let mut seen: Vec<String> = Vec::new();
    // The third one can only come after the first two have ended; no request in between is refused.
    eventually("the plugin has made three credentials for one client", async || {
        let (code, review) = proxy.request("POST", WHO, "{}").await;
        assert_eq!(code, 201, "{review}");
        let now = credential(&review);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        if seen.len() == 3 { Ok(()) } else { Err(format!("{} credentials", seen.len())) }
    })
    .await;
    assert_ne!(seen[0], seen[2]);
}

#[tokio::test]
async fn a_kubeconfig_with_the_plugin_holds_no_secret_and_is_the_administrators() {
    let cluster = with_plugin("10m").await;
    let config = std::fs::read_to_string(cluster.place.path("kubeconfig")).expect("a kubeconfig");
    assert_says(&config, &["client.authentication.k8s.io/v1", "credential", "--ttl=600s"]);
    assert!(!config.contains("client-key-data") && !config.contains("token"), "{config}");
    assert_says(&cluster.ok("auth whoami").await, &["kubernetes-admin", "system:masters"]);
    assert_eq!(cluster.ok("create namespace shop").await, "namespace/shop created\n");
    // This program's own commands run the plugin too.
    let listed = cluster.place.start(&[
        "token",
        "list",
        "--kubeconfig",
        &cluster.place.path("kubeconfig").display().to_string(),
    ]);
    let mut listed = listed;
    let status = listed.child.wait().await.expect("it ends");
    assert!(status.success(), "{}", listed.stderr());
    // Without the keys there is no credential, and kubectl tells why.
    std::fs::rename(cluster.place.path("pki"), cluster.place.path("elsewhere")).expect("a directory");
    assert_says(&cluster.fails("get namespaces").await, &["ca.crt"]);
}

#[tokio::test]
async fn flags_of_the_plugin_that_have_no_effect_are_refused() {
    for (flags, named) in [
        (&["--ephemeral", "--kubeconfig-credentials", "exec"][..], "--pki"),
        (&["--credential-ttl", "1h"], "--kubeconfig-credentials"),
        (&["--kubeconfig-credentials", "exec", "--credential-ttl", "2d"], "--credential-ttl"),
        (&["--kubeconfig-credentials", "token"], "--kubeconfig-credentials"),
    ] {
        let place = Place::new();
        let mut program = place.start(&[&["up", "--listen", "127.0.0.1:0"], flags].concat());
        let status = program.child.wait().await.expect("it ends");
        assert_eq!(status.code(), Some(2), "{flags:?}: {}", program.stderr());
        assert_says(&program.stderr(), &[named]);
    }
}
