//! What a cluster may do to a loop: its requests fail, its watches are cut.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Switches that act on every request of the client they were made for.
#[derive(Clone, Default)]
pub struct Faults(Arc<Switches>);

#[derive(Default)]
struct Switches {
    watches_cut: AtomicBool,
    writes_until_failure: AtomicU64,
    failing: AtomicBool,
}

impl Faults {
    /// New watches fail until this is lifted; running ones end when the server's do.
    pub fn cut_watches(&self, cut: bool) {
        self.0.watches_cut.store(cut, Ordering::SeqCst);
    }

    /// The next `n` writes go through; then every request fails until [`Faults::heal`].
    pub fn fail_after_writes(&self, n: u64) {
        self.0.writes_until_failure.store(n + 1, Ordering::SeqCst);
    }

    pub fn heal(&self) {
        self.0.failing.store(false, Ordering::SeqCst);
        self.0.writes_until_failure.store(0, Ordering::SeqCst);
        self.0.watches_cut.store(false, Ordering::SeqCst);
    }

    /// A client whose requests these switches act on.
    pub fn over(&self, client: Client) -> Client {
        let (faults, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (faults, client) = (faults.clone(), client.clone());
            async move {
                match faults.judge(&request) {
                    Some(refused) => Ok(refused),
                    None => client.send(request).await,
                }
            }
        });
        Client::new(service, namespace)
    }

    fn judge(&self, request: &Request<Body>) -> Option<Response<Body>> {
        let is_watch = request.uri().query().is_some_and(|q| q.contains("watch=true") || q.contains("watch=1"));
        let is_write = !matches!(*request.method(), http::Method::GET | http::Method::HEAD);
        if is_write && self.0.writes_until_failure.load(Ordering::SeqCst) > 0 {
            let left = self.0.writes_until_failure.fetch_sub(1, Ordering::SeqCst);
            if left == 1 {
                self.0.failing.store(true, Ordering::SeqCst);
            }
        }
        let failing = self.0.failing.load(Ordering::SeqCst);
        (failing || (is_watch && self.0.watches_cut.load(Ordering::SeqCst))).then(unavailable)
    }
}

fn unavailable() -> Response<Body> {
    let status = pintle_meta::Status::unavailable("a fault that the test injected").to_value().to_string();
    let mut response = Response::new(Body::from(status.into_bytes()));
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    response
}
