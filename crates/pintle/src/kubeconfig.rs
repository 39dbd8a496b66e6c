//! The administrator's kubeconfig, with everything in it that a client needs.

use pintle_apiserver::pki::Identity;
use serde_json::json;

/// As JSON, which is YAML too.
pub(crate) fn render(server: &str, ca_pem: &str, admin: &Identity) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pintle",
        "clusters": [{"name": "pintle", "cluster": {"server": server, "certificate-authority-data": base64(ca_pem)}}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": base64(&admin.certificate_pem), "client-key-data": base64(&admin.key_pem)}}],
        "contexts": [{"name": "pintle", "context": {"cluster": "pintle", "user": "admin"}}],
    });
    format!("{config:#}\n")
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}
