//! The plugin's side of the protocol: for those who write a device plugin in Rust, and for tests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pintle_container::grpc::client::Caller;
use pintle_container::grpc::server::{self, Answer, Call, Service};
use tokio::net::UnixListener;
use tonic::Status;

use super::messages::{
    ALLOCATE, Empty, LIST_AND_WATCH, OPTIONS, PRE_START, PREFERRED, REGISTER, RegisterRequest, VERSION,
};
use super::plugin::Plugin;

/// How long the node agent may take for an answer; it calls back before it gives one.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers the node agent's calls until dropped.
pub async fn serve<P: Plugin>(listener: UnixListener, plugin: Arc<P>) {
    server::serve(listener, Offered(plugin)).await;
}

/// Tells the node agent of `directory` that `endpoint`, a socket there, offers the devices of a resource.
pub async fn register(directory: &Path, endpoint: &str, resource: &str) -> Result<(), Status> {
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    let agent = Caller::new(&directory.join(super::SOCKET));
    agent.call::<_, Empty>(REGISTER, request, PATIENCE).await.map(|_| ())
}

struct Offered<P>(Arc<P>);

impl<P> Clone for Offered<P> {
    fn clone(&self) -> Self {
        Offered(self.0.clone())
    }
}

impl<P: Plugin> Service for Offered<P> {
    async fn answer(&self, call: Call) -> Answer {
        let plugin = &self.0;
        match call.uri().path() {
            OPTIONS => server::unary(call, |_: Empty| plugin.options()).await,
            LIST_AND_WATCH => server::streaming(call, |_: Empty| plugin.list_and_watch()).await,
            PREFERRED => server::unary(call, |request| plugin.preferred(request)).await,
            ALLOCATE => server::unary(call, |request| plugin.allocate(request)).await,
            PRE_START => server::unary(call, |request| plugin.pre_start(request)).await,
            _ => server::unknown(&call),
        }
    }
}
