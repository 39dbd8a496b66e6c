//! For this crate's own tests: a client whose server is a closure.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// A client whose every request is answered by the script: method, path with query, and body in; status and body out.
pub(crate) fn scripted(script: impl Fn(&str, &str, Value) -> (u16, Value) + Send + Sync + 'static) -> Client {
    let script = std::sync::Arc::new(script);
    let service = tower::service_fn(move |request: Request<Body>| {
        let script = script.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let path = parts.uri.to_string();
            let path = path.trim_end_matches('?');
            let (status, answer) =
                script(parts.method.as_str(), path, serde_json::from_slice(&body).unwrap_or_default());
            let text = match answer {
                // A watch answers with lines.
                Value::Array(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
                other => other.to_string(),
            };
            let response = Response::builder().status(status).body(Body::from(text.into_bytes()));
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response?)
        }
    });
    Client::new(service, "default")
}
