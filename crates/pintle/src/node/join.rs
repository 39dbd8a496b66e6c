//! `pintle node join`: from a token to a node that runs Pods, and on from there.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::config::AuthInfo;
use kube::{Client, Config};
use pintle_apiserver::pki::{self, Changing, Identity, PkiError, public_key_hash, write_private};
use pintle_container::{Runtime, Simulated};
use pintle_kubelet::pressure::duration;
use pintle_kubelet::serve::listener::NodeServer;
use pintle_kubelet::{Fleet, Kubelet, NodeConfig};
use pintle_meta::{Clock, Random};
use pintle_network::NodeNetwork;
use pintle_runtime::{Context, Shutdown, Trigger};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::identity::{Certificate, CertificateError, Purpose};
use super::line::{Line, showing};
use crate::data_dir;
use crate::machine::{self, INSTALL, Machine, MachineError, MachineFlags, Place};
use crate::reach::PORT;
use crate::say::say;
use crate::signals::Signals;
use crate::token::read_info;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Where the cluster's API server is.
    #[arg(value_name = "HOST[:PORT]")]
    server: String,
    /// What `pintle token create` printed; needed until the node has a certificate of its own.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// The hash of the cluster's authority, from the same place; needed until its certificate is known.
    #[arg(long, value_name = "sha256:HASH", value_parser = hash)]
    ca_hash: Option<String>,
    /// The same as --node-name.
    #[arg(long, value_name = "NAME", value_parser = machine::node_name, conflicts_with = "node_name")]
    name: Option<String>,
    /// The address at which the cluster reaches this machine [default: the one from which it would speak to the server].
    #[arg(long, value_name = "ADDR")]
    address: Option<IpAddr>,
    /// Where the node keeps what it needs [default: $XDG_DATA_HOME/pintle-node or ~/.local/share/pintle-node].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// For how long certificates are asked for, 10m at least [default: as long as the server gives]. They are renewed before they end.
    #[arg(long, value_name = "TIME", value_parser = life)]
    certificate_lifetime: Option<Duration>,
    /// Run Pods by the script in their annotations, without containers.
    #[arg(long, conflicts_with = "container_runtime_endpoint")]
    simulated: bool,
    #[command(flatten)]
    machine: MachineFlags,
}

/// Why the machine is no node, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no data directory: set --data-dir, or HOME")]
    NoDirectory,
    #[error("cannot write to {}: {source}; choose another place with --data-dir or mend its permissions", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("{} is in use: another node runs there; stop it or choose another with --data-dir", .0.display())]
    Locked(PathBuf),
    #[error("{0:?} is no address of a server; write HOST or HOST:PORT")]
    Server(String),
    #[error("--ca-hash is required on the first join: give it as `pintle token create` printed it")]
    NoHash,
    #[error(
        "the server at {server} shows another authority: its hash is {found}, not {wanted}. Either the hash is wrong or this is not your cluster; nothing was sent to it"
    )]
    Stranger { server: String, wanted: String, found: String },
    #[error("the server does not tell which authority to trust: {0}")]
    NoInfo(String),
    #[error("this machine has no certificate yet: give --token, which `pintle token create` makes")]
    NoToken,
    #[error(
        "the server does not take the token: it may be mistyped, expired or taken back; make another with `pintle token create`"
    )]
    BadToken,
    #[error("the server cannot be reached: {}; is this its address, and does it listen there (`pintle up --listen 0.0.0.0:6443`)?", deepest(.0))]
    Unreachable(kube::Error),
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    #[error("{0}")]
    Pki(#[from] PkiError),
    #[error("{0}")]
    Machine(#[from] MachineError),
    #[error("this machine cannot run containers: as root, {INSTALL}; or join with --simulated")]
    NoRuntime,
    #[error(
        "{at} is not free, and there the cluster asks its nodes: {source}; stop what listens there or give another --address"
    )]
    Port { at: SocketAddr, source: io::Error },
    #[error("cannot start: {0}")]
    Runtime(io::Error),
}

/// Why a request failed, without the layers that pass it on.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl Failure {
    /// 2: what was asked cannot be done here; 3: somebody else has it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Locked(_) | Failure::Port { .. } => 3,
            _ => 2,
        }
    }
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    let result = runtime.block_on(join(flags));
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

async fn join(flags: Flags) -> Result<(), Failure> {
    let server = server(&flags.server)?;
    flags.machine.check()?;
    let mut signals = Signals::new().map_err(Failure::Runtime)?;
    let mut node = Running::default();
    let outcome = tokio::select! {
        biased;
        () = signals.told_to_stop() => Ok(()),
        failed = run_node(&flags, &server, &mut node) => failed,
    };
    // Also what had only begun to start ends here.
    node.stop().await;
    outcome
}

/// What runs of a node, from the first that starts to the last: whatever happens, all of it is stopped.
#[derive(Default)]
struct Running {
    lock: Option<File>,
    machine: Option<Machine>,
    agent: Option<(Trigger, Fleet)>,
    network: Option<NodeNetwork>,
}

impl Running {
    async fn stop(self) {
        let aloud = self.agent.is_some();
        if aloud {
            say!("stopping");
        }
        if let Some((stop, fleet)) = self.agent {
            stop.fire();
            fleet.stop().await;
        }
        machine::stop(self.network, self.machine).await;
        drop(self.lock);
        if aloud {
            say!("stopped");
        }
    }
}

/// Starts the node, and renews its certificates for as long as it runs. What has started is in `node` at every moment.
async fn run_node(flags: &Flags, server: &http::Uri, node: &mut Running) -> Result<(), Failure> {
    let started = Instant::now();
    let (clock, random) = (Clock::system(), Random::system());
    let directory = directory(flags)?;
    node.lock = Some(lock(&directory)?);
    let ca_pem = authority(flags, &directory, server).await?;
    say!("cluster    {server} ({})", public_key_hash(&ca_pem)?);

    let name = flags.name.clone().or_else(|| flags.machine.node_name()).unwrap_or_else(machine::name);
    let certificate = |purpose| Certificate {
        node: name.clone(),
        purpose,
        directory: directory.join("pki"),
        life: flags.certificate_lifetime,
    };
    let known = certificate(Purpose::Client);
    let config = trusting(server, &ca_pem)?;
    let identity = match known.kept(clock.now()) {
        Some(identity) => identity,
        None => first(flags, &config, &known).await?,
    };
    let (_, ends) = pki::validity(&identity.certificate_pem)?;
    say!("identity   system:node:{name}, until {}", pintle_meta::clock::rfc3339(ends));

    let found = find(flags, server, &directory, &name, &clock).await?;
    node.machine = found.machine;
    let at = SocketAddr::new(found.config.address, PORT);
    let listener = TcpListener::bind(at).await.map_err(|source| Failure::Port { at, source })?;
    let line = Line::new(showing(config, &identity)).map_err(Failure::Unreachable)?;
    let (stop, shutdown) = Shutdown::new();
    let context = Context::new(line.client(), clock.clone(), random.clone(), shutdown.clone());
    say!("node       {name} at {at} ({})", found.runtime.version());
    let fleet = Kubelet::start(&context, found.config.clone(), found.runtime.clone());
    let (_, fleet) = node.agent.insert((stop, fleet));
    let served = certificate(Purpose::Serving(vec![found.config.address]));
    let shown = Arc::new(Changing::default());
    let kept = served.kept(clock.now());
    if let Some(identity) = &kept {
        shown.set(identity)?;
    }
    let tls = shown.node_tls(&ca_pem)?;
    let client = context.client.clone();
    let served_by = NodeServer { serving: fleet.serving(), node: name.clone(), tls, client, only_own: false };
    tokio::spawn(served_by.serve(listener, shutdown.clone()));
    let chance = (&clock, &random);
    let renewing = async {
        tokio::join!(
            known.renew(&context.client, Some(identity), chance, |identity| {
                if let Err(error) = line.show(identity) {
                    tracing::warn!(%error, "the new certificate cannot be used");
                }
            }),
            served.renew(&context.client, kept, chance, |identity| {
                if let Err(error) = shown.set(identity) {
                    tracing::warn!(%error, "the new certificate cannot be used");
                }
            }),
        );
    };
    say!("joined     in {} ms; Ctrl-C stops it, containers run on", started.elapsed().as_millis());
    let (machine, network) = (&mut node.machine, &mut node.network);
    tokio::join!(renewing, async {
        if let Some(machine) = machine {
            machine.network.here.node.clone_from(&name);
            *network = carry(&context, machine).await;
        }
    });
    Ok(())
}

/// Starts what carries packets, once the cluster has given Pods of this machine their addresses.
async fn carry(context: &Context, machine: &mut Machine) -> Option<NodeNetwork> {
    if machine.network.own.is_some() {
        let node = machine.network.here.node.clone();
        let ranges = pintle_network::own_node::wait(context, &node).await?;
        machine.lay(&ranges).await;
    }
    machine::carry(context, machine).await
}

/// What runs the Pods of this node.
struct Found {
    config: NodeConfig,
    runtime: Arc<dyn Runtime>,
    machine: Option<Machine>,
}

async fn find(
    flags: &Flags,
    server: &http::Uri,
    directory: &Path,
    name: &str,
    clock: &Clock,
) -> Result<Found, Failure> {
    let towards = || machine::address_towards((server.host()?, server.port_u16()?));
    let address = flags.address.or_else(towards).unwrap_or_else(machine::address);
    if flags.simulated {
        let config = flags.machine.registered(NodeConfig { address, ..NodeConfig::simulated(name, 0) });
        let runtime = Simulated::new(clock.clone()).node(name, 0);
        return Ok(Found { config, runtime, machine: None });
    }
    let machine = Machine::find(&flags.machine, None, Place::Kept(directory)).await?.ok_or(Failure::NoRuntime)?;
    let config = NodeConfig { name: name.to_owned(), address, ..machine.config.clone() };
    Ok(Found { config, runtime: machine.runtime.clone(), machine: Some(machine) })
}

/// The first certificate, for which a token speaks.
async fn first(flags: &Flags, config: &Config, certificate: &Certificate) -> Result<Identity, Failure> {
    let token = flags.token.clone().ok_or(Failure::NoToken)?;
    let mut config = config.clone();
    config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
    let client = Client::try_from(config).map_err(Failure::Unreachable)?;
    certificate.request(&client).await.map_err(|error| match error {
        CertificateError::Server(kube::Error::Api(status)) if status.code == 401 => Failure::BadToken,
        CertificateError::Server(error @ (kube::Error::Service(_) | kube::Error::HyperError(_))) => {
            Failure::Unreachable(error)
        }
        other => other.into(),
    })
}

/// The certificate of the cluster's authority: the one that is kept, or the one that the server publishes if it has the hash.
async fn authority(flags: &Flags, directory: &Path, server: &http::Uri) -> Result<String, Failure> {
    let file = directory.join("pki/ca.crt");
    let matches = |pem: &str, wanted: &str| -> Result<(), Failure> {
        let found = public_key_hash(pem)?;
        let (server, wanted) = (server.to_string(), wanted.to_owned());
        if found == wanted { Ok(()) } else { Err(Failure::Stranger { server, wanted, found }) }
    };
    let kept = std::fs::read_to_string(&file).ok();
    match (kept, &flags.ca_hash) {
        (Some(pem), None) => Ok(pem),
        (Some(pem), Some(wanted)) => matches(&pem, wanted).map(|()| pem),
        (None, None) => Err(Failure::NoHash),
        (None, Some(wanted)) => {
            let pem = published(server).await?;
            matches(&pem, wanted)?;
            write_private(&file, &pem)?;
            Ok(pem)
        }
    }
}

/// What the server says of itself. Nobody vouches for the connection; the hash does for what came over it.
async fn published(server: &http::Uri) -> Result<String, Failure> {
    let mut config = Config::new(server.clone());
    config.accept_invalid_certs = true;
    let client = Client::try_from(config).map_err(Failure::Unreachable)?;
    let public: Api<ConfigMap> = Api::namespaced(client, "kube-public");
    let info = public.get("cluster-info").await.map_err(|error| match error {
        kube::Error::Api(status) => Failure::NoInfo(status.message.clone()),
        other => Failure::Unreachable(other),
    })?;
    let text = info.data.and_then(|mut data| data.remove("kubeconfig")).unwrap_or_default();
    read_info(&text).map(|(_, pem)| pem).map_err(Failure::NoInfo)
}

/// The way to the server for one who trusts this authority and nobody else.
fn trusting(server: &http::Uri, ca_pem: &str) -> Result<Config, PkiError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).map_err(|error| PkiError::Setup(error.to_string()))?;
    let mut config = Config::new(server.clone());
    config.root_cert = Some(vec![ca.to_vec()]);
    Ok(config)
}

fn server(given: &str) -> Result<http::Uri, Failure> {
    let bad = || Failure::Server(given.to_owned());
    let place = given.strip_prefix("https://").unwrap_or(given).trim_end_matches('/');
    let authority: http::uri::Authority = place.parse().map_err(|_| bad())?;
    let place = if authority.port().is_some() { place.to_owned() } else { format!("{place}:6443") };
    http::Uri::builder().scheme("https").authority(place).path_and_query("/").build().map_err(|_| bad())
}

fn directory(flags: &Flags) -> Result<PathBuf, Failure> {
    let path = data_dir::resolve_node(flags.data_dir.as_ref()).ok_or(Failure::NoDirectory)?;
    std::fs::create_dir_all(path.join("pki")).map_err(|source| Failure::Directory { path: path.clone(), source })?;
    std::path::absolute(&path).map_err(|source| Failure::Directory { path, source })
}

/// Held until it is dropped: one node a directory.
fn lock(directory: &Path) -> Result<File, Failure> {
    let path = directory.join("lock");
    let file = File::create(&path).map_err(|source| Failure::Directory { path, source })?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Failure::Locked(directory.to_owned()))?;
    Ok(file)
}

fn hash(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    let is_hash = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned()).ok_or_else(|| "give it as `pintle token create` printed it: sha256:…".to_owned())
}

fn life(text: &str) -> Result<Duration, String> {
    let asked = duration(text).ok_or_else(|| format!("{text:?} is not a time such as 24h"))?;
    if asked < Duration::from_secs(600) { Err("no server signs for less than 10m".to_owned()) } else { Ok(asked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_as_people_write_it() {
        let is = |given: &str| server(given).map(|uri| uri.to_string()).ok();
        for given in ["10.0.0.1", "10.0.0.1:6443", "https://10.0.0.1:6443", "https://10.0.0.1:6443/"] {
            assert_eq!(is(given).as_deref(), Some("https://10.0.0.1:6443/"), "{given}");
        }
        assert_eq!(is("[fd00::1]").as_deref(), Some("https://[fd00::1]:6443/"));
        assert_eq!(is("a b"), None);
        assert_eq!(is(""), None);
    }
}
