//! What lies outside of a test's cluster, where webhooks and other API servers would be: nothing, unless a test puts it there.
//!
//! Nobody's time is virtual out there, and nothing that a test does leaves its process.

use futures::future::BoxFuture;
use pintle_apiserver::nodes::Duplex;
use pintle_apiserver::nodes::network::Network;
use std::io;

/// A network in which nobody listens.
pub(crate) struct Nowhere;

impl Network for Nowhere {
    fn connect(&self, _host: String, _port: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}
