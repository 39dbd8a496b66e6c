//! For tests: an API server that is a map, and a machine that asks it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::client::Body;
use pintle_meta::{Clock, Random};
use pintle_runtime::reflector::Delta;
use pintle_runtime::{Context, Informer, Shutdown};
use serde_json::{Value, json};

use super::Machine;
use crate::cgroups::Cgroups;
use crate::config::NodeConfig;
use crate::devices::Devices;
use crate::volumes::Volumes;

/// Objects by their path. Clones are the same server.
#[derive(Clone, Default)]
pub(crate) struct Server {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    tokens: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.objects.lock().unwrap().remove(path);
    }

    /// What was asked for when tokens were.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.tokens.lock().unwrap().clone()
    }

    fn answer(&self, method: &str, path: &str, body: Value, now: Timestamp) -> (u16, Value) {
        if method == "POST" && path.ends_with("/token") {
            let mut tokens = self.tokens.lock().unwrap();
            tokens.push(body.clone());
            let seconds = body["spec"]["expirationSeconds"].as_i64().unwrap();
            let expires = now + jiff::SignedDuration::from_secs(seconds);
            let status =
                json!({"token": format!("token-{}", tokens.len()), "expirationTimestamp": expires.to_string()});
            return (201, json!({"metadata": {}, "spec": body["spec"], "status": status}));
        }
        match self.objects.lock().unwrap().get(path) {
            Some(object) if method == "GET" => (200, object.clone()),
            _ => {
                let status =
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "no", "code": 404});
                (404, status)
            }
        }
    }

    fn client(&self, clock: Clock) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, now) = (server.clone(), clock.now());
            async move {
                let (parts, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
                let (status, answer) = server.answer(parts.method.as_str(), parts.uri.path(), body, now);
                let response = Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response?)
            }
        });
        Client::new(service, "default")
    }

    /// Call it inside a runtime whose time is paused.
    pub(crate) fn context(&self) -> Context {
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        let (trigger, shutdown) = Shutdown::new();
        // Nothing of a test outlives its runtime.
        std::mem::forget(trigger);
        Context::new(self.client(clock.clone()), clock, Random::seeded(1), shutdown)
    }
}

/// The same machine with these devices.
pub(crate) fn with_devices(machine: Machine, devices: Arc<Devices>) -> Machine {
    Machine { devices: Some(devices), ..machine }
}

/// A machine that keeps everything below `directory`.
pub(crate) fn machine(context: &Context, directory: &Path, services: Vec<Value>) -> Machine {
    let informer = Informer::<Service>::detached();
    informer.take(Delta::replaced::<Service>(
        services.into_iter().map(|service| serde_json::from_value(service).unwrap()).collect(),
    ));
    let config = NodeConfig::new("m", [192, 0, 2, 7].into());
    let directory = directory.canonicalize().unwrap();
    Machine {
        providers: None,
        logs: directory.join("logs/pods"),
        address: config.address,
        cluster_dns: vec![[10, 96, 0, 10].into()],
        cluster_domain: config.cluster_domain,
        allocatable: config.capacity,
        volumes: Volumes::new(directory.clone()),
        devices: None,
        services: informer,
        client: context.client.clone(),
        clock: context.clock.clone(),
        cgroups: Arc::new(Cgroups::new(None)),
        memory_for_pods: None,
        directory,
    }
}
