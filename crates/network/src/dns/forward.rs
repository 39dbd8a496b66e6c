//! Names outside the cluster are looked up at the servers that the machine itself uses. Answers are kept for a while.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, Record, RecordType};
use pintle_runtime::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::answer::DATAGRAM;
use super::metrics::Cache;

/// How long one server is waited for, before the next one is asked.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer is kept no longer than this, whatever it says.
const LONGEST: u32 = 30;
/// Answers that are kept, and questions that wait, at most.
const KEPT: usize = 10_000;
const WAITING: usize = 1000;

/// Asks others.
pub struct Forwarder {
    servers: Vec<SocketAddr>,
    random: Random,
    kept: Mutex<HashMap<(Name, RecordType), Kept>>,
    waiting: Arc<Semaphore>,
    cache: Cache,
}

#[derive(Clone)]
struct Kept {
    message: Arc<Message>,
    since: Instant,
    until: Instant,
}

impl Forwarder {
    pub fn new(servers: Vec<SocketAddr>, random: Random) -> Self {
        let (kept, waiting, cache) = (Mutex::default(), Arc::new(Semaphore::new(WAITING)), Cache::default());
        Forwarder { servers, random, kept, waiting, cache }
    }

    /// What a `resolv.conf` says, but for this server itself.
    pub fn of_resolv_conf(text: &str, but: IpAddr, random: Random) -> Self {
        let words = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
        let servers = words.filter_map(|word| word.trim().parse::<IpAddr>().ok()).filter(|one| *one != but);
        Forwarder::new(servers.map(|address| SocketAddr::new(address, 53)).collect(), random)
    }

    /// The answer to a question; an answer that says so if nobody could be asked.
    pub async fn ask(&self, query: &Query) -> Arc<Message> {
        let failed = || Arc::new(Message::error_msg(0, OpCode::Query, ResponseCode::ServFail));
        let key = (query.name().to_lowercase(), query.query_type());
        if let Some(kept) = self.kept(&key) {
            self.cache.hit(kept.metadata.response_code);
            return kept;
        }
        self.cache.miss();
        // Too many are being looked up: this one fails at once.
        let Ok(_turn) = self.waiting.clone().try_acquire_owned() else { return failed() };
        for server in &self.servers {
            match tokio::time::timeout(PATIENCE, self.exchange(*server, query)).await {
                Ok(Ok(message)) if message.metadata.response_code != ResponseCode::ServFail => {
                    let message = Arc::new(message);
                    self.keep(key, &message);
                    return message;
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%server, %error, "a name server does not answer"),
                Err(_) => tracing::debug!(%server, "a name server does not answer in time"),
            }
        }
        failed()
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    fn kept(&self, key: &(Name, RecordType)) -> Option<Arc<Message>> {
        let now = Instant::now();
        let kept = self.lock().get(key).filter(|kept| kept.until > now)?.clone();
        let age = u32::try_from((now - kept.since).as_secs()).unwrap_or(u32::MAX);
        if age == 0 {
            return Some(kept.message);
        }
        let mut message = kept.message.as_ref().clone();
        let older =
            |records: &mut Vec<Record>| records.iter_mut().for_each(|one| one.ttl = one.ttl.saturating_sub(age));
        older(&mut message.answers);
        older(&mut message.authorities);
        Some(Arc::new(message))
    }

    fn keep(&self, key: (Name, RecordType), message: &Arc<Message>) {
        let said = message.answers.iter().chain(&message.authorities).map(|record| record.ttl).min();
        let seconds = said.unwrap_or(0).min(LONGEST);
        let names = [ResponseCode::NoError, ResponseCode::NXDomain];
        if seconds == 0 || message.metadata.truncation || !names.contains(&message.metadata.response_code) {
            return;
        }
        let now = Instant::now();
        let mut kept = self.lock();
        if kept.len() >= KEPT {
            kept.retain(|_, one| one.until > now);
        }
        if kept.len() < KEPT {
            let until = now + Duration::from_secs(u64::from(seconds));
            kept.insert(key, Kept { message: message.clone(), since: now, until });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Name, RecordType), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By a datagram; by a connection if the answer does not fit.
    async fn exchange(&self, server: SocketAddr, query: &Query) -> std::io::Result<Message> {
        let id = u16::try_from(self.random.below(1 << 16)).unwrap_or_default();
        let mut request = Message::new(id, hickory_proto::op::MessageType::Query, OpCode::Query);
        request.metadata.recursion_desired = true;
        request.add_query(query.clone());
        let mut edns = Edns::new();
        edns.set_max_payload(DATAGRAM);
        request.set_edns(edns);
        let bytes = request.to_vec().map_err(std::io::Error::other)?;
        let local: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(local).await?;
        socket.connect(server).await?;
        socket.send(&bytes).await?;
        let mut buffer = vec![0; usize::from(DATAGRAM)];
        let message = loop {
            let length = socket.recv(&mut buffer).await?;
            // Anybody may send datagrams: one that answers another question is not the answer.
            match Message::from_vec(&buffer[..length]) {
                Ok(message) if is_answer(&message, id, query) => break message,
                _ => {}
            }
        };
        if !message.metadata.truncation {
            return Ok(message);
        }
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(bytes.len()).map_err(std::io::Error::other)?;
        stream.write_all(&length.to_be_bytes()).await?;
        stream.write_all(&bytes).await?;
        let length = stream.read_u16().await?;
        let mut buffer = vec![0; usize::from(length)];
        stream.read_exact(&mut buffer).await?;
        let message = Message::from_vec(&buffer).map_err(std::io::Error::other)?;
        match is_answer(&message, id, query) {
            true => Ok(message),
            false => Err(std::io::Error::other("it answers another question")),
        }
    }
}

fn is_answer(message: &Message, id: u16, query: &Query) -> bool {
    message.metadata.id == id
        && message.metadata.message_type == hickory_proto::op::MessageType::Response
        && message.queries.first().is_some_and(|one| one == query)
}
