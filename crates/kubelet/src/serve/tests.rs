//! Commands and ports over WebSocket, as a client sees them; commands over SPDY are in `command/tests.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use pintle_container::*;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::command::Client as Kind;
use super::port_forward;

pub(super) const ALL: Wanted = Wanted { stdin: true, stdout: true, stderr: true, tty: false };

/// A client's end of a connection.
struct Client {
    stream: DuplexStream,
    session: JoinHandle<()>,
}

impl Client {
    async fn send(&mut self, message: &[u8]) {
        let length = u8::try_from(message.len()).unwrap();
        assert!(length < 126);
        // A mask of zeros leaves the content as it is.
        let frame = [&[0x82, 0x80 | length, 0, 0, 0, 0], message].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The next message; nothing at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        self.frame().await.and_then(|(first, content)| (first == 0x82).then_some(content))
    }

    async fn expect_text(&mut self, message: &[u8]) {
        let (first, content) = self.frame().await.unwrap();
        assert_eq!((first, content.as_slice()), (0x81, message), "{:?}", String::from_utf8_lossy(&content));
    }

    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = tokio::time::timeout(Duration::from_secs(20), async {
            let first = self.stream.read_u8().await.ok()?;
            let length = match self.stream.read_u8().await.ok()? {
                126 => usize::from(self.stream.read_u16().await.ok()?),
                length => usize::from(length),
            };
            let mut content = vec![0; length];
            self.stream.read_exact(&mut content).await.ok()?;
            Some((first, content))
        });
        head.await.expect("nothing comes")
    }

    async fn expect(&mut self, message: &[u8]) {
        let next = self.next().await.unwrap();
        assert_eq!(next, message, "{:?}", String::from_utf8_lossy(&next));
    }

    /// The last word, after which nothing comes.
    async fn status(&mut self) -> Value {
        let message = self.next().await.unwrap();
        assert_eq!(message[0], 3, "{:?}", String::from_utf8_lossy(&message));
        assert_eq!(self.next().await, None);
        serde_json::from_slice(&message[1..]).unwrap()
    }
}

/// The process's ends of its streams.
pub(super) struct Inside {
    pub(super) stdin: DuplexStream,
    pub(super) stdout: DuplexStream,
    pub(super) stderr: DuplexStream,
    pub(super) sizes: mpsc::Receiver<Size>,
    pub(super) end: tokio::sync::oneshot::Sender<Result<i32, Error>>,
}

pub(super) fn process() -> (Process, Inside) {
    let pipe = || tokio::io::duplex(1024);
    let ((stdin, their_stdin), (stdout, their_stdout), (stderr, their_stderr)) = (pipe(), pipe(), pipe());
    let (resize, sizes) = mpsc::channel(1);
    let (end, ended) = tokio::sync::oneshot::channel();
    let process = Process {
        stdin: Some(Box::new(stdin)),
        stdout: Some(Box::new(stdout)),
        stderr: Some(Box::new(stderr)),
        resize: Some(resize),
        ended: async { ended.await.unwrap_or(Ok(0)) }.boxed(),
    };
    (process, Inside { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr, sizes, end })
}

async fn connect(start: Result<Process, Error>) -> Client {
    let mut client = connect_with("v5.channel.k8s.io", start);
    // The connection stands.
    client.expect(&[1]).await;
    client
}

fn connect_with(protocol: &'static str, start: Result<Process, Error>) -> Client {
    let (ours, stream) = tokio::io::duplex(1024);
    let start = Box::pin(futures::future::ready(start));
    let kind = Kind::WebSocket(ours, protocol);
    let session = tokio::spawn(kind.connect(ALL, "error executing command in container", start));
    Client { stream, session }
}

#[tokio::test]
async fn a_client_of_the_first_protocol_is_told_the_output_and_only_failures() {
    for protocol in ["channel.k8s.io", ""] {
        for (code, last_word) in [(0, None), (7, Some("\x03command terminated with non-zero exit code: exit status 7"))]
        {
            let (process, mut inside) = process();
            let mut client = connect_with(protocol, Ok(process));
            client.expect(&[1]).await;
            client.send(b"\x00hello").await;
            let mut input = [0; 5];
            inside.stdin.read_exact(&mut input).await.unwrap();
            assert_eq!(&input, b"hello");
            inside.stdout.write_all(b"out").await.unwrap();
            client.expect(b"\x01out").await;
            inside.end.send(Ok(code)).unwrap();
            drop((inside.stdout, inside.stderr));
            if let Some(last_word) = last_word {
                client.expect(last_word.as_bytes()).await;
            }
            assert_eq!(client.next().await, None);
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_text_alone_gets_base64() {
    let (process, mut inside) = process();
    let mut client = connect_with("base64.channel.k8s.io", Ok(process));
    client.expect_text(b"1").await;
    client.send(b"0aGVsbG8=").await;
    let mut input = [0; 5];
    inside.stdin.read_exact(&mut input).await.unwrap();
    assert_eq!(&input, b"hello");
    client.send(b"0 not base64").await;
    inside.stderr.write_all(b"err").await.unwrap();
    client.expect_text(b"2ZXJy").await;
    inside.end.send(Ok(0)).unwrap();
    drop((inside.stdout, inside.stderr));
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn what_is_typed_arrives_and_output_and_exit_code_come_back() {
    let (process, mut inside) = process();
    let mut client = connect(Ok(process)).await;
    client.send(b"\x00hello").await;
    client.send(b"\x04{\"Width\":80,\"Height\":24}").await;
    client.send(&[255, 0]).await;
    let mut input = String::new();
    inside.stdin.read_to_string(&mut input).await.unwrap();
    assert_eq!(input, "hello", "the input ended with the message that ends it");
    assert_eq!(inside.sizes.recv().await, Some(Size { width: 80, height: 24 }));
    inside.stdout.write_all(b"out").await.unwrap();
    client.expect(b"\x01out").await;
    inside.stderr.write_all(b"err").await.unwrap();
    client.expect(b"\x02err").await;
    inside.end.send(Ok(7)).unwrap();
    // Output that is still on its way comes before the end.
    inside.stdout.write_all(b"late").await.unwrap();
    drop((inside.stdout, inside.stderr));
    client.expect(b"\x01late").await;
    let status = client.status().await;
    assert_eq!(status["reason"], "NonZeroExitCode");
    assert_eq!(status["details"]["causes"][0]["message"], "7");
    drop(client.stream);
    client.session.await.unwrap();
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why() {
    let mut client = connect(Err(Error::Unsupported("run commands for others"))).await;
    let status = client.status().await;
    let message = "Internal error occurred: error executing command in container: this container runtime cannot run \
                   commands for others";
    assert_eq!(status["message"], message);
    assert_eq!(status["status"], "Failure");
}

#[tokio::test]
async fn a_client_that_goes_takes_its_command_with_it() {
    let (process, inside) = process();
    let client = connect(Ok(process)).await;
    drop(client.stream);
    client.session.await.unwrap();
    assert!(inside.end.is_closed(), "nobody waits for the process any more");
}

/// Ports that answer with what they are sent; none behind 81.
struct Ports;

#[async_trait]
impl Runtime for Ports {
    fn version(&self) -> Version {
        Version { name: "ports".to_owned(), version: "1".to_owned() }
    }

    async fn connect(&self, _: &SandboxId, port: u16) -> Result<Connection, Error> {
        if port == 81 {
            return Err(Error::Failed("connection refused".to_owned()));
        }
        let (near, far) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(far);
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        });
        Ok(Box::new(near))
    }

    async fn run_sandbox(&self, _: SandboxConfig) -> Result<SandboxId, Error> {
        Err(Error::NoAddress)
    }

    async fn stop_sandbox(&self, _: &SandboxId) -> Result<(), Error> {
        Ok(())
    }

    async fn remove_sandbox(&self, _: &SandboxId) -> Result<(), Error> {
        Ok(())
    }

    async fn list_sandboxes(&self, _: Option<&str>) -> Result<Vec<Sandbox>, Error> {
        Ok(Vec::new())
    }

    async fn create_container(
        &self,
        _: &SandboxId,
        _: &SandboxConfig,
        _: ContainerConfig,
    ) -> Result<ContainerId, Error> {
        Err(Error::NoAddress)
    }

    async fn start_container(&self, _: &ContainerId) -> Result<(), Error> {
        Ok(())
    }

    async fn stop_container(&self, _: &ContainerId, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    async fn remove_container(&self, _: &ContainerId) -> Result<(), Error> {
        Ok(())
    }

    async fn list_containers(&self, _: Option<&str>) -> Result<Vec<Container>, Error> {
        Ok(Vec::new())
    }

    async fn container_status(&self, id: &ContainerId) -> Result<Container, Error> {
        Err(Error::NotFound { kind: "container", id: id.0.clone() })
    }

    async fn pull_image(&self, _: PullRequest) -> Result<Image, Error> {
        Err(Error::NoAddress)
    }

    async fn image(&self, _: &str) -> Result<Option<Image>, Error> {
        Ok(None)
    }

    async fn list_images(&self) -> Result<Vec<Image>, Error> {
        Ok(Vec::new())
    }

    async fn remove_image(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn exec(&self, _: &ContainerId, _: &[String], _: Duration) -> Result<Execution, Error> {
        Ok(Execution::default())
    }

    async fn changes(&self) -> BTreeSet<PodRef> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn ports_are_talked_to_each_on_its_channel() {
    let (ours, stream) = tokio::io::duplex(1024);
    let sandbox = SandboxId("s".to_owned());
    let session = tokio::spawn(port_forward::connect(ours, Arc::new(Ports), sandbox, vec![80, 81]));
    let mut client = Client { stream, session };
    for first in [[0, 80, 0], [1, 80, 0], [2, 81, 0], [3, 81, 0]] {
        client.expect(&first).await;
    }
    client.expect(b"\x03error forwarding port 81 to pod: the container runtime failed: connection refused").await;
    client.send(b"\x00ping").await;
    client.expect(b"\x00ping").await;
    drop(client.stream);
    client.session.await.unwrap();
}

#[test]
fn ports_are_read_from_the_query() {
    let of = |text: &str| port_forward::ports(&pintle_meta::query::pairs(text));
    assert_eq!(of("port=80&port=443,8080"), Ok(vec![80, 443, 8080]));
    for wrong in ["", "port=0", "port=x", "port=70000"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}
