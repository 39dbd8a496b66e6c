//! `pintle up`: the whole cluster in one process, from a data directory to a kubeconfig.

use crate::control;
use crate::data_dir;
use crate::kubeconfig::{Unwritten, WriteFlags, Written};
use crate::loops::{Choice, NODES};
use crate::machine::{self, MachineError, MachineFlags, Nodes, Place, RangeFlags};
use crate::plane::{Chosen, Plane};
use crate::say::{complain, say};
use crate::scheduling;
use crate::scratch::Scratch;
use crate::settings::{ServerFlags, SettingsError};
use crate::signals::Signals;
use crate::store::{StoreError, StoreFlags};
use pintle_apiserver::kept::servers;
use pintle_apiserver::pki::{FrontProxy, Pki, PkiError};
use pintle_apiserver::{ApiServer, Pace, Parts, StartError, bootstrap, listener};
use pintle_controllers::Concurrency;
use pintle_meta::{Clock, Random, Status};
use pintle_store::Store;
use pintle_store::file::OpenError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

#[derive(clap::Args, Clone)]
pub(crate) struct Flags {
    /// Where the cluster is kept [default: $XDG_DATA_HOME/pintle or ~/.local/share/pintle].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the API server listens.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    kubeconfig: WriteFlags,
    /// More names and addresses under which the API server is reached, for its certificate.
    #[arg(long, value_name = "NAME|ADDR", value_parser = subject)]
    pub(crate) tls_san: Vec<String>,
    /// How many simulated nodes the cluster has, in place of this machine [default: this machine; one simulated node if it
    /// cannot run containers].
    #[arg(long, value_name = "N", conflicts_with = "container_runtime_endpoint")]
    pub(crate) nodes: Option<u16>,
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
    #[command(flatten)]
    pub(crate) ranges: RangeFlags,
    /// Keep nothing: the cluster lives in memory and is gone when it stops.
    #[arg(long, conflicts_with = "store")]
    ephemeral: bool,
    /// Which loops run: * for all, NAME for this one, -NAME for all but this one, none for the API server alone. The names are
    /// those of the loops (deployment, replicaset, garbage, …), scheduler, and nodes for the node agents of this process.
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true, value_parser = Choice::parse)]
    pub(crate) loops: Choice,
    /// How many keys loops work on at once, such as deployment=5,job=10 [default: as many as kube-controller-manager].
    #[arg(long, value_name = "LOOP=N,…", value_parser = |list: &str| Concurrency::parse(list))]
    pub(crate) concurrency: Option<Concurrency>,
    /// How the scheduler is set up: a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) with its names and extenders.
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// Serve /control too, with which tests of operators in any language move time, wait until everything rests,
    /// inject faults, compare and fork (docs/control.md). The cluster's time is virtual.
    #[arg(long, requires = "ephemeral")]
    control: bool,
    /// Where the cluster's keys and certificates are [default: DIR/pki].
    #[arg(long, value_name = "DIR")]
    pub(crate) pki: Option<PathBuf>,
    /// How many requests are worked on at once; others wait their turn (API priority and fairness). 16 for each processor,
    /// at least 32 and at most 600, if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_requests_inflight: Option<u32>,
    #[command(flatten)]
    settings: ServerFlags,
    #[command(flatten)]
    store: StoreFlags,
}

impl Flags {
    /// Refuses what cannot be meant, before anything is started or written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.store.check()?;
        self.ranges.check().map_err(Failure::Ranges)?;
        self.kubeconfig.check(!self.ephemeral || self.pki.is_some())?;
        scheduling::read(self.scheduler_config.as_deref())?;
        if self.control && self.concurrency.is_some() {
            return Err(Failure::ControlledConcurrency);
        }
        if self.control && self.settings.is_given() {
            return Err(Failure::ControlledSettings);
        }
        Ok(self.machine.check()?)
    }
}

/// A name or an address that a certificate can speak for.
fn subject(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_name = text.len() <= 253 && name.split('.').all(is_label);
    if is_name || text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("give a DNS name or an address".to_owned())
}

/// Why the cluster cannot run, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no data directory: set --data-dir, or HOME")]
    NoDirectory,
    #[error("cannot write to {}: {source}; choose another place with --data-dir or mend its permissions", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "cannot make a directory for what is kept until the end: {0}; set TMPDIR to a place that can be written to"
    )]
    Scratch(io::Error),
    #[error("{0}")]
    Ranges(String),
    #[error("{0}")]
    Settings(#[from] SettingsError),
    #[error(
        "flags about authentication, authorization, admission, feature gates and --runtime-config have no effect with --control: leave them out"
    )]
    ControlledSettings,
    #[error("--concurrency has no effect with --control: leave it out")]
    ControlledConcurrency,
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Pki(#[from] PkiError),
    #[error("{0}")]
    Kubeconfig(#[from] Unwritten),
    #[error("port in use: something else listens on {0}; stop it or choose another with --listen ADDR:PORT")]
    PortInUse(SocketAddr),
    #[error("cannot listen on {address}: {source}; choose another with --listen ADDR:PORT")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("{0}")]
    Start(#[from] StartError),
    #[error("{0}")]
    Scheduling(#[from] scheduling::WrongSetup),
    #[error("how the cluster is reached cannot be published: {}", .0.message)]
    Publish(Status),
    #[error("{0}")]
    Machine(#[from] MachineError),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error(
        "the store stopped: {0}; nothing that was acknowledged is lost. Make room or mend the disk, then start again"
    )]
    StoreStopped(String),
}

impl Failure {
    /// 2: what was asked cannot be done here; 3: somebody else has it; 4: it broke while running.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::PortInUse(_) | Failure::Store(StoreError::Open(OpenError::Locked { .. })) => 3,
            Failure::StoreStopped(_) => 4,
            _ => 2,
        }
    }
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    raise_file_limit();
    let runtime = match flags.control {
        false => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
        true => pintle_testkit::control::runtime(),
    };
    let runtime = runtime.map_err(Failure::Runtime)?;
    let result = match flags.control {
        false => runtime.block_on(up(flags)),
        true => runtime.block_on(control::up(flags)),
    };
    // Loops that wait for a timer need no farewell.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

/// Connections, watches and containers need open files: as many as the machine allows, not as a shell begins with.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

async fn up(flags: Flags) -> Result<(), Failure> {
    flags.check()?;
    let mut signals = Signals::new().map_err(Failure::Runtime)?;
    let mut cluster = Running::default();
    let outcome = tokio::select! {
        biased;
        () = signals.told_to_stop() => Ok(()),
        begun = begin(&flags, &mut cluster) => match (begun, cluster.store.clone()) {
            (Ok(()), Some(store)) => until_stopped(&store, &mut signals).await,
            (begun, _) => begun,
        },
    };
    // Also what had only begun to start ends here.
    cluster.stop().await;
    outcome
}

/// What runs of a cluster, from the first that starts to the last: whatever happens, all of it is stopped.
#[derive(Default)]
struct Running {
    // Gone last, so it stands first to be made and is taken last in `stop`.
    scratch: Option<Scratch>,
    store: Option<Arc<dyn Store>>,
    server: Option<ApiServer>,
    tasks: Vec<JoinHandle<()>>,
    plane: Option<Plane>,
}

impl Running {
    async fn stop(self) {
        let aloud = self.plane.is_some();
        if aloud {
            say!("stopping");
        }
        if let Some(plane) = self.plane {
            plane.stop().await;
        }
        if let Some(server) = self.server {
            server.stop();
        }
        for task in self.tasks {
            // One that panicked has ended too.
            let _ = task.await;
        }
        if let Some(store) = self.store {
            store.close().await;
        }
        drop(self.scratch);
        if aloud {
            say!("stopped");
        }
    }
}

/// Starts everything; what has started is in `cluster` at every moment, or ends when it is dropped.
async fn begin(flags: &Flags, cluster: &mut Running) -> Result<(), Failure> {
    let started = Instant::now();
    // Before anything is written: the authority of clients may not be there yet, and is filled in below.
    let mut setup = flags.settings.load("")?;
    let (clock, random) = (Clock::system(), Random::system());
    let directory = directory(flags)?;
    if directory.is_none() {
        cluster.scratch = Some(Scratch::new().map_err(Failure::Scratch)?);
    }
    let scratch = cluster.scratch.as_ref().map(Scratch::path);
    // A store in files takes a lock first: who has it owns everything below the directory.
    let store = flags.store.open(directory.as_deref()).await?;
    cluster.store = Some(store.clone());
    let (pki, front_proxy) = match flags.pki.clone().or_else(|| Some(directory.as_ref()?.join("pki"))) {
        Some(place) => (Pki::open(&place, clock.now())?, FrontProxy::open(&place, clock.now())?),
        None => (Pki::generate(clock.now())?, FrontProxy::generate(clock.now())?),
    };
    let place = match (flags.store.etcd(), &directory) {
        (Some(url), _) => url.to_owned(),
        (None, Some(directory)) => directory.display().to_string(),
        (None, None) => "memory, nothing is kept".to_owned(),
    };
    say!("store      {place} (revision {})", store.revision());

    let tcp = listen(flags.listen).await?;
    let address = tcp.local_addr().map_err(Failure::Runtime)?;
    let proxies = setup.access.authentication.front_proxy.as_mut().map(|proxy| {
        proxy.client_ca_pem.clone_from(&pki.ca_pem);
        proxy.options.ca_pem.clone()
    });
    let parts = Parts {
        store: store.clone(),
        clock: clock.clone(),
        random: random.clone(),
        token_key: pki.token_key.clone(),
        pace: Pace::default(),
        seats: flags.max_requests_inflight.unwrap_or_else(pintle_apiserver::default_seats),
    };
    let server = ApiServer::start_with(parts, setup).await?;
    cluster.server = Some(server.clone());
    server.set_address(address.to_string());
    let (own, others) = (addresses(address.ip()), proxies.unwrap_or_default());
    let tls = pki.server_tls_for(&own, &flags.tls_san, &others, clock.now())?;
    server.front_proxy.set(front_proxy.client(clock.now())?);
    bootstrap::publish(&server, &format!("https://{}", advertised(address)), &pki.ca_pem, &front_proxy.ca_pem)
        .await
        .map_err(Failure::Publish)?;
    let url = format!("https://{}", reachable(address));
    // Written before the first answer: who finds the server ready finds the way in.
    let home = directory.as_deref().or(scratch).unwrap_or(Path::new("."));
    let config = write_kubeconfig(flags, home, &url, &pki, &clock)?;
    cluster.tasks.push(tokio::spawn(listener::serve(server.clone(), tcp, tls.clone())));
    cluster.tasks.push(tokio::spawn({
        let server = server.clone();
        async move { server.run().await }
    }));
    say!("api        {url}");
    // Others may be over the same etcd: each loop acts in one of the processes.
    let identity = flags.store.etcd().map(|_| identity(&random));
    let is_alone = identity.is_none();
    let each = if identity.is_some() { ", each when its Lease is won" } else { "" };
    let asked = if flags.loops.has(NODES) { flags.nodes } else { Some(0) };
    let place = match &directory {
        Some(directory) => Place::Kept(directory),
        None => Place::Scratch(home),
    };
    let mut nodes = Nodes::find(asked, &flags.machine, &flags.ranges.ranges(), place).await?;
    nodes.reached_at(address.ip());
    let described = nodes.described();
    let simulated = matches!(nodes, Nodes::Simulated(_)) && asked.is_none();
    let pki = Arc::new(pki);
    let scheduler = scheduling::prepare(flags.scheduler_config.as_deref()).await?;
    let plane = Plane::start(
        &server,
        &clock,
        &random,
        &pki,
        nodes,
        identity,
        &Chosen {
            loops: &flags.loops,
            pods: flags.ranges.cluster(),
            concurrency: flags.concurrency.clone().unwrap_or_default(),
            scheduler: &scheduler,
            volumes: Some(&home.join("volumes")),
        },
    );
    let plane = cluster.plane.insert(plane);
    plane.reach(&server, address.ip(), &pki, &clock).await?;
    plane.carry().await;
    if let Some(at) = found_by_pods(&server, address, plane.gateway(), &tls, &mut cluster.tasks).await {
        cluster.tasks.push(tokio::spawn(servers::run(server.clone(), at, is_alone)));
    }
    say!("loops      {} running{each}, {described}", plane.loops());
    if simulated {
        say!("           for real containers, run it as root after: {}", machine::INSTALL);
    }

    say!("kubeconfig {}", config.display());
    say!("ready      in {} ms; Ctrl-C stops it", started.elapsed().as_millis());
    say!();
    say!("  export KUBECONFIG={}", config.display());
    say!("  kubectl get nodes");
    Ok(())
}

/// Where Pods find the API server. One that listens on loopback alone listens for Pods too, at an address that only this
/// machine and its Pods have.
async fn found_by_pods(
    server: &ApiServer,
    listening: SocketAddr,
    gateway: Option<IpAddr>,
    tls: &Arc<rustls::ServerConfig>,
    tasks: &mut Vec<JoinHandle<()>>,
) -> Option<SocketAddr> {
    let advertised = advertised(listening);
    if !advertised.ip().is_loopback() {
        return Some(advertised);
    }
    let at = SocketAddr::new(gateway?, listening.port());
    if !listening.ip().is_unspecified() {
        match TcpListener::bind(at).await {
            Ok(listener) => tasks.push(tokio::spawn(listener::serve(server.clone(), listener, tls.clone()))),
            Err(error) => {
                tracing::warn!(%at, %error, "Pods do not reach the API server");
                return None;
            }
        }
    }
    Some(at)
}

/// Returns on a signal. A store that takes no writes is no reason to go: reads are still served, and `/readyz`
/// says what is wrong. Files stay so until the next start; an etcd that was away comes back.
pub(crate) async fn until_stopped(store: &Arc<dyn Store>, signals: &mut Signals) -> Result<(), Failure> {
    let look = async {
        let mut well = true;
        loop {
            match store.health() {
                Err(why) if well => {
                    complain!("pintle: the store stopped: {why}; writes are refused, reads are served");
                }
                Ok(()) if !well => complain!("pintle: the store takes writes again"),
                _ => {}
            }
            well = store.health().is_ok();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = signals.told_to_stop() => {}
        () = look => {}
    }
    store.health().map_err(Failure::StoreStopped)
}

/// What tells this process from the others over the same store: the machine's name and a number.
fn identity(random: &Random) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:016x}", machine.trim(), random.next())
}

/// The data directory, made if it is new; none for an ephemeral cluster.
fn directory(flags: &Flags) -> Result<Option<PathBuf>, Failure> {
    if flags.ephemeral {
        return Ok(None);
    }
    let path = data_dir::resolve(flags.data_dir.as_ref()).ok_or(Failure::NoDirectory)?;
    std::fs::create_dir_all(&path).map_err(|source| Failure::Directory { path: path.clone(), source })?;
    std::path::absolute(&path).map(Some).map_err(|source| Failure::Directory { path, source })
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => Failure::PortInUse(address),
        _ => Failure::Listen { address, source },
    })
}

/// The addresses that the server's certificate speaks for.
pub(crate) fn addresses(listening: IpAddr) -> Vec<IpAddr> {
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(pintle_meta::network::KUBERNETES_ADDRESS)];
    let own = if listening.is_unspecified() { machine::address() } else { listening };
    if !addresses.contains(&own) {
        addresses.push(own);
    }
    addresses
}

/// Where other machines reach a server that listens everywhere.
fn advertised(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() { SocketAddr::new(machine::address(), address.port()) } else { address }
}

/// A server that listens everywhere is reached on loopback.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}

pub(crate) fn write_kubeconfig(
    flags: &Flags,
    directory: &Path,
    url: &str,
    pki: &Pki,
    clock: &Clock,
) -> Result<PathBuf, Failure> {
    let keys = flags.pki.clone().unwrap_or_else(|| directory.join("pki"));
    let keys = (!flags.ephemeral || flags.pki.is_some()).then_some(&*keys);
    Ok(flags.kubeconfig.write(&Written { directory, keys, url, pki }, clock)?)
}
