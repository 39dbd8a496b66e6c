//! Answers over datagrams and connections.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use pintle_runtime::Shutdown;
use pintle_runtime::accept::accept;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::answer::{Answer, DATAGRAM, Domain, answer, refused, relayed};
use super::forward::Forwarder;
use super::metrics::{From, Metrics};
use super::zone::Zone;

/// The largest answer for those who do not say what they take.
const SMALLEST: u16 = 512;
/// Connections at once, and how long one may be silent.
const CONNECTIONS: usize = 256;
const SILENCE: Duration = Duration::from_secs(10);

/// Answers questions.
pub struct Server {
    /// Nothing as long as not all names are known.
    zone: RwLock<Option<Zone>>,
    domain: Domain,
    forwarder: Forwarder,
    metrics: Metrics,
}

impl Server {
    pub fn new(domain: Domain, forwarder: Forwarder) -> Self {
        let metrics = Metrics::new(forwarder.cache());
        Server { zone: RwLock::default(), domain, forwarder, metrics }
    }

    /// All names are known now.
    pub fn know(&self, zone: Zone) {
        *self.zone.write().unwrap_or_else(PoisonError::into_inner) = Some(zone);
    }

    /// Are all names known?
    pub fn is_ready(&self) -> bool {
        self.zone.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn count(&self, from: From, request: &Message, answer: &Message, began: Instant) {
        let zone = self.domain.zone_of(request.queries.first());
        self.metrics.answered(from, zone, request, answer, began.elapsed());
    }

    /// Changes what is known.
    pub fn change(&self, change: impl FnOnce(&mut Zone)) {
        if let Some(zone) = self.zone.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            change(zone);
        }
    }

    /// Listens at an address, on both kinds of ports, until the shutdown.
    pub async fn listen(self: &Arc<Self>, at: SocketAddr, shutdown: Shutdown) -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind(at).await?;
        let at = listener.local_addr()?;
        let socket = Arc::new(UdpSocket::bind(at).await?);
        let (over_udp, over_tcp, end) = (self.clone(), self.clone(), shutdown.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = end.fired() => {}
                () = over_udp.datagrams(socket) => {}
            }
        });
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = shutdown.fired() => {}
                () = over_tcp.connections(listener) => {}
            }
        });
        Ok(at)
    }

    async fn datagrams(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            // Errors belong to earlier answers that could not be delivered.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
            let Ok(request) = Message::from_vec(&buffer[..length]) else { continue };
            let (began, asks) = (Instant::now(), From { protocol: "udp", address: from });
            match self.now(&request) {
                Answer::Now(message) => {
                    self.count(asks, &request, &message, began);
                    let _ = socket.send_to(&fitting(&request, &message), from).await;
                }
                later => {
                    let (server, socket) = (self.clone(), socket.clone());
                    tokio::spawn(async move {
                        let message = server.later(&request, later).await;
                        server.count(asks, &request, &message, began);
                        let _ = socket.send_to(&fitting(&request, &message), from).await;
                    });
                }
            }
        }
    }

    fn now(&self, request: &Message) -> Answer {
        let zone = self.zone.read().unwrap_or_else(PoisonError::into_inner);
        match zone.as_ref() {
            Some(zone) => answer(zone, &self.domain, request),
            None => Answer::Now(refused(request, ResponseCode::ServFail)),
        }
    }

    async fn later(&self, request: &Message, answer: Answer) -> Message {
        match answer {
            Answer::Now(message) => message,
            Answer::Elsewhere(query) => relayed(request, self.forwarder.ask(&query).await.as_ref()),
            Answer::Follow(mut message, query) => {
                let theirs = self.forwarder.ask(&query).await;
                message.add_answers(theirs.answers.iter().cloned());
                message
            }
        }
    }

    async fn connections(self: Arc<Self>, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Some((stream, seat)) = accept(&listener, &room).await else { continue };
            let server = self.clone();
            tokio::spawn(async move {
                // A client that hangs up wants to hear no more.
                let _ = server.connection(stream).await;
                drop(seat);
            });
        }
    }

    async fn connection(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let asks = From { protocol: "tcp", address: stream.peer_addr()? };
        loop {
            let length = tokio::time::timeout(SILENCE, stream.read_u16()).await??;
            let mut buffer = vec![0; usize::from(length)];
            tokio::time::timeout(SILENCE, stream.read_exact(&mut buffer)).await??;
            let request = Message::from_vec(&buffer).map_err(std::io::Error::other)?;
            let began = Instant::now();
            let message = self.later(&request, self.now(&request)).await;
            self.count(asks, &request, &message, began);
            let bytes = message.to_vec().or_else(|_| refused(&request, ResponseCode::ServFail).to_vec());
            let bytes = bytes.map_err(std::io::Error::other)?;
            let length = u16::try_from(bytes.len()).map_err(std::io::Error::other)?;
            let whole = [&length.to_be_bytes()[..], &bytes].concat();
            tokio::time::timeout(SILENCE, stream.write_all(&whole)).await??;
        }
    }
}

/// The answer as a datagram; one that is too large says only so.
fn fitting(request: &Message, message: &Message) -> Vec<u8> {
    let most = request.edns.as_ref().map_or(SMALLEST, |edns| edns.max_payload().clamp(SMALLEST, DATAGRAM));
    let whole = message.to_vec().unwrap_or_default();
    if !whole.is_empty() && whole.len() <= usize::from(most) {
        return whole;
    }
    let code = if whole.is_empty() { ResponseCode::ServFail } else { message.metadata.response_code };
    let mut short = refused(request, code);
    short.metadata.truncation = !whole.is_empty();
    short.to_vec().unwrap_or_default()
}
