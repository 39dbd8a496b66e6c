//! Extenders: programs of others that are asked over HTTP which nodes will do, how good they are, and to bind.

#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use pintle_meta::object;
use serde_json::{Value, json};

use crate::pod::PodInfo;
use crate::preemption::Candidate;
use crate::setup::ExtenderSetup;

pub(crate) use wire::{Filtered, MetaVictims};

/// An answer is no longer than this: the names of very many nodes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Nodes that are still in question, with their names.
pub(crate) type Nodes = [(String, Arc<Node>)];

/// Makes a client for a server of which this is known. What certificates are accepted is decided there.
pub type Dial = fn(Config) -> Result<Client, String>;

pub(crate) struct Extender {
    setup: ExtenderSetup,
    client: Client,
}

impl Extender {
    /// Fails if what it says about TLS cannot be used.
    pub(crate) async fn connect(setup: &ExtenderSetup, dial: Dial) -> Result<Self, String> {
        let config = Config::from_custom_kubeconfig(kubeconfig(setup)?, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| format!("extender {}: {error}", setup.url))?;
        config.connect_timeout = Some(setup.timeout);
        config.read_timeout = Some(setup.timeout);
        let client = dial(config).map_err(|why| format!("extender {}: {why}", setup.url))?;
        Ok(Extender { setup: setup.clone(), client })
    }

    /// Is it asked about this Pod?
    pub(crate) fn is_for(&self, pod: &PodInfo) -> bool {
        let managed = &self.setup.managed;
        let asks = |container: &k8s_openapi::api::core::v1::Container| {
            let resources = container.resources.as_ref();
            let sides = resources.into_iter().flat_map(|both| [&both.requests, &both.limits]).flatten();
            sides.flat_map(|side| side.keys()).any(|name| managed.contains(name))
        };
        let spec = pod.spec();
        let containers =
            spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
        managed.is_empty() || containers.into_iter().any(asks)
    }

    pub(crate) fn is_ignorable(&self) -> bool {
        self.setup.ignorable
    }

    pub(crate) fn filters(&self) -> bool {
        !self.setup.filter.is_empty()
    }

    pub(crate) fn prioritizes(&self) -> bool {
        !self.setup.prioritize.is_empty()
    }

    pub(crate) fn binds(&self) -> bool {
        !self.setup.bind.is_empty()
    }

    pub(crate) async fn filter(&self, pod: &Pod, nodes: &Nodes) -> Result<Filtered, String> {
        let answer = self.send(&self.setup.filter, wire::arguments(pod, nodes, self.setup.knows_nodes)).await?;
        let sent: Vec<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        wire::filtered(&answer, &sent, &self.setup.url)
    }

    /// What it adds to the score of each node.
    pub(crate) async fn prioritize(&self, pod: &Pod, nodes: &Nodes) -> Result<BTreeMap<String, i64>, String> {
        let answer = self.send(&self.setup.prioritize, wire::arguments(pod, nodes, self.setup.knows_nodes)).await?;
        Ok(wire::scores(&answer, self.setup.weight))
    }

    pub(crate) async fn bind(&self, pod: &PodInfo, node: &str) -> Result<(), String> {
        let sent = wire::binding(pod.key.namespace(), pod.key.name(), &pod.uid, node);
        wire::error_in(&self.send(&self.setup.bind, sent).await?)
    }

    pub(crate) fn preempts(&self) -> bool {
        !self.setup.preempt.is_empty()
    }

    /// Where room may be made, and by which Pods, of the candidates or of other Pods on their nodes.
    pub(crate) async fn preempt(&self, pod: &Pod, candidates: &[Candidate]) -> Result<MetaVictims, String> {
        let sent = wire::preemption(pod, candidates, self.setup.knows_nodes);
        Ok(wire::victims(&self.send(&self.setup.preempt, sent).await?))
    }

    pub(crate) fn url(&self) -> &str {
        &self.setup.url
    }

    /// In the words of Go, which people search for.
    fn words(&self, error: &kube::Error) -> String {
        let cause = root_cause(error);
        match cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(std::io::ErrorKind::ConnectionRefused) => {
                let uri = self.setup.url.parse::<http::Uri>().ok();
                let authority = uri.and_then(|uri| uri.into_parts().authority);
                let place = authority.map_or_else(|| self.setup.url.clone(), |authority| authority.to_string());
                format!("dial tcp {place}: connect: connection refused")
            }
            Some(std::io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
            _ => cause.to_string(),
        }
    }

    async fn send(&self, verb: &str, body: Value) -> Result<Value, String> {
        let url = format!("{}/{verb}", self.setup.url.trim_end_matches('/'));
        let failed = |why: String| format!("Post {url:?}: {why}");
        let request = Request::post(format!("/{verb}")).header(header::CONTENT_TYPE, "application/json");
        let request =
            request.body(Body::from(body.to_string().into_bytes())).map_err(|error| failed(error.to_string()))?;
        let exchange = async {
            let answer = self.client.send(request).await.map_err(|error| failed(self.words(&error)))?;
            if answer.status() != StatusCode::OK {
                let code = answer.status().as_u16();
                return Err(format!("failed {verb} with extender at URL {url}, code {code}"));
            }
            let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
            let bytes = body.map_err(|error| failed(error.to_string()))?.to_bytes();
            serde_json::from_slice(&bytes).map_err(|error| failed(format!("the answer is not JSON: {error}")))
        };
        let late = || failed("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned());
        tokio::time::timeout(self.setup.timeout, exchange).await.map_err(|_| late())?
    }
}

/// What was wrong first: those who pass an error on say only that something was.
fn root_cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

/// The same in the words of a kubeconfig, which know every way to name a certificate.
fn kubeconfig(setup: &ExtenderSetup) -> Result<Kubeconfig, String> {
    let plain = setup.url.starts_with("http://");
    let url = if setup.https && plain { setup.url.replacen("http://", "https://", 1) } else { setup.url.clone() };
    let text = |key: &str| Some(object::text(&setup.tls, &[key])).filter(|text| !text.is_empty());
    let (authority, authority_file) = (text("caData"), text("caFile"));
    // As upstream: without an authority the server's certificate is not verified.
    let unchecked = setup.https && authority.is_none() && authority_file.is_none();
    let value = json!({"apiVersion": "v1", "kind": "Config", "current-context": "extender",
        "clusters": [{"name": "extender", "cluster": {
            "server": url.trim_end_matches('/'),
            "insecure-skip-tls-verify": unchecked || object::flag(&setup.tls, &["insecure"]),
            "tls-server-name": text("serverName"),
            "certificate-authority-data": authority,
            "certificate-authority": authority_file.filter(|_| authority.is_none()),
        }}],
        "users": [{"name": "scheduler", "user": {
            "client-certificate-data": text("certData"),
            "client-certificate": text("certFile").filter(|_| text("certData").is_none()),
            "client-key-data": text("keyData"),
            "client-key": text("keyFile").filter(|_| text("keyData").is_none()),
        }}],
        "contexts": [{"name": "extender", "context": {"cluster": "extender", "user": "scheduler"}}]});
    serde_json::from_value(value).map_err(|error| format!("extender {}: {error}", setup.url))
}
