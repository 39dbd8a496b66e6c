//! Commands over SPDY, as a client sees them: the one that we have for container runtimes, and one that sends what it likes.

use std::time::Duration;

use pintle_container::{Error, Process, Size, Wanted, spdy};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Client;
use crate::serve::tests::{ALL, Inside, process};

const WHAT: &str = "error executing command in container";
const V4: &str = "v4.channel.k8s.io";

/// Serves one client on loopback. The task ends with its connection.
async fn serve(wanted: Wanted, start: Result<Process, Error>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/exec/token", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(socket.read_u8().await.unwrap());
        }
        socket.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await.unwrap();
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let start = Box::pin(futures::future::ready(start));
        // As the listener does it.
        let copying = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut socket, &mut theirs).await });
        Client::Spdy(ours, V4).connect(wanted, WHAT, start).await;
        let _ = copying.await.unwrap();
    });
    (url, task)
}

async fn text(reader: &mut Option<pintle_container::Reader>) -> String {
    let mut text = String::new();
    reader.as_mut().unwrap().read_to_string(&mut text).await.unwrap();
    text
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index % 251) as u8).collect()
}

#[tokio::test]
async fn what_is_typed_arrives_and_output_and_exit_code_come_back() {
    let (process, mut inside) = process();
    let (url, server) = serve(ALL, Ok(process)).await;
    let mut client = spdy::exec(&url, ALL).await.unwrap();
    let mut stdin = client.stdin.take().unwrap();
    stdin.write_all(b"hello").await.unwrap();
    stdin.shutdown().await.unwrap();
    let mut input = String::new();
    inside.stdin.read_to_string(&mut input).await.unwrap();
    assert_eq!(input, "hello", "the input ended with its stream");
    inside.stdout.write_all(b"out").await.unwrap();
    inside.stderr.write_all(b"err").await.unwrap();
    inside.end.send(Ok(7)).unwrap();
    // Output that is still on its way comes before the end.
    inside.stdout.write_all(b" late").await.unwrap();
    drop((inside.stdout, inside.stderr));
    assert_eq!(text(&mut client.stdout).await, "out late");
    assert_eq!(text(&mut client.stderr).await, "err");
    assert_eq!(client.ended.await, Ok(7));
    drop((client.stdout, client.stderr, client.resize, stdin));
    server.await.unwrap();
}

#[tokio::test]
async fn a_large_file_arrives_whole_in_both_directions() {
    const SIZE: usize = 5 * 1024 * 1024 + 17;
    let (process, inside) = process();
    let (url, _server) = serve(ALL, Ok(process)).await;
    let mut client = spdy::exec(&url, ALL).await.unwrap();
    let Inside { mut stdin, mut stdout, stderr, end, .. } = inside;
    let cat = tokio::spawn(async move {
        drop(stderr);
        tokio::io::copy(&mut stdin, &mut stdout).await.unwrap();
        end.send(Ok(0)).unwrap();
    });
    let sent = bytes(SIZE);
    let mut input = client.stdin.take().unwrap();
    let sending = async {
        input.write_all(&sent).await.unwrap();
        input.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(sending, client.stdout.as_mut().unwrap().read_to_end(&mut received));
    assert_eq!(read.unwrap(), SIZE);
    assert!(received == sent, "the bytes came in another order");
    assert_eq!(client.ended.await, Ok(0));
    cat.await.unwrap();
}

#[tokio::test]
async fn a_command_that_leaves_its_input_unread_still_tells_all_of_its_output() {
    const SIZE: usize = 2 * 1024 * 1024;
    let (process, inside) = process();
    let (url, _server) = serve(ALL, Ok(process)).await;
    let mut client = spdy::exec(&url, ALL).await.unwrap();
    let Inside { stdin, mut stdout, stderr, end, .. } = inside;
    let mut input = client.stdin.take().unwrap();
    // More than all that lies between holds; who takes it after the end lets it go.
    let sending = tokio::spawn(async move { input.write_all(&bytes(3 * SIZE)).await });
    stdout.write_all(&bytes(SIZE)).await.unwrap_or_else(|error| panic!("{error}"));
    drop((stdin, stdout, stderr));
    end.send(Ok(3)).unwrap();
    let mut received = Vec::new();
    client.stdout.as_mut().unwrap().read_to_end(&mut received).await.unwrap();
    assert!(received == bytes(SIZE), "{} bytes", received.len());
    assert_eq!(client.ended.await, Ok(3));
    sending.abort();
}

#[tokio::test]
async fn a_terminal_learns_its_sizes() {
    let wanted = Wanted { tty: true, stderr: false, ..ALL };
    let (process, mut inside) = process();
    let (url, _server) = serve(wanted, Ok(process)).await;
    let client = spdy::exec(&url, wanted).await.unwrap();
    for size in [Size { width: 80, height: 24 }, Size { width: 132, height: 50 }] {
        client.resize.as_ref().unwrap().send(size).await.unwrap();
        assert_eq!(inside.sizes.recv().await, Some(size));
    }
    drop((inside.stdout, inside.stderr));
    inside.end.send(Ok(0)).unwrap();
    assert_eq!(client.ended.await, Ok(0));
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why() {
    let (url, _server) = serve(ALL, Err(Error::Unsupported("run commands for others"))).await;
    let mut client = spdy::exec(&url, ALL).await.unwrap();
    assert_eq!(text(&mut client.stdout).await, "");
    let error = client.ended.await.unwrap_err().to_string();
    assert!(error.ends_with("this container runtime cannot run commands for others"), "{error}");
}

#[tokio::test]
async fn a_client_that_goes_takes_its_command_with_it() {
    let (process, inside) = process();
    let (url, server) = serve(ALL, Ok(process)).await;
    let client = spdy::attach(&url, ALL).await.unwrap();
    drop(client);
    server.await.unwrap();
    assert!(inside.end.is_closed(), "nobody waits for the process any more");
}

/// A client that sends what it likes.
struct Raw {
    stream: DuplexStream,
    session: JoinHandle<()>,
    begun: bool,
}

impl Raw {
    fn connect(protocol: &'static str, wanted: Wanted, start: Result<Process, Error>) -> Self {
        let (ours, stream) = tokio::io::duplex(1024);
        let start = Box::pin(futures::future::ready(start));
        let session = tokio::spawn(Client::Spdy(ours, protocol).connect(wanted, WHAT, start));
        Raw { stream, session, begun: false }
    }

    /// Opens a stream, with its header in a block that is not compressed, and reads that it is granted.
    async fn open(&mut self, stream: u8, kind: &str) {
        let name = "streamtype";
        let plain =
            [&[0, 0, 0, 1, 0, 0, 0, name.len() as u8], name.as_bytes(), &[0, 0, 0, kind.len() as u8], kind.as_bytes()];
        let plain = plain.concat();
        let length = plain.len() as u8;
        let zlib: &[u8] = if self.begun { &[] } else { &[0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2] };
        self.begun = true;
        let block = [zlib, &[0, length, 0, !length, 0xff], &plain].concat();
        let head = [0x80, 3, 0, 1, 0, 0, 0, 10 + block.len() as u8, 0, 0, 0, stream, 0, 0, 0, 0, 0, 0];
        self.stream.write_all(&[&head, &block[..]].concat()).await.unwrap();
        let (head, content) = self.frame().await.unwrap();
        assert_eq!(head[..4], [0x80, 3, 0, 2]);
        assert_eq!(content[..4], [0, 0, 0, stream]);
    }

    async fn say(&mut self, stream: u8, content: &[u8]) {
        let frame = [&[0, 0, 0, stream, 0, 0, 0, content.len() as u8], content].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The next frame; nothing at the end.
    async fn frame(&mut self) -> Option<([u8; 8], Vec<u8>)> {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head).await.ok()?;
        let mut content = vec![0; u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize];
        self.stream.read_exact(&mut content).await.ok()?;
        Some((head, content))
    }

    /// What is said last on a stream.
    async fn last(&mut self, stream: u8) -> String {
        loop {
            let (head, content) = self.frame().await.unwrap();
            if head[..5] == [0, 0, 0, stream, 1] {
                return String::from_utf8(content).unwrap();
            }
        }
    }
}

const OUTPUT: Wanted = Wanted { stdin: false, stdout: true, stderr: false, tty: false };

#[tokio::test]
async fn old_clients_get_a_sentence_and_new_ones_a_status() {
    for protocol in super::streams::PROTOCOLS {
        for (code, sentence) in [(0, ""), (5, "command terminated with non-zero exit code: exit status 5")] {
            let (process, inside) = process();
            let mut client = Raw::connect(protocol, OUTPUT, Ok(process));
            // In any order, and one that nobody asked for.
            client.open(1, "stdout").await;
            client.open(3, "stderr").await;
            client.open(5, "error").await;
            drop((inside.stdout, inside.stderr));
            inside.end.send(Ok(code)).unwrap();
            let said = client.last(5).await;
            if protocol == V4 {
                let status: Value = serde_json::from_str(&said).unwrap();
                assert_eq!(status["status"], if code == 0 { "Success" } else { "Failure" });
            } else {
                assert_eq!(said, sentence, "{protocol}");
            }
            assert_eq!(client.frame().await, None, "the node says that it is done");
            drop(client.stream);
            client.session.await.unwrap();
        }
    }
}

#[tokio::test]
async fn only_terminals_of_newer_clients_have_a_stream_for_sizes() {
    let wanted = Wanted { tty: true, ..OUTPUT };
    let (process, inside) = process();
    let mut client = Raw::connect("v2.channel.k8s.io", wanted, Ok(process));
    client.open(1, "error").await;
    client.open(3, "stdout").await;
    drop((inside.stdout, inside.stderr));
    inside.end.send(Ok(0)).unwrap();
    assert_eq!(client.last(1).await, "");
}

#[tokio::test]
async fn what_is_typed_before_all_streams_are_there_is_not_lost() {
    let (process, mut inside) = process();
    let wanted = Wanted { stdin: true, tty: true, ..OUTPUT };
    let mut client = Raw::connect(V4, wanted, Ok(process));
    client.open(1, "stdin").await;
    client.say(1, b"early ").await;
    client.open(3, "resize").await;
    client.say(3, b"{\"Width\":80,").await;
    client.open(5, "error").await;
    client.open(7, "stdout").await;
    client.say(1, b"late").await;
    client.say(3, b"\"Height\":24}\n").await;
    let mut input = [0; 10];
    inside.stdin.read_exact(&mut input).await.unwrap();
    assert_eq!(&input, b"early late");
    assert_eq!(inside.sizes.recv().await, Some(Size { width: 80, height: 24 }));
}

#[tokio::test]
async fn who_says_too_much_before_all_streams_are_there_is_cut_off() {
    let (process, inside) = process();
    let mut client = Raw::connect(V4, Wanted { stdin: true, ..OUTPUT }, Ok(process));
    client.open(1, "stdin").await;
    while client.stream.write_all(&[&[0, 0, 0, 1, 0, 0, 0, 200], &[0; 200][..]].concat()).await.is_ok() {}
    client.session.await.unwrap();
    assert!(inside.end.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_open_all_its_streams_is_sent_away() {
    let (process, inside) = process();
    let mut client = Raw::connect(V4, OUTPUT, Ok(process));
    let began = tokio::time::Instant::now();
    client.open(1, "error").await;
    assert_eq!(client.frame().await, None);
    assert_eq!(began.elapsed().as_secs(), 30);
    client.session.await.unwrap();
    assert!(inside.end.is_closed(), "the process was not started");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_say_goodbye_is_not_waited_for_long() {
    let (process, inside) = process();
    let mut client = Raw::connect(V4, OUTPUT, Ok(process));
    client.open(1, "error").await;
    client.open(3, "stdout").await;
    drop((inside.stdout, inside.stderr));
    inside.end.send(Ok(0)).unwrap();
    // Who reads slowly is waited for, and reads everything.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(client.last(1).await.contains("Success"));
    assert_eq!(client.frame().await, None);
    client.session.await.unwrap();
}

#[tokio::test]
async fn what_is_not_spdy_ends_the_connection_and_the_command() {
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        // A frame that is not whole, one of another version, one that is too short, and one that is too long.
        &[0, 0, 0, 1, 0, 0, 0, 9, b'x'],
        &[0x80, 2, 0, 1, 0, 0, 0, 0],
        &[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0],
        &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff],
    ];
    for bytes in garbage {
        for started in [false, true] {
            let (process, inside) = process();
            let mut client = Raw::connect(V4, OUTPUT, Ok(process));
            client.open(1, "error").await;
            if started {
                client.open(3, "stdout").await;
            }
            let _ = client.stream.write_all(bytes).await;
            let _ = client.stream.shutdown().await;
            assert_eq!(client.frame().await, None);
            client.session.await.unwrap();
            assert!(inside.end.is_closed());
        }
    }
}
