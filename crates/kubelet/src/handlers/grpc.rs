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
