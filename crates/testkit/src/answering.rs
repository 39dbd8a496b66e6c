//! The way from the API server to the simulated nodes of a cluster, without a socket.

use futures::future::BoxFuture;
use http::Request;
use pintle_apiserver::body::{Body, Payload};
use pintle_apiserver::nodes::{NodeAnswer, Nodes, Place};
use pintle_kubelet::Serving;
use pintle_kubelet::serve::Answer;
use std::sync::{Arc, Mutex, PoisonError};

/// The node agents that answer now. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Answering(Arc<Mutex<Option<Serving>>>);

impl Answering {
    /// From now on these do.
    pub(crate) fn is(&self, serving: Serving) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
    }
}

impl Nodes for Answering {
    fn send(&self, place: Place, request: Request<Payload>) -> BoxFuture<'static, Result<NodeAnswer, String>> {
        let serving = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            let serving = serving.filter(|serving| serving.has(&place.name));
            let serving = serving.ok_or_else(|| "no agent of that node runs".to_owned())?;
            let (head, answer) = serving.answer(&place.name, &request.map(|_| ())).await.into_parts();
            // Simulated containers have no streams.
            let Answer::Whole(bytes) = answer else { return Err("simulated nodes answer at once".to_owned()) };
            let response = http::Response::from_parts(head, Body::from(bytes));
            Ok(NodeAnswer { response, connection: None })
        })
    }
}
