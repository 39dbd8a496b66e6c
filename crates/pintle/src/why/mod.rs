//! `pintle why`: how an object came to be as it is, from the first write to the last.

mod kinds;
mod tell;

use crate::kubeconfig::{ClusterFlags, NoWay};
use crate::say;
use kinds::Kind;
use kube::Client;
use serde_json::Value;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The object: `pod/web-1`, `deploy/web`, `at.example.com/nightly`.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// The object's namespace [default: the kubeconfig's].
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Why there is no answer, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0:?} names no object; write KIND/NAME, such as pod/web-1")]
    NoObject(String),
    #[error("the server has no kind {0:?}; `kubectl api-resources` lists what it has")]
    NoKind(String),
    #[error(
        "there is no {kind} {place}, and none was written within the last hour; look at the name and the namespace (-n)"
    )]
    NoSuchObject { kind: String, place: String },
    #[error(
        "{kind} {place} is older than what the server remembers: writes are kept for an hour and until it restarts, or until newer ones take their place"
    )]
    TooOld { kind: String, place: String },
    #[error("the server keeps no causes: {0} is not a Pintle, or an older one")]
    NoCauses(String),
    #[error("{0}; causes are shown to administrators, and to users whose role allows `get` on /debug/pintle/causes")]
    Forbidden(String),
    #[error("{0}")]
    NoWay(#[from] NoWay),
    #[error("the server cannot be asked: {0}")]
    Server(#[from] kube::Error),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let answer = runtime.block_on(why(&flags))?;
    say::text(&answer);
    Ok(())
}

async fn why(flags: &Flags) -> Result<String, Failure> {
    let (said, name) = match flags.object.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => (kind, name),
        _ => return Err(Failure::NoObject(flags.object.clone())),
    };
    let config = flags.cluster.config().await?;
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config)?;
    let groups = [get(&client, "/api", true).await?, get(&client, "/apis", true).await?];
    let kind = kinds::resolve(&groups, said).ok_or_else(|| Failure::NoKind(said.to_owned()))?;
    let namespace = match kind.namespaced {
        true => flags.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned()),
        false => String::new(),
    };
    let chain = chain(&client, &server, &kind, &namespace, name).await?;
    if chain["steps"].as_array().is_none_or(Vec::is_empty) {
        let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        let kind_name = kind.kind.clone();
        return Err(match get(&client, &kind.path(&namespace, name), false).await {
            Ok(_) => Failure::TooOld { kind: kind_name, place },
            Err(kube::Error::Api(status)) if status.code == 404 => Failure::NoSuchObject { kind: kind_name, place },
            Err(error) => Failure::Server(error),
        });
    }
    Ok(match flags.output {
        Output::Json => format!("{chain:#}\n"),
        Output::Text => tell::tell(&chain),
    })
}

async fn chain(client: &Client, server: &str, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
    let mut path = format!(
        "/debug/pintle/causes?chain=true&group={}&resource={}&name={}",
        escape(&kind.group),
        escape(&kind.resource),
        escape(name)
    );
    if !namespace.is_empty() {
        path.push_str(&format!("&namespace={}", escape(namespace)));
    }
    get(client, &path, false).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => Failure::NoCauses(server.trim_end_matches('/').to_owned()),
        kube::Error::Api(status) if status.code == 403 => Failure::Forbidden(status.message.clone()),
        other => Failure::Server(other),
    })
}

/// Asks for a path; discovery is asked for in one piece.
async fn get(client: &Client, path: &str, discovery: bool) -> Result<Value, kube::Error> {
    let accept = match discovery {
        true => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
        false => "application/json",
    };
    let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Vec::new());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

/// As it may stand in a path or a query.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
