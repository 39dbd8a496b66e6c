//! What a node serves: logs, exec, attach, port-forward, its Pods and what they use.
//!
//! [`Serving::answer`] answers one request for one of this process's nodes. An API server in the same process calls it as it
//! is; [`listener`] puts it behind HTTPS for all others.
//!
//! - `find`: the Pod and the container that a path names
//! - `logs`: `/containerLogs`
//! - `command`: `/exec` and `/attach`, over WebSocket or SPDY
//! - `replay`: what a container wrote before somebody attached
//! - `port_forward`: `/portForward` over WebSocket; `tunnel`: over SPDY, which is what kubectl speaks
//! - `upgrade`: how a client and a node agree on WebSocket or SPDY; `websocket`: the former's frames
//! - `usage`, `summary`: `/stats/summary` and `/metrics/resource`; `metrics`: the other metrics, in the notation of `exposition`
//! - `configz`: `/configz`
//! - `listener`, `authorize`: HTTPS, and who may ask; `remember`: answers to that which hold for a while

mod authorize;
mod command;
mod configz;
mod exposition;
mod find;
pub mod listener;
mod logs;
mod metrics;
mod port_forward;
mod remember;
mod replay;
mod summary;
mod tunnel;
mod upgrade;
pub(crate) mod usage;
mod websocket;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use k8s_openapi::api::core::v1::Pod;
use pintle_container::{Connection, Wanted};
use pintle_meta::query;
use serde_json::json;
use tokio::sync::mpsc;

use crate::pods::{Home, Pods, by_node};
use upgrade::Upgraded;

/// What one connection holds on its way between a client and a session.
const PIPE: usize = 64 * 1024;

/// What comes after the head of an answer.
pub enum Answer {
    Whole(Bytes),
    /// As it comes; dropping it ends its source.
    Stream(mpsc::Receiver<Bytes>),
    /// The connection belongs to another protocol from here on: these are the node's bytes.
    Upgraded(Connection),
}

/// Answers requests for the nodes of a fleet. Cheap to clone.
#[derive(Clone)]
pub struct Serving {
    pods: Pods,
}

/// What is answered in place of what was asked for: a code and a sentence.
#[derive(Debug, PartialEq, Eq)]
struct Failure(StatusCode, String);

impl Failure {
    fn bad(message: impl Into<String>) -> Self {
        Failure(StatusCode::BAD_REQUEST, message.into())
    }

    fn missing(message: impl Into<String>) -> Self {
        Failure(StatusCode::NOT_FOUND, message.into())
    }
}

impl Serving {
    pub(crate) fn new(pods: Pods) -> Self {
        Serving { pods }
    }

    /// Whether the node is one of this process.
    pub fn has(&self, node: &str) -> bool {
        self.pods.home(node).is_some()
    }

    /// Whether a Pod of the node has this address.
    fn has_pod_at(&self, node: &str, address: IpAddr) -> bool {
        let is = |ip: &str| ip.parse() == Ok(address);
        self.pods.informer().by(by_node, node).iter().any(|pod| {
            let addresses = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
            addresses.into_iter().any(|own| is(&own.ip))
        })
    }

    /// Answers one request for a node. Whether its sender may ask is known before.
    pub async fn answer(&self, node: &str, request: &Request<()>) -> Response<Answer> {
        let answer = match self.pods.home(node) {
            Some(home) => self.dispatch(&home, request).await,
            None => Err(Failure::missing(format!("node {node:?} is not one of this process"))),
        };
        answer.unwrap_or_else(|Failure(code, message)| whole(code, "text/plain; charset=utf-8", message + "\n"))
    }

    async fn dispatch(&self, home: &Arc<Home>, request: &Request<()>) -> Result<Response<Answer>, Failure> {
        let parts: Vec<String> = request.uri().path().split('/').skip(1).map(query::decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let pairs = query::pairs(request.uri().query().unwrap_or_default());
        let upgradeable = matches!(parts.first(), Some(&("exec" | "attach" | "portForward")));
        if request.method() != Method::GET && !(upgradeable && request.method() == Method::POST) {
            return Err(Failure(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed".to_owned()));
        }
        match parts.as_slice() {
            ["healthz"] => Ok(whole(StatusCode::OK, "text/plain; charset=utf-8", "ok")),
            ["pods"] => Ok(self.list(home)),
            ["stats", "summary"] => Ok(whole(StatusCode::OK, JSON, self.summary(home).await?.to_string())),
            ["configz"] => Ok(whole(StatusCode::OK, JSON, configz::configz(&home.config).to_string())),
            ["metrics"] => Ok(whole(StatusCode::OK, PROMETHEUS, self.agent_metrics(home).await?)),
            ["metrics", "cadvisor"] => Ok(whole(StatusCode::OK, PROMETHEUS, self.container_metrics(home).await?)),
            ["metrics", "probes"] => Ok(whole(StatusCode::OK, PROMETHEUS, self.probe_metrics(home))),
            ["metrics", "resource"] => Ok(whole(StatusCode::OK, PROMETHEUS, self.resource_metrics(home).await?)),
            ["containerLogs", namespace, pod, container] => {
                logs::answer(self, home, request, (namespace, pod, container), &pairs).await
            }
            // A UID between the names of the Pod and the container is for Pods that share a name.
            ["exec", namespace, pod, container] | ["exec", namespace, pod, _, container] => {
                self.exec(home, request, (namespace, pod, container), &pairs).await
            }
            ["attach", namespace, pod, container] | ["attach", namespace, pod, _, container] => {
                self.attach(home, request, (namespace, pod, container), &pairs).await
            }
            ["portForward", namespace, pod] | ["portForward", namespace, pod, _] => {
                self.port_forward(home, request, namespace, pod, &pairs).await
            }
            _ => Err(Failure::missing("404 page not found")),
        }
    }

    /// The Pods of a node, as the API server has them.
    fn list(&self, home: &Home) -> Response<Answer> {
        let pods: Vec<Arc<Pod>> = self.pods.informer().by(by_node, &home.name);
        let pods: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods});
        whole(StatusCode::OK, JSON, list.to_string())
    }

    async fn exec(
        &self,
        home: &Arc<Home>,
        request: &Request<()>,
        (namespace, pod, container): (&str, &str, &str),
        pairs: &[(String, String)],
    ) -> Result<Response<Answer>, Failure> {
        let command = pairs.iter().filter(|(name, _)| name == "command").map(|(_, value)| value.clone());
        let command: Vec<String> = command.collect();
        if command.is_empty() {
            return Err(Failure::bad("you must specify at least one command for the container"));
        }
        let wanted = wanted(pairs)?;
        let id = find::running(self, home, namespace, pod, container).await?.id;
        let (answer, client) = command::opened(request)?;
        let runtime = home.runtime.clone();
        let start = Box::pin(async move { runtime.exec_streams(&id, &command, wanted).await });
        tokio::spawn(client.connect(wanted, "error executing command in container", start));
        Ok(answer)
    }

    async fn attach(
        &self,
        home: &Arc<Home>,
        request: &Request<()>,
        (namespace, pod, container): (&str, &str, &str),
        pairs: &[(String, String)],
    ) -> Result<Response<Answer>, Failure> {
        let wanted = wanted(pairs)?;
        let (run, log) = find::attachable(self, home, namespace, pod, container).await?;
        let (answer, client) = command::opened(request)?;
        let runtime = home.runtime.clone();
        let start = Box::pin(async move {
            let attached = match (&log, run.is_running()) {
                (Some(log), false) => return Ok(replay::of_log(log).await),
                _ => runtime.attach(&run.id, wanted).await,
            };
            let Some(log) = log else { return attached };
            let ended = || logs::ended(runtime.clone(), &run);
            match attached {
                Ok(process) => Ok(replay::from_the_start(process, &log, ended)),
                // It has ended since it was looked at.
                Err(_) if ended()().await => Ok(replay::of_log(&log).await),
                Err(error) => Err(error),
            }
        });
        tokio::spawn(client.connect(wanted, "error attaching to container", start));
        Ok(answer)
    }

    async fn port_forward(
        &self,
        home: &Arc<Home>,
        request: &Request<()>,
        namespace: &str,
        pod: &str,
        pairs: &[(String, String)],
    ) -> Result<Response<Answer>, Failure> {
        let (sandbox, runtime) = (find::sandbox(self, home, namespace, pod).await?.id, home.runtime.clone());
        if upgrade::is_spdy(request.headers()) {
            let Upgraded { answer, connection, .. } = upgrade::spdy(request.headers(), &[tunnel::PROTOCOL])?;
            tokio::spawn(tunnel::connect(connection, runtime, sandbox));
            return Ok(answer);
        }
        let opened = upgrade::websocket(request, &[tunnel::TUNNELLED, command::V4])?;
        let Upgraded { answer, connection, protocol } = opened;
        if protocol == tunnel::TUNNELLED {
            tokio::spawn(tunnel::connect_through(connection, runtime, sandbox));
            return Ok(answer);
        }
        let ports = port_forward::ports(pairs).map_err(Failure::bad)?;
        tokio::spawn(port_forward::connect(connection, runtime, sandbox, ports));
        Ok(answer)
    }
}

const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Which streams are wanted, in the words of the node's own API.
fn wanted(pairs: &[(String, String)]) -> Result<Wanted, Failure> {
    let is = |name: &str| pairs.iter().any(|(known, value)| known == name && matches!(value.as_str(), "1" | "true"));
    let (stdin, stdout, stderr, tty) = (is("input"), is("output"), is("error"), is("tty"));
    if !stdin && !stdout && !stderr {
        return Err(Failure::bad("you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(Wanted { stdin, stdout, stderr: stderr && !tty, tty })
}

fn whole(code: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(body.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(media));
    response
}
