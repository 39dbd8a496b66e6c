//! The standard health check of gRPC servers.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use super::{Outcome, joined};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const SERVING: i32 = 1;

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

pub(super) async fn check(host: &str, port: u16, service: &str, timeout: Duration) -> Outcome {
    let address = joined(host, port);
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let late = || format!("timeout: failed to connect service {address:?} within {}s", timeout.as_secs());
    let ask = async {
        let channel = endpoint.connect().await.map_err(|error| format!("error: {error}"))?;
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| error.to_string())?;
        let question = Request::new(Question { service: service.to_owned() });
        let codec = ProstCodec::<Question, Answer>::default();
        match grpc.unary(question, PathAndQuery::from_static(CHECK), codec).await {
            Ok(answer) => Ok(answer.into_inner().status),
            Err(status) if status.code() == Code::Unimplemented => {
                Err("error: this server does not implement the grpc health protocol (grpc.health.v1.Health)".to_owned())
            }
            Err(status) => Err(format!("error: health rpc probe failed: {}", status.message())),
        }
    };
    match tokio::time::timeout(timeout, ask).await {
        Ok(Ok(SERVING)) => Ok(()),
        Ok(Ok(status)) => Err(format!("service unhealthy (responded with {:?})", told(status))),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(late()),
    }
}

fn told(status: i32) -> &'static str {
    match status {
        2 => "NOT_SERVING",
        3 => "SERVICE_UNKNOWN",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use pintle_container::grpc::server::{self, Call, Service};
    use tokio::net::TcpListener;
    use tonic::Status;

    use super::*;

    /// Serves the service of the name `well`, does not serve `ill`, and knows no other; without a name nobody is asked.
    #[derive(Clone)]
    struct Health;

    impl Service for Health {
        async fn answer(&self, call: Call) -> server::Answer {
            if call.uri().path() != CHECK {
                return server::unknown(&call);
            }
            let answer = async |question: Question| match question.service.as_str() {
                "well" => Ok(Answer { status: SERVING }),
                "ill" => Ok(Answer { status: 2 }),
                "never" => std::future::pending().await,
                other => Err(Status::not_found(format!("unknown service {other}"))),
            };
            server::unary(call, answer).await
        }
    }

    #[derive(Clone)]
    struct Other;

    impl Service for Other {
        async fn answer(&self, call: Call) -> server::Answer {
            server::unknown(&call)
        }
    }

    async fn listen(service: impl Service) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server::connection(stream, service.clone()));
            }
        });
        port
    }

    #[tokio::test]
    async fn a_server_is_well_when_it_says_so_of_the_service_that_was_asked_for() {
        let port = listen(Health).await;
        let ask = async |service: &str| check("127.0.0.1", port, service, Duration::from_secs(1)).await;
        assert_eq!(ask("well").await, Ok(()));
        assert_eq!(ask("ill").await, Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned()));
        assert_eq!(ask("x").await, Err("error: health rpc probe failed: unknown service x".to_owned()));
        let late = format!("timeout: failed to connect service \"127.0.0.1:{port}\" within 1s");
        assert_eq!(ask("never").await, Err(late));
        let other = listen(Other).await;
        let answer = check("127.0.0.1", other, "well", Duration::from_secs(1)).await;
        assert!(answer.is_err_and(|error| error.contains("does not implement the grpc health protocol")));
    }
}
