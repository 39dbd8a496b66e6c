//! The test kit over HTTPS, for operators in any language: `pintle up --ephemeral --control`.
//!
//! A cluster in virtual time is served on a real port. Beside the API there is `/control`, for administrators: settle,
//! advance, faults, snapshot, fork. The protocol is in `docs/control.md`.
//!
//! # Layout
//!
//! - `time`: virtual time that stands still while sockets wait
//! - `listener`: connections, each request under the faults; `links`: whose connection is whose
//! - this file: which path is which question; `fields`: their bodies
//! - `rest`: settle and advance; `plans`: faults; `forks`: copies on other ports

mod fields;
mod forks;
mod links;
mod listener;
mod plans;
mod rest;
mod time;

use crate::{Builder, Cluster};
use fields::{Fields, missing, wrong};
use forks::Forks;
use http::{Method, Response};
use links::Links;
use pintle_apiserver::body::Body;
use pintle_apiserver::request::Request;
use pintle_apiserver::response;
use pintle_meta::Status;
use serde_json::{Value, json};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use time::Time;
use tokio::net::TcpListener;

/// What it takes to serve a cluster and its forks.
#[derive(Clone)]
pub struct Serving {
    pub tls: Arc<rustls::ServerConfig>,
    /// Where forks listen, on a free port each.
    pub ip: IpAddr,
    /// The administrator's kubeconfig for a server at this address.
    pub kubeconfig: Arc<dyn Fn(SocketAddr) -> String + Send + Sync>,
}

/// A cluster that is served with its control. Dropping it ends it and its forks.
pub struct Control {
    served: Arc<Served>,
}

/// One cluster and its port.
struct Served {
    /// 0 for the first one, the fork's number for others.
    id: u64,
    cluster: Cluster,
    links: Links,
    time: Time,
    forks: Arc<Forks>,
    serving: Serving,
}

/// The runtime that a [`Control`] needs: one thread, and a clock that stands.
///
/// # Errors
///
/// When the system has no room for one.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()
}

impl Control {
    /// Starts a cluster at the machine's time and serves it. Call it inside a [`runtime`].
    ///
    /// # Errors
    ///
    /// When the listener has no address.
    pub async fn serve(builder: Builder, listener: TcpListener, serving: Serving) -> io::Result<Control> {
        let time = Time::hold();
        let address = listener.local_addr()?;
        let cluster = builder.epoch(time.really_now()).start().await;
        let served = Served::begin(0, cluster, listener, address, &time, &Arc::default(), &serving);
        Ok(Control { served })
    }

    pub fn cluster(&self) -> &Cluster {
        &self.served.cluster
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.served.forks.end_all();
        self.served.stop();
    }
}

impl Served {
    fn begin(
        id: u64,
        cluster: Cluster,
        listener: TcpListener,
        address: SocketAddr,
        time: &Time,
        forks: &Arc<Forks>,
        serving: &Serving,
    ) -> Arc<Served> {
        cluster.server.set_address(address.to_string());
        time.watch_over(id, &cluster.activity);
        let served = Arc::new(Served {
            id,
            cluster,
            links: Links::default(),
            time: time.clone(),
            forks: forks.clone(),
            serving: serving.clone(),
        });
        tokio::spawn(listener::serve(served.clone(), listener, serving.tls.clone()));
        served
    }

    /// Closes the port and every connection; the cluster ends with the last of them.
    fn stop(&self) {
        self.time.forget(self.id);
        self.cluster.server.stop();
    }

    /// Answers a request to `/control`.
    async fn handle(&self, request: Request) -> Response<Body> {
        match self.control(request).await {
            Ok(value) => response::json(200, format!("{value}\n")),
            Err(status) => response::failure(&status),
        }
    }

    async fn control(&self, request: Request) -> Result<Value, Status> {
        self.cluster.server.admit(&request).await?;
        let path = request.uri.path().trim_end_matches('/');
        let path = path.strip_prefix("/control").unwrap_or_default();
        let bytes = request.body.read().await?;
        let body = || Fields::read(&bytes);
        let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
        match (path, &request.method) {
            ("/settle", method) if *method == post => self.settle(body()?).await,
            ("/advance", method) if *method == post => self.advance(body()?).await,
            ("/time", method) if *method == get => Ok(self.time_now(&[])),
            ("/time", method) if *method == post => self.set_mode(body()?),
            ("/faults", method) if *method == get => Ok(self.planned()),
            ("/faults", method) if *method == post => self.plan(body()?),
            ("/faults", method) if *method == delete => {
                self.cluster.faults.lift();
                Ok(self.planned())
            }
            ("/snapshot", method) if *method == post => {
                body()?.end()?;
                let snapshot = self.cluster.snapshot().await;
                Ok(json!({"objects": snapshot.objects, "leaks": snapshot.leaks}))
            }
            ("/trace", method) if *method == get => {
                let hash = format!("{:016x}", self.cluster.trace_hash());
                Ok(json!({"hash": hash, "writes": self.cluster.writes()}))
            }
            ("/fork", method) if *method == post => self.fork(body()?).await,
            ("/forks", method) if *method == get => Ok(self.all_forks()),
            ("/settle" | "/advance" | "/time" | "/faults" | "/snapshot" | "/trace" | "/fork" | "/forks", _) => {
                Err(Status::method_not_allowed())
            }
            (path, method) => match path.strip_prefix("/forks/") {
                Some(id) if *method == delete => self.end_fork(id),
                Some(_) => Err(Status::method_not_allowed()),
                None => {
                    let why = format!("there is no /control{path}; docs/control.md lists what there is");
                    Err(Status::new(404, "NotFound", why))
                }
            },
        }
    }

    /// `POST /control/time`
    fn set_mode(&self, mut fields: Fields) -> Result<Value, Status> {
        let mode = fields.text("mode")?.ok_or_else(|| missing("mode", "\"manual\""))?;
        fields.end()?;
        let follows = match mode.as_str() {
            "follow" => true,
            "manual" => false,
            _ => return Err(wrong("mode", format!("{mode:?} is neither \"follow\" nor \"manual\""))),
        };
        self.time.follow(follows);
        Ok(self.time_now(&[]))
    }
}
