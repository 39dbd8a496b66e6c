//! What probes and lifecycle hooks do: run a command, ask by HTTP, gRPC or TCP, or just wait.

mod grpc;
mod http;

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle_container::{ContainerId, Runtime};
use tokio::net::TcpStream;

/// Something to do with a container, whose outcome is success or a message.
#[derive(Clone, Debug)]
pub(crate) enum Handler {
    Exec(Vec<String>),
    Http(HTTPGetAction),
    Tcp { host: Option<String>, port: IntOrString },
    Grpc { port: i32, service: String },
    Sleep(Duration),
}

/// Whom it is about.
pub(crate) struct Subject<'a> {
    pub(crate) runtime: &'a dyn Runtime,
    pub(crate) id: &'a ContainerId,
    pub(crate) spec: &'a Spec,
    /// Where the Pod is reached, unless the handler names another host.
    pub(crate) address: Option<IpAddr>,
}

/// Success, with what was said or not; or what went wrong.
pub(crate) type Outcome = Result<(), String>;

impl Handler {
    pub(crate) fn of_probe(probe: &Probe) -> Option<Handler> {
        if let Some(exec) = &probe.exec {
            return Some(Handler::Exec(exec.command.clone().unwrap_or_default()));
        }
        if let Some(get) = &probe.http_get {
            return Some(Handler::Http(get.clone()));
        }
        if let Some(tcp) = &probe.tcp_socket {
            return Some(Handler::Tcp { host: tcp.host.clone(), port: tcp.port.clone() });
        }
        let grpc = probe.grpc.as_ref()?;
        Some(Handler::Grpc { port: grpc.port, service: grpc.service.clone().unwrap_or_default() })
    }

    /// A hook that only opens a connection does nothing, as upstream's does.
    pub(crate) fn of_hook(hook: &LifecycleHandler) -> Option<Handler> {
        if let Some(exec) = &hook.exec {
            return Some(Handler::Exec(exec.command.clone().unwrap_or_default()));
        }
        if let Some(get) = &hook.http_get {
            return Some(Handler::Http(get.clone()));
        }
        let seconds = hook.sleep.as_ref()?.seconds;
        Some(Handler::Sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
    }

    /// Does it, for as long as is allowed.
    pub(crate) async fn run(&self, subject: &Subject<'_>, timeout: Duration) -> Outcome {
        match self {
            Handler::Exec(command) => exec(subject, command, timeout).await,
            Handler::Http(get) => {
                let (host, port) = target(subject, get.host.as_deref(), &get.port)?;
                http::get(&host, port, get, timeout).await
            }
            Handler::Tcp { host, port } => {
                let (host, port) = target(subject, host.as_deref(), port)?;
                connect(&host, port, timeout).await.map(|_| ())
            }
            Handler::Grpc { port, service } => {
                let (host, port) = target(subject, None, &IntOrString::Int(*port))?;
                grpc::check(&host, port, service, timeout).await
            }
            Handler::Sleep(wait) => {
                tokio::time::sleep((*wait).min(timeout)).await;
                Ok(())
            }
        }
    }
}

async fn exec(subject: &Subject<'_>, command: &[String], timeout: Duration) -> Outcome {
    match subject.runtime.exec(subject.id, command, timeout).await {
        Ok(execution) if execution.exit_code == 0 => Ok(()),
        Ok(execution) => Err(String::from_utf8_lossy(&execution.output).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Where to ask: the named host or the Pod, at a port by number or by its name in the container's list.
fn target(subject: &Subject<'_>, host: Option<&str>, port: &IntOrString) -> Result<(String, u16), String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let mut ports = subject.spec.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port);
            named.or_else(|| name.parse().ok())
        }
    };
    let number = number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
    let number = number.ok_or_else(|| format!("the container has no port {port:?}"))?;
    let host = host.filter(|host| !host.is_empty()).map(str::to_owned);
    let host = host.or_else(|| subject.address.map(|address| address.to_string()));
    host.map(|host| (host, number)).ok_or_else(|| "the Pod has no address yet".to_owned())
}

async fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, String> {
    match tokio::time::timeout(timeout, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err(format!("dial tcp {}: connect: connection refused", joined(host, port)))
        }
        Ok(Err(error)) => Err(format!("dial tcp {}: {error}", joined(host, port))),
        Err(_) => Err(format!("dial tcp {}: i/o timeout", joined(host, port))),
    }
}

/// `host:port`, with brackets around addresses that have colons of their own.
fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;
    use pintle_container::Simulated;
    use pintle_meta::Clock;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What a probe of a server that answers so comes to.
    async fn asked(answer: &'static str, get: serde_json::Value, timeout: Duration) -> (Outcome, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 2000];
            let length = stream.read(&mut request).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            // The other side decides when it has heard enough.
            let _ = stream.read(&mut [0; 1]).await;
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let mut get: HTTPGetAction = serde_json::from_value(get).unwrap();
        get.port = IntOrString::String("web".into());
        let spec = Spec {
            ports: Some(vec![ContainerPort {
                name: Some("web".into()),
                container_port: port.into(),
                ..ContainerPort::default()
            }]),
            ..Spec::default()
        };
        let runtime = Simulated::new(Clock::system()).node("n", 0);
        let id = ContainerId("c".into());
        let subject = Subject { runtime: &*runtime, id: &id, spec: &spec, address: "127.0.0.1".parse().ok() };
        let outcome = Handler::Http(get).run(&subject, timeout).await;
        (outcome, served.await.unwrap())
    }

    /// How a probe ends that is sent on from each of these answers to the next.
    async fn sent_on(answers: Vec<String>) -> (Outcome, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let mut count = 0;
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 2000]).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                count += 1;
                let _ = stream.read(&mut [0; 1]).await;
            }
            count
        });
        let get: HTTPGetAction = serde_json::from_value(serde_json::json!({"port": port})).unwrap();
        let (runtime, id, spec) =
            (Simulated::new(Clock::system()).node("n", 0), ContainerId("c".into()), Spec::default());
        let subject = Subject { runtime: &*runtime, id: &id, spec: &spec, address: "127.0.0.1".parse().ok() };
        let outcome = Handler::Http(get).run(&subject, LONG).await;
        (outcome, served.await.unwrap())
    }

    #[tokio::test]
    async fn a_probe_follows_redirects_on_its_own_host_and_is_content_with_those_to_another() {
        let to = |place: &str| format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
        let bad = "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned();
        let failed = Err("HTTP probe failed with statuscode: 500".to_owned());
        assert_eq!(sent_on(vec![to("/real"), bad.clone()]).await, (failed, 2));
        assert_eq!(sent_on(vec![to("http://198.51.100.1/elsewhere")]).await, (Ok(()), 1));
        let (outcome, count) = sent_on(vec![to("/round"); 11]).await;
        assert!(outcome.unwrap_err().contains("stopped after 10 redirects"));
        assert_eq!(count, 11);
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn http_is_healthy_from_200_to_399_and_says_the_code_otherwise() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Ok(())),
            ("HTTP/1.1 399 Odd\r\ncontent-length: 0\r\n\r\n", Ok(())),
            ("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", Err("HTTP probe failed with statuscode: 503".to_owned())),
        ] {
            let get =
                serde_json::json!({"path": "/health?x=1", "port": 1, "httpHeaders": [{"name": "X-A", "value": "b"}]});
            let (outcome, request) = asked(answer, get, LONG).await;
            assert_eq!(outcome, expected);
            let request = request.to_lowercase();
            assert!(request.starts_with("get /health?x=1 http/1.1\r\n") && request.contains("x-a: b\r\n"), "{request}");
            assert!(request.contains("user-agent: kube-probe/1.36\r\n"), "{request}");
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_in_time_is_unwell() {
        let get = serde_json::json!({"port": 1});
        let (outcome, _) = asked("", get, Duration::from_millis(50)).await;
        assert!(outcome.unwrap_err().contains("context deadline exceeded"));
    }

    #[tokio::test]
    async fn nobody_on_the_port_is_said_as_kubernetes_says_it() {
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let error = connect("127.0.0.1", port, LONG).await.unwrap_err();
        assert_eq!(error, format!("dial tcp 127.0.0.1:{port}: connect: connection refused"));
    }
}
