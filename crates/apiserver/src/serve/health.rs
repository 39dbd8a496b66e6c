//! `/livez`, `/readyz`, `/healthz` and `/version`.

use crate::ApiServer;
use crate::body::Body;
use crate::request::Query;
use crate::response;
use http::Response;
use serde_json::{Value, json};

/// The version of Kubernetes that clients meet here.
pub const KUBERNETES: &str = "v1.36.4";

/// Ready means: the store takes writes and the server is not stopping.
pub fn health(server: &ApiServer, endpoint: &str, only: &[&str], query: &Query) -> Response<Body> {
    let mut checks: Vec<(&str, Result<(), String>)> = vec![("ping", Ok(())), ("store", server.registry.store.health())];
    if endpoint == "readyz" {
        let stopping = server.is_stopping().then(|| "the server is shutting down".to_owned());
        checks.push(("shutdown", stopping.map_or(Ok(()), Err)));
    }
    if let [name, ..] = only {
        checks.retain(|(check, _)| check == name);
        if checks.is_empty() {
            return response::text(404, "404 page not found\n");
        }
    }
    checks.retain(|(check, _)| !query.all("exclude").iter().any(|e| e == check));
    let failed = checks.iter().any(|(_, result)| result.is_err());
    if !failed && !query.has("verbose") {
        return response::text(200, "ok");
    }
    let mut report = String::new();
    for (name, result) in &checks {
        match result {
            Ok(()) => report.push_str(&format!("[+]{name} ok\n")),
            Err(why) => report.push_str(&format!("[-]{name} failed: {why}\n")),
        }
    }
    report.push_str(&format!("{endpoint} check {}\n", if failed { "failed" } else { "passed" }));
    response::text(if failed { 500 } else { 200 }, report)
}

pub fn version() -> Value {
    json!({
        "major": "1", "minor": "36",
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": format!("{KUBERNETES}+pintle-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, arch()),
    })
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
