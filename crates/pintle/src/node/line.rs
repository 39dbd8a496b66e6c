//! A client whose way to the server is laid anew when its certificate changes or when no answer comes.
//!
//! A link that was cut silently looks like a slow server: whatever waits on it would wait for the kernel to give
//! up. So an answer that takes too long ends the whole link, and with it the watches on it, which begin again on the next.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use pintle_apiserver::pki::Identity;
use pintle_runtime::{Shutdown, Trigger};

/// How long the head of an answer may take; a Lease must be renewed more often than a node is given up.
const ANSWER: Duration = Duration::from_secs(10);

/// The way to the server. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(super) struct Line {
    link: Arc<ArcSwap<Link>>,
}

struct Link {
    config: Config,
    client: Client,
    // Whoever reads on this link stops when it is cut.
    cut: Trigger,
    is_cut: Shutdown,
}

impl Link {
    fn lay(config: Config) -> Result<Link, kube::Error> {
        let (cut, is_cut) = Shutdown::new();
        Ok(Link { client: Client::try_from(config.clone())?, config, cut, is_cut })
    }
}

impl Line {
    pub(super) fn new(config: Config) -> Result<Line, kube::Error> {
        Ok(Line { link: Arc::new(ArcSwap::from_pointee(Link::lay(config)?)) })
    }

    /// The client to hand on: it follows every change.
    pub(super) fn client(&self) -> Client {
        let line = self.clone();
        let service = tower::service_fn(move |request| line.clone().send(request));
        Client::new(service, "default")
    }

    /// Shows another certificate from now on.
    pub(super) fn show(&self, identity: &Identity) -> Result<(), kube::Error> {
        let config = showing(self.link.load().config.clone(), identity);
        self.replace(Link::lay(config)?);
        Ok(())
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Answer>, kube::Error> {
        let link = self.link.load_full();
        match tokio::time::timeout(ANSWER, link.client.send(request)).await {
            Ok(answer) => Ok(answer?.map(|body| until_cut(body, link.is_cut.clone()))),
            Err(_) => {
                // Of many who waited on it, the first lays it anew.
                if Arc::ptr_eq(&link, &self.link.load()) {
                    self.replace(Link::lay(link.config.clone())?);
                }
                Err(kube::Error::Service(format!("no answer in {} s", ANSWER.as_secs()).into()))
            }
        }
    }

    fn replace(&self, link: Link) {
        self.link.swap(Arc::new(link)).cut.fire();
    }
}

/// An answer that ends when its link is cut.
type Answer = StreamBody<BoxStream<'static, Result<Frame<Bytes>, kube::Error>>>;

fn until_cut(body: Body, cut: Shutdown) -> Answer {
    let ended = Box::pin(async move { cut.fired().await });
    StreamBody::new(body.into_data_stream().map(|part| part.map(Frame::data)).take_until(ended).boxed())
}

/// The same way to the server, in another's name.
pub(super) fn showing(mut config: Config, identity: &Identity) -> Config {
    config.auth_info = AuthInfo {
        client_certificate_data: Some(BASE64_STANDARD.encode(&identity.certificate_pem)),
        client_key_data: Some(BASE64_STANDARD.encode(&identity.key_pem).into()),
        ..AuthInfo::default()
    };
    config
}
