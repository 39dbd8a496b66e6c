//! Tells balancers whether this node has endpoints of a Service whose traffic stays on its node (`healthCheckNodePort`).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_runtime::Key;
use pintle_runtime::accept::accept;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

use super::HealthChecks;

/// Who asks at one port at once, for how long, and with how many bytes.
const ASKING: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);
const QUESTION: usize = 4096;

/// The ports that are answered. Dropping it closes them.
#[derive(Default)]
pub(super) struct Balancers(Mutex<BTreeMap<u16, Answered>>);

struct Answered {
    service: Key,
    here: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Balancers {
    pub(super) async fn answer(&self, ports: HealthChecks) {
        let mut answered = self.0.lock().await;
        answered.retain(|port, one| ports.get(port).is_some_and(|(service, _)| *service == one.service));
        for (port, (service, count)) in ports {
            if let Some(one) = answered.get(&port) {
                one.here.store(count, Ordering::Relaxed);
                continue;
            }
            let listener = match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await {
                Ok(listener) => listener,
                Err(error) => {
                    // It is tried again with the next change.
                    tracing::warn!(port, %service, %error, "balancers cannot ask for this Service: its health check port is not free");
                    continue;
                }
            };
            let here = Arc::new(AtomicUsize::new(count));
            let task = tokio::spawn(serve(listener, service.clone(), here.clone()));
            answered.insert(port, Answered { service, here, task });
        }
    }
}

async fn serve(listener: TcpListener, service: Key, here: Arc<AtomicUsize>) {
    let room = Arc::new(Semaphore::new(ASKING));
    loop {
        let Some((stream, seat)) = accept(&listener, &room).await else { continue };
        let answer = answer(&service, here.load(Ordering::Relaxed));
        tokio::spawn(async move {
            // A client that hangs up or says nothing is not waited for.
            let _ = tokio::time::timeout(PATIENCE, tell(stream, &answer)).await;
            drop(seat);
        });
    }
}

/// Reads a question to its end, whatever it is, and answers.
async fn tell(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut asked = Vec::new();
    let mut buffer = [0; 512];
    while !asked.windows(4).any(|four| four == b"\r\n\r\n") && asked.len() < QUESTION {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        asked.extend_from_slice(&buffer[..length]);
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn answer(service: &Key, here: usize) -> String {
    let status = if here == 0 { "503 Service Unavailable" } else { "200 OK" };
    let body = serde_json::json!({"service": {"namespace": service.namespace(), "name": service.name()},
        "localEndpoints": here, "serviceProxyHealthy": true});
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n\
         X-Load-Balancing-Endpoint-Weight: {here}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(port: u16) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("somebody listens");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        heard
    }

    #[tokio::test]
    async fn a_balancer_goes_elsewhere_when_the_last_endpoint_here_is_gone() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap().port();
        let balancers = Balancers::default();
        let with = |count: usize| HealthChecks::from([(free, (Key::new("shop", "web"), count))]);
        balancers.answer(with(2)).await;
        let heard = ask(free).await;
        assert!(heard.starts_with("HTTP/1.1 200 ") && heard.contains(r#""localEndpoints":2"#), "{heard}");
        balancers.answer(with(0)).await;
        assert!(ask(free).await.starts_with("HTTP/1.1 503 "));
        balancers.answer(HealthChecks::new()).await;
        tokio::task::yield_now().await;
        assert!(
            TcpStream::connect((Ipv4Addr::LOCALHOST, free)).await.is_err(),
            "nobody answers for a Service that is gone"
        );
    }
}
