//! Frames by hand, as no well-behaved client sends them: a connection that floods the server is ended, and others are served on.

use bytes::Bytes;
use http::Request;
use pintle_apiserver::outbound::{Destination, Outbound, Place, Trust};
use pintle_apiserver::pki::Pki;
use pintle_apiserver::{ApiServer, Pace, Parts, listener};
use pintle_meta::{Clock, Random};
use pintle_store::MemoryStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `GET https /` from HPACK's static table, without an authority.
const GET_ROOT: [u8; 3] = [0x82, 0x87, 0x84];
/// More than any limit on a connection lets through.
const FLOOD: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    server: ApiServer,
    serving: JoinHandle<()>,
    pki: Pki,
    port: u16,
}

impl World {
    async fn start() -> World {
        let clock = Clock::system();
        let pki = Pki::generate(clock.now()).unwrap();
        let tls = pki.server_tls(&[IpAddr::V4(Ipv4Addr::LOCALHOST)], &[], clock.now()).unwrap();
        let parts = Parts {
            store: Arc::new(MemoryStore::new()),
            clock,
            random: Random::seeded(1),
            token_key: pki.token_key.clone(),
            pace: Pace::default(),
            seats: 32,
        };
        let server = ApiServer::start(parts).await.unwrap();
        let tcp = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let serving = tokio::spawn(listener::serve(server.clone(), tcp, tls));
        World { server, serving, pki, port }
    }

    /// A connection on which the settings are exchanged.
    async fn connect(&self) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pki.ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
        stream.write_all(PREFACE).await.unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        stream
    }

    /// Somebody else is served, on a connection of their own.
    async fn serves_others(self) {
        let trust = Trust::of_bundle(self.pki.ca_pem.as_bytes(), None).unwrap();
        let to = Destination { place: Place::Address { host: "127.0.0.1".into(), port: self.port }, trust };
        let request = Request::get("/version").body(Bytes::new()).unwrap();
        let answer = Outbound::default().ask_address(&to, request, PATIENCE).await.unwrap();
        assert_eq!(answer.status(), 200);
        self.server.stop();
        self.serving.await.unwrap();
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends until the server ends the connection; how many were sent until then, or nothing if it took all of them.
async fn sent_until_the_end(
    mut stream: TlsStream<TcpStream>,
    mut next: impl FnMut(usize) -> Option<Vec<u8>>,
) -> Option<usize> {
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let mut answers = vec![0; 64 * 1024];
    let sending = async {
        let mut count = 0;
        while let Some(bytes) = next(count) {
            if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                return Some(count);
            }
            count += 1;
        }
        // Nothing more comes from here: only the server can end the connection now.
        std::future::pending().await
    };
    let reading = async { while reader.read(&mut answers).await.is_ok_and(|count| count > 0) {} };
    let ended = async {
        tokio::select! {
            count = sending => count,
            () = reading => Some(0),
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.ok().flatten()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_opens_streams_only_to_reset_them_is_sent_away() {
    let world = World::start().await;
    let stream = world.connect().await;
    let cancel = 8u32.to_be_bytes();
    let ended = sent_until_the_end(stream, |count| {
        let id = u32::try_from(2 * count + 1).unwrap();
        let mut both = frame(HEADERS, END_STREAM | END_HEADERS, id, &GET_ROOT);
        both.extend(frame(RESET, 0, id, &cancel));
        (count < FLOOD).then_some(both)
    });
    assert!(ended.await.is_some(), "the server took {FLOOD} streams that were reset at once");
    world.serves_others().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_never_end_are_not_collected() {
    let world = World::start().await;
    let stream = world.connect().await;
    // A header of a kilobyte in each, never the last one: 20 MiB in all.
    let mut field = vec![0x00, 0x01, b'x', 0x7f, 0xe1, 0x07];
    field.extend(vec![b'v'; 1120]);
    let ended = sent_until_the_end(stream, |count| {
        let next =
            if count == 0 { frame(HEADERS, END_STREAM, 1, &GET_ROOT) } else { frame(CONTINUATION, 0, 1, &field) };
        (count < FLOOD).then_some(next)
    });
    let ended = ended.await;
    assert!(ended.is_some(), "the server collected {FLOOD} pieces of one header");
    world.serves_others().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_opens_no_more_streams_than_it_may() {
    let world = World::start().await;
    let mut stream = world.connect().await;
    // Bodies that do not come: each stream stays open. A thousand of them, of which 250 are allowed.
    let post = [0x83, 0x87, 0x84];
    for index in 0..1000u32 {
        if stream.write_all(&frame(HEADERS, END_HEADERS, 2 * index + 1, &post)).await.is_err() {
            break;
        }
    }
    let _ = stream.flush().await;
    let (mut refused, mut head) = (0, [0; 9]);
    let counting = async {
        while refused < 700 && stream.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            if stream.read_exact(&mut payload).await.is_err() {
                break;
            }
            // GOAWAY ends all of them.
            if head[3] == 7 {
                refused = 1000;
            }
            refused += usize::from(head[3] == RESET);
        }
        refused
    };
    let refused = tokio::time::timeout(PATIENCE, counting).await.unwrap_or_default();
    assert!(refused >= 700, "only {refused} streams were refused");
    world.serves_others().await;
}
