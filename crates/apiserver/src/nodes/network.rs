//! Connections to addresses that objects name: those of nodes, in their own status, and of Pods, in theirs.
//!
//! Whoever may write a status must not make the server connect to anything: never to loopback, link-local and multicast
//! addresses, behind which its own services and those of its host are.

use super::Duplex;
use crate::outbound::Trust;
use futures::future::BoxFuture;
use pintle_meta::Clock;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Until a connection is established.
pub const CONNECT: Duration = Duration::from_secs(10);

/// Why an address is not connected to, inside of an `io::Error`.
#[derive(Debug, thiserror::Error)]
#[error("address not allowed: it must not be a loopback, link-local or multicast address")]
pub struct NotAllowed;

impl NotAllowed {
    pub fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<NotAllowed>())
    }
}

/// Opens connections to Pods, and to ports of nodes other than their agent's.
pub trait Network: Send + Sync + 'static {
    fn connect(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>>;
}

/// The network of this machine.
#[derive(Clone, Copy)]
pub struct Direct {
    may_connect: fn(IpAddr) -> bool,
}

impl Default for Direct {
    fn default() -> Self {
        Direct { may_connect: is_global_unicast }
    }
}

/// Whether an address can be another machine's.
pub fn is_global_unicast(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_broadcast())
        }
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_loopback() || v6.is_unicast_link_local() || v6.is_multicast()),
    }
}

impl Direct {
    /// With another opinion on addresses: a test has its servers on loopback.
    pub fn connecting_to(may_connect: fn(IpAddr) -> bool) -> Self {
        Direct { may_connect }
    }

    /// Resolves a host and connects to what was checked. All that it resolves to must be allowed.
    pub async fn open(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let resolved: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        if !resolved.iter().all(|one| (self.may_connect)(one.ip())) {
            return Err(io::Error::other(NotAllowed));
        }
        let stream = TcpStream::connect(resolved.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Network for Direct {
    fn connect(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        let direct = *self;
        Box::pin(async move { Ok(Box::new(direct.open(&host, port).await?) as Box<dyn Duplex>) })
    }
}

/// TLS to a Pod, whose certificate nobody has said how to verify: Kubernetes accepts any, too. The server shows none of its
/// own.
pub async fn secure(connection: Box<dyn Duplex>, host: &str) -> io::Result<Box<dyn Duplex>> {
    let trust = Trust::of_anyone(None).map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(trust.config(&Clock::system())).connect(name, connection).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_other_machines_are_connected_to() {
        for allowed in ["10.0.0.1", "192.0.2.7", "172.16.0.1", "2001:db8::1", "fd00::1"] {
            assert!(is_global_unicast(allowed.parse().unwrap()), "{allowed}");
        }
        for refused in [
            "127.0.0.1",
            "127.8.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
        ] {
            assert!(!is_global_unicast(refused.parse().unwrap()), "{refused}");
        }
    }

    #[tokio::test]
    async fn the_server_does_not_connect_to_itself_for_a_pod() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "::ffff:127.0.0.1"] {
            let error = Direct::default().open(host, port).await.expect_err(host);
            assert!(NotAllowed::is_in(&error), "{host}: {error}");
        }
        assert!(Direct::connecting_to(|_| true).open("127.0.0.1", port).await.is_ok());
    }
}
