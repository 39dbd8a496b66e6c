//! `pintle token`: the words with which a machine may join the cluster, for as long as they hold.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::Kubeconfig;
use pintle_apiserver::authn::bootstrap::{self, TYPE};
use pintle_apiserver::pki::public_key_hash;
use pintle_kubelet::pressure::duration;
use pintle_meta::Clock;
use pintle_meta::clock::rfc3339;

use crate::kubeconfig::{ClusterFlags, NoWay};
use crate::say::{self, complain};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a token and print the command with which a machine joins.
    Create {
        /// For how long the token holds, such as 30m or 24h; 0 for ever.
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = time)]
        ttl: Duration,
        /// What it is for, shown by `list`.
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
    },
    /// List the tokens that there are, without their secret halves.
    List,
    /// Take tokens back. Nodes that have joined stay.
    Delete {
        /// The first half of a token, or all of it.
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

/// Why it was not done, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    NoWay(#[from] NoWay),
    #[error("the server cannot be asked: {0}")]
    Server(#[from] kube::Error),
    #[error("the machine has no randomness to give; try again")]
    NoRandomness,
    #[error("there is no token {0:?}; `pintle token list` shows those that there are")]
    NoToken(String),
    #[error(
        "the cluster does not tell how it is reached ({0}); look at the ConfigMap cluster-info in kube-public, which `pintle up` writes at every start"
    )]
    NoInfo(String),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let said = runtime.block_on(work(flags))?;
    say::text(&said);
    Ok(())
}

async fn work(flags: Flags) -> Result<String, Failure> {
    let client = Client::try_from(flags.cluster.config().await?)?;
    match flags.what {
        What::Create { ttl, description } => create(&client, ttl, &description).await,
        What::List => list(&client).await,
        What::Delete { ids } => delete(&client, &ids).await,
    }
}

async fn create(client: &Client, ttl: Duration, description: &str) -> Result<String, Failure> {
    // Before anything is written: a token without a way in is of no use.
    let (server, hash) = way_in(client).await?;
    let token = bootstrap::generate().ok_or(Failure::NoRandomness)?;
    let secret = secret(&token, ttl, description, &Clock::system());
    secrets(client).create(&PostParams::default(), &secret).await?;
    if is_loopback(&server) {
        complain!(
            "pintle: the server listens on loopback alone, where no other machine reaches it; start it with --listen 0.0.0.0:6443"
        );
    }
    Ok(format!("{token}\n\n  pintle node join {server} --token {token} --ca-hash {hash}\n"))
}

fn secret(token: &str, ttl: Duration, description: &str, clock: &Clock) -> Secret {
    let (id, half) = bootstrap::halves(token).unwrap_or_default();
    let mut data: BTreeMap<String, String> = [
        ("token-id", id),
        ("token-secret", half),
        ("usage-bootstrap-authentication", "true"),
        ("usage-bootstrap-signing", "true"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if !ttl.is_zero()
        && let Ok(ends) = clock.now().checked_add(ttl)
    {
        data.insert("expiration".to_owned(), rfc3339(ends));
    }
    if !description.is_empty() {
        data.insert("description".to_owned(), description.to_owned());
    }
    Secret {
        metadata: ObjectMeta { name: Some(format!("bootstrap-token-{id}")), ..ObjectMeta::default() },
        type_: Some(TYPE.to_owned()),
        string_data: Some(data),
        ..Secret::default()
    }
}

/// Where the cluster is reached, and the hash of its authority's key.
async fn way_in(client: &Client) -> Result<(String, String), Failure> {
    let info = Api::<ConfigMap>::namespaced(client.clone(), "kube-public").get_opt("cluster-info").await?;
    let text = info.and_then(|info| info.data?.remove("kubeconfig"));
    let (server, ca_pem) = read_info(text.as_deref().unwrap_or_default()).map_err(Failure::NoInfo)?;
    let hash = public_key_hash(&ca_pem).map_err(|error| Failure::NoInfo(error.to_string()))?;
    Ok((server, hash))
}

/// The server's address and its authority's certificate as PEM, from what a cluster publishes.
pub(crate) fn read_info(text: &str) -> Result<(String, String), String> {
    let config = Kubeconfig::from_yaml(text).map_err(|error| error.to_string())?;
    let cluster = config.clusters.into_iter().find_map(|named| named.cluster).ok_or("it names no cluster")?;
    let server = cluster.server.ok_or("it names no server")?;
    let encoded = cluster.certificate_authority_data.ok_or("it has no certificate")?;
    let ca = BASE64_STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    Ok((server, String::from_utf8(ca).map_err(|error| error.to_string())?))
}

async fn list(client: &Client) -> Result<String, Failure> {
    let found = secrets(client).list(&ListParams::default().fields(&format!("type={TYPE}"))).await?;
    let mut lines = vec![format!("{:<8}{:<22}DESCRIPTION", "ID", "HOLDS UNTIL")];
    for secret in found.items {
        let data = secret.data.unwrap_or_default();
        let field = |key: &str| data.get(key).map(|value| String::from_utf8_lossy(&value.0).into_owned());
        let until = field("expiration").unwrap_or_else(|| "for ever".to_owned());
        let line = format!(
            "{:<8}{until:<22}{}",
            field("token-id").unwrap_or_default(),
            field("description").unwrap_or_default()
        );
        lines.push(line.trim_end().to_owned());
    }
    Ok(lines.join("\n") + "\n")
}

async fn delete(client: &Client, ids: &[String]) -> Result<String, Failure> {
    let mut said = String::new();
    for given in ids {
        let id = given.split_once('.').map_or(given.as_str(), |(id, _)| id);
        match secrets(client).delete(&format!("bootstrap-token-{id}"), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(Failure::NoToken(id.to_owned())),
            other => other?,
        };
        said.push_str(&format!("token {id} is gone\n"));
    }
    Ok(said)
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "kube-system")
}

fn is_loopback(server: &str) -> bool {
    ["https://127.", "https://localhost", "https://[::1]"].iter().any(|start| server.starts_with(start))
}

fn time(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    duration(text).ok_or_else(|| format!("{text:?} is not a time such as 30m or 24h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_as_the_server_reads_it() {
        let clock = Clock::system();
        let token = bootstrap::generate().unwrap();
        let data = |ttl| secret(&token, Duration::from_secs(ttl), "", &clock).string_data.unwrap();
        assert_eq!(format!("{}.{}", data(0)["token-id"], data(0)["token-secret"]), token);
        assert!(!data(0).contains_key("expiration"));
        assert!(data(60)["expiration"].parse::<jiff::Timestamp>().unwrap() > clock.now());
    }

    #[test]
    fn what_is_published_without_a_certificate_is_no_way_in() {
        assert!(read_info("").is_err());
        assert!(read_info("{\"clusters\": [{\"name\": \"\", \"cluster\": {\"server\": \"https://a\"}}]}").is_err());
        let whole = "{\"clusters\": [{\"name\": \"\", \"cluster\": {\"server\": \"https://a\", \"certificate-authority-data\": \"eA==\"}}]}";
        assert_eq!(read_info(whole), Ok(("https://a".to_owned(), "x".to_owned())));
    }
}
