//! The client against a small SPDY server.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{attach, exec, frame, port};
use crate::streams::{Size, Wanted};

const ALL: Wanted = Wanted { stdin: true, stdout: true, stderr: true, tty: false };

/// A server's side of one connection, after all streams are there.
struct Peer {
    socket: BufReader<TcpStream>,
    request: String,
    /// By the header `streamtype`.
    streams: BTreeMap<String, u32>,
}

/// Serves one connection and gives the URL that leads to it.
async fn serve<F: Future<Output = ()> + Send + 'static>(
    streams: usize,
    behaviour: impl FnOnce(Peer) -> F + Send + 'static,
) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/exec/token", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        behaviour(Peer::new(socket, streams).await).await;
    });
    (url, task)
}

impl Peer {
    async fn new(socket: TcpStream, expected: usize) -> Self {
        let mut socket = BufReader::new(socket);
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            assert!(socket.read_line(&mut request).await.unwrap() > 0);
        }
        socket.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n").await.unwrap();
        let mut peer = Peer { socket, request, streams: BTreeMap::new() };
        while peer.streams.len() < expected {
            let (id, block) = peer.syn_stream().await;
            let headers = headers(&block, peer.streams.is_empty());
            peer.streams.insert(headers["streamtype"].clone(), id);
            // A reply with a header block that no client needs to read.
            peer.control(2, &[&id.to_be_bytes()[..], b"anything"].concat()).await;
        }
        peer
    }

    async fn syn_stream(&mut self) -> (u32, Vec<u8>) {
        let mut head = [0; 8];
        self.socket.read_exact(&mut head).await.unwrap();
        assert_eq!(&head[..4], [0x80, 3, 0, 1]);
        let mut content = vec![0; u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize];
        self.socket.read_exact(&mut content).await.unwrap();
        (u32::from_be_bytes(content[..4].try_into().unwrap()), content[10..].to_vec())
    }

    async fn control(&mut self, kind: u8, content: &[u8]) {
        let frame = [&[0x80, 3, 0, kind, 0, 0, 0, content.len() as u8], content].concat();
        self.socket.write_all(&frame).await.unwrap();
    }

    async fn write(&mut self, stream: &str, text: &[u8], fin: bool) {
        let frame = frame::data(self.streams[stream], fin, text);
        self.socket.write_all(&frame).await.unwrap();
    }

    /// The next content that the client sends, with whether it is the last; frames of the connection itself are skipped.
    async fn read(&mut self) -> Option<(u32, Vec<u8>, bool)> {
        loop {
            match frame::read_head(&mut self.socket).await.unwrap()? {
                frame::Head::Data { stream, fin, length } => {
                    let mut content = vec![0; length];
                    self.socket.read_exact(&mut content).await.unwrap();
                    return Some((stream, content, fin));
                }
                frame::Head::Ping { length } | frame::Head::Other { length } => {
                    frame::skip(&mut self.socket, length).await.unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Reads a header block of stored zlib blocks.
fn headers(block: &[u8], first: bool) -> BTreeMap<String, String> {
    let mut rest = if first { block.strip_prefix(&[0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]).unwrap() } else { block };
    let mut plain = Vec::new();
    while let [0, a, b, _, _, more @ ..] = rest {
        let (content, next) = more.split_at(usize::from(u16::from_le_bytes([*a, *b])));
        plain.extend_from_slice(content);
        rest = next;
    }
    assert!(rest.is_empty());
    let mut rest = &plain[4..];
    let mut text = || {
        let (length, more) = rest.split_at(4);
        let (text, more) = more.split_at(u32::from_be_bytes(length.try_into().unwrap()) as usize);
        rest = more;
        String::from_utf8(text.to_vec()).unwrap()
    };
    (0..u32::from_be_bytes(plain[..4].try_into().unwrap())).map(|_| (text(), text())).collect()
}

async fn all(reader: &mut crate::streams::Reader) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_command_gets_its_input_and_tells_its_output_and_exit_code() {
    let (url, server) = serve(4, async |mut peer: Peer| {
        assert!(peer.request.starts_with("POST /exec/token HTTP/1.1\r\n"), "{}", peer.request);
        assert!(peer.request.contains("X-Stream-Protocol-Version: v4.channel.k8s.io\r\n"));
        let (mut input, mut ended) = (Vec::new(), false);
        while !ended {
            let (stream, content, fin) = peer.read().await.unwrap();
            assert_eq!(stream, peer.streams["stdin"]);
            input.extend(content);
            ended = fin;
        }
        peer.write("stdout", &input, true).await;
        peer.write("stderr", b"warning", false).await;
        let status = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
        peer.write("error", status, true).await;
        // As Go's servers do: what is open is reset, then the connection goes away.
        let stderr = peer.streams["stderr"];
        peer.control(3, &[stderr.to_be_bytes(), 5_u32.to_be_bytes()].concat()).await;
        peer.control(7, &[0; 8]).await;
    })
    .await;
    let mut process = exec(&url, ALL).await.unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"hello ").await.unwrap();
    stdin.write_all(b"world").await.unwrap();
    drop(stdin);
    assert_eq!(all(process.stdout.as_mut().unwrap()).await, "hello world");
    assert_eq!(all(process.stderr.as_mut().unwrap()).await, "warning");
    assert_eq!(process.ended.await, Ok(7));
    server.await.unwrap();
}

#[tokio::test]
async fn a_file_larger_than_every_window_arrives_whole_in_both_directions() {
    const SIZE: usize = 3 * 1024 * 1024 + 17;
    let (url, server) = serve(4, async |mut peer: Peer| {
        let mut ended = false;
        while !ended {
            let (_, content, fin) = peer.read().await.unwrap();
            peer.write("stdout", &content, fin).await;
            ended = fin;
        }
        peer.write("error", br#"{"status":"Success"}"#, true).await;
    })
    .await;
    let mut process = exec(&url, ALL).await.unwrap();
    let sent: Vec<u8> = (0..SIZE).map(|index| (index % 251) as u8).collect();
    let mut stdin = process.stdin.take().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let mut received = Vec::new();
    let sending = async {
        stdin.write_all(&sent).await.unwrap();
        stdin.shutdown().await.unwrap();
    };
    let (_, read) = tokio::join!(sending, stdout.read_to_end(&mut received));
    assert_eq!(read.unwrap(), SIZE);
    assert!(received == sent, "the bytes came in another order");
    assert_eq!(process.ended.await, Ok(0));
    server.await.unwrap();
}

#[tokio::test]
async fn a_command_that_could_not_start_says_why() {
    let (url, server) = serve(2, async |mut peer: Peer| {
        let status = br#"{"status":"Failure","reason":"InternalError","message":"no such file: nosuch"}"#;
        peer.write("error", status, true).await;
    })
    .await;
    let process = exec(&url, Wanted { stdout: true, ..Wanted::default() }).await.unwrap();
    assert!(process.ended.await.unwrap_err().to_string().ends_with("no such file: nosuch"));
    server.await.unwrap();
}

#[tokio::test]
async fn a_lost_connection_is_no_success_of_a_command_but_the_end_of_an_attachment() {
    let wanted = Wanted { stdout: true, ..Wanted::default() };
    let (url, _server) = serve(2, async |peer: Peer| drop(peer)).await;
    assert!(exec(&url, wanted).await.unwrap().ended.await.is_err());
    let (url, _server) = serve(2, async |peer: Peer| drop(peer)).await;
    assert_eq!(attach(&url, wanted).await.unwrap().ended.await, Ok(0));
}

#[tokio::test]
async fn a_terminal_learns_its_size_and_pings_are_answered() {
    let (url, server) = serve(4, async |mut peer: Peer| {
        peer.control(6, &2_u32.to_be_bytes()).await;
        let mut answered = [0; 12];
        peer.socket.read_exact(&mut answered).await.unwrap();
        assert_eq!(answered, [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 2]);
        peer.write("stdout", b"ready", false).await;
        let (stream, content, _) = peer.read().await.unwrap();
        assert_eq!(stream, peer.streams["resize"]);
        assert_eq!(content, b"{\"Width\":80,\"Height\":24}\n");
        peer.write("error", br#"{"status":"Success"}"#, true).await;
    })
    .await;
    let mut process = exec(&url, Wanted { tty: true, ..ALL }).await.unwrap();
    assert!(process.stderr.is_none(), "a terminal has one output");
    let mut ready = [0; 5];
    process.stdout.as_mut().unwrap().read_exact(&mut ready).await.unwrap();
    process.resize.as_ref().unwrap().send(Size { width: 80, height: 24 }).await.unwrap();
    assert_eq!(process.ended.await, Ok(0));
    server.await.unwrap();
}

#[tokio::test]
async fn whoever_lets_go_of_a_command_closes_its_connection() {
    let (url, server) = serve(4, async |mut peer: Peer| while peer.read().await.is_some() {}).await;
    let process = exec(&url, ALL).await.unwrap();
    drop(process);
    tokio::time::timeout(Duration::from_secs(10), server).await.expect("the connection stays open").unwrap();
}

#[tokio::test]
async fn a_port_is_talked_to_and_one_without_listener_says_so() {
    let (url, server) = serve(2, async |mut peer: Peer| {
        assert!(peer.request.contains("X-Stream-Protocol-Version: portforward.k8s.io\r\n"));
        let (stream, content, _) = peer.read().await.unwrap();
        assert_eq!(stream, peer.streams["data"]);
        peer.write("data", &content, true).await;
    })
    .await;
    let mut connection = port(&url, 80).await.unwrap();
    connection.write_all(b"GET /").await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "GET /");
    server.await.unwrap();

    let (url, _server) = serve(2, async |mut peer: Peer| {
        peer.write("data", b"", true).await;
        peer.write("error", b"connection refused", true).await;
    })
    .await;
    let mut connection = port(&url, 81).await.unwrap();
    let error = connection.read_to_string(&mut String::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "connection refused");
}

#[tokio::test]
async fn a_refused_upgrade_tells_the_servers_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/exec/old", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        assert!(socket.read(&mut request).await.unwrap() > 0);
        socket.write_all(b"HTTP/1.1 404 Not Found\r\n\r\nno such token").await.unwrap();
    });
    let error = exec(&url, ALL).await.unwrap_err().to_string();
    assert!(error.contains("404 Not Found") && error.ends_with("no such token"), "{error}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_client_of_ours_and_our_server_understand_each_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/portforward/x", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(socket.read_u8().await.unwrap());
            }
            socket.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await.unwrap();
            let connect = |port| async move {
                if port != 80 {
                    return Err(crate::Error::Failed("nobody listens".to_owned()));
                }
                let (near, far) = tokio::io::duplex(1024);
                tokio::spawn(async move {
                    let (mut reader, mut writer) = tokio::io::split(far);
                    tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                    writer.shutdown().await.unwrap();
                });
                Ok(Box::new(near) as crate::Connection)
            };
            super::server::ports(socket, connect).await;
        }
    });
    let mut connection = port(&url, 80).await.unwrap();
    let sent = vec![b'x'; 300_000];
    let (mut reader, mut writer) = tokio::io::split(&mut connection);
    let sending = async {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(sending, reader.read_to_end(&mut received));
    assert_eq!(read.unwrap(), sent.len());
    drop(connection);
    let mut nobody = port(&url, 81).await.unwrap();
    let error = nobody.read_to_string(&mut String::new()).await.unwrap_err().to_string();
    assert!(error.ends_with("nobody listens"), "{error}");
    drop(nobody);
    server.await.unwrap();
}
