//! What a cluster may do to a loop: its watches are cut.

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

type Answer = UnsyncBoxBody<Bytes, kube::Error>;

/// Switches that act on every request of the client they were made for.
#[derive(Clone, Default)]
pub struct Faults(Arc<Switches>);

#[derive(Default)]
struct Switches {
    watches_cut: AtomicBool,
    cut: Notify,
}

impl Faults {
    /// Running watches end and new ones fail, until this is lifted.
    pub fn cut_watches(&self, cut: bool) {
        self.0.watches_cut.store(cut, Ordering::SeqCst);
        if cut {
            self.0.cut.notify_waiters();
        }
    }

    /// A client whose requests these switches act on.
    pub fn over(&self, client: Client) -> Client {
        let (faults, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (faults, client) = (faults.clone(), client.clone());
            async move {
                if faults.refuses(&request) {
                    return Ok(unavailable());
                }
                let watches = is_watch(&request);
                let response = client.send(request).await?;
                Ok::<_, kube::Error>(
                    response.map(|body| if watches { faults.cuttable(body) } else { body.boxed_unsync() }),
                )
            }
        });
        Client::new(service, namespace)
    }

    /// A body that ends when watches are cut.
    fn cuttable(&self, body: Body) -> Answer {
        let faults = self.clone();
        let frames = stream::unfold(body, move |mut body| {
            let faults = faults.clone();
            async move {
                // The cut may have come while nobody waited for a frame.
                if faults.0.watches_cut.load(Ordering::SeqCst) {
                    return None;
                }
                tokio::select! {
                    biased;
                    () = faults.0.cut.notified() => None,
                    frame = body.frame() => frame.map(|frame| (frame, body)),
                }
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }

    fn refuses(&self, request: &Request<Body>) -> bool {
        is_watch(request) && self.0.watches_cut.load(Ordering::SeqCst)
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|q| q.contains("watch=true") || q.contains("watch=1"))
}

fn unavailable() -> Response<Answer> {
    let status = pintle_meta::Status::unavailable("a fault that the test injected").to_value().to_string();
    let mut response = Response::new(Full::new(Bytes::from(status)).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    response
}
