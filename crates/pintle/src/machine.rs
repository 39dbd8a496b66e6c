//! This machine as a node: what runs its containers, and what it tells of itself.
//!
//! As root it uses the runtime that it is pointed to, else a containerd of its own, if the program is installed; else the cluster
//! has simulated nodes, and a line says what to install. A runtime that somebody else has is never taken by surprise.

mod bounds;
mod check;
pub(crate) mod made;
mod network;
mod ranges;
mod registration;

use crate::say::say;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_container::cri::private::{Private, PrivateConfig};
use pintle_container::{Cri, Runtime};
use pintle_kubelet::{Collection, CredentialProviders, NodeConfig, StaticPods};
use pintle_meta::network::{SERVICE_NETWORK, SERVICE_NETWORK_BITS, is_service_address};
use pintle_network::cni::{FILE, Places};
use pintle_network::dataplane::tables_of;
use pintle_network::{Bridge, Family, Kernel, NodeNetwork, NodeNetworkConfig, PodRanges, Range};
use pintle_runtime::Context;

use bounds::{BoundsFlags, WrongThreshold};
use made::Made;
pub(crate) use ranges::RangeFlags;
use registration::RegistrationFlags;
pub(crate) use registration::name as node_name;

/// Where a containerd of the machine's own listens if nobody has moved it.
pub(crate) const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// What a machine without a runtime needs, in Debian's words.
pub(crate) const INSTALL: &str = "apt install containerd runc nftables";

#[derive(clap::Args, Clone)]
pub(crate) struct MachineFlags {
    /// The socket of the container runtime: containerd or CRI-O [default: a containerd of the cluster's own].
    #[arg(long, value_name = "unix:///PATH", value_parser = check::endpoint)]
    container_runtime_endpoint: Option<PathBuf>,
    /// A directory of files, one Pod each, that this machine runs whatever the API server says.
    #[arg(long, value_name = "DIR")]
    pod_manifest_path: Option<PathBuf>,
    /// How many seconds pass between two looks at that directory.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    file_check_frequency: u64,
    /// Which programs are asked for what registries want to be told: a CredentialProviderConfig.
    #[arg(long, value_name = "FILE", requires = "image_credential_provider_bin_dir")]
    image_credential_provider_config: Option<PathBuf>,
    /// Where these programs are.
    #[arg(long, value_name = "DIR", requires = "image_credential_provider_config")]
    image_credential_provider_bin_dir: Option<PathBuf>,
    /// Where device plugins register and have their sockets.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/device-plugins")]
    device_plugin_path: PathBuf,
    #[command(flatten)]
    collection: CollectionFlags,
    #[command(flatten)]
    bounds: BoundsFlags,
    #[command(flatten)]
    registration: RegistrationFlags,
}

impl MachineFlags {
    /// Refuses what cannot be meant, before anything is started or written.
    pub(crate) fn check(&self) -> Result<(), MachineError> {
        self.collection.check()?;
        self.credential_providers()?;
        self.bounds.apply(NodeConfig::new("checked", Ipv4Addr::LOCALHOST.into()))?;
        Ok(())
    }

    fn credential_providers(&self) -> Result<Option<CredentialProviders>, MachineError> {
        let (Some(file), Some(programs)) =
            (&self.image_credential_provider_config, &self.image_credential_provider_bin_dir)
        else {
            return Ok(None);
        };
        let wrong = |why: String| MachineError::Providers(file.clone(), why);
        let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
        let config = pintle_apiserver::parse::yaml(&text).map_err(wrong)?;
        CredentialProviders::new(&config.value, programs.clone()).map(Some).map_err(wrong)
    }

    /// What the node is called, if somebody says.
    pub(crate) fn node_name(&self) -> Option<String> {
        self.registration.node_name.clone()
    }

    /// How a node without a machine registers.
    pub(crate) fn registered(&self, config: NodeConfig) -> NodeConfig {
        self.registration.apply(config, false)
    }

    fn static_pods(&self) -> Option<StaticPods> {
        let directory = self.pod_manifest_path.clone()?;
        Some(StaticPods { directory, read: read_pod, period: Duration::from_secs(self.file_check_frequency) })
    }
}

/// A Pod from a file, as the API server would take it.
fn read_pod(text: &str) -> Result<Pod, String> {
    let pod = pintle_apiserver::manifest::pod(text)?;
    serde_json::from_value(pod).map_err(|error| error.to_string())
}

/// When the node removes images and dead containers; names and defaults are Kubernetes' own, but for the period.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "What this machine's node removes")]
struct CollectionFlags {
    /// The part of the disk, in percent, above which images are removed.
    #[arg(long, value_name = "PERCENT", default_value_t = 85, value_parser = clap::value_parser!(u8).range(0..=100))]
    image_gc_high_threshold: u8,
    /// The part of the disk down to which they are removed, the least recently used first.
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(0..=100))]
    image_gc_low_threshold: u8,
    /// How many seconds pass between two looks at the images.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    image_gc_period: u64,
    /// How many seconds an image is kept at least.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    minimum_image_ttl: u64,
    /// How many seconds a dead container is kept at least.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    minimum_container_ttl: u64,
    /// How many dead runs each container of a Pod keeps.
    #[arg(long, value_name = "N", default_value_t = 1)]
    maximum_dead_containers_per_container: usize,
    /// How many dead containers the node keeps in all [default: no bound].
    #[arg(long, value_name = "N")]
    maximum_dead_containers: Option<usize>,
}

impl CollectionFlags {
    fn check(&self) -> Result<(), MachineError> {
        match self.image_gc_low_threshold >= self.image_gc_high_threshold {
            true => Err(MachineError::Thresholds(self.image_gc_low_threshold, self.image_gc_high_threshold)),
            false => Ok(()),
        }
    }

    fn settings(&self) -> Collection {
        Collection {
            image_high_threshold: self.image_gc_high_threshold,
            image_low_threshold: self.image_gc_low_threshold,
            image_period: Duration::from_secs(self.image_gc_period),
            image_minimum_age: Duration::from_secs(self.minimum_image_ttl),
            container_minimum_age: Duration::from_secs(self.minimum_container_ttl),
            dead_per_container: self.maximum_dead_containers_per_container,
            dead_per_node: self.maximum_dead_containers,
            ..Collection::default()
        }
    }
}

/// Where a node keeps what its Pods need.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// Containers run on when we stop, and are found again there.
    Kept(&'a Path),
    /// It goes with us, and so do the containers.
    Scratch(&'a Path),
}

/// What the nodes of this process are.
pub(crate) enum Nodes {
    Simulated(u16),
    Machine(Box<Machine>),
}

pub(crate) struct Machine {
    pub(crate) config: NodeConfig,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// How packets of its Pods find Services, and Pods names.
    pub(crate) network: NodeNetworkConfig,
    /// The bridge between its Pods, once it is laid.
    pub(crate) bridge: Option<Bridge>,
    // In this order they go when it is dropped.
    private: Option<Private>,
    /// Nothing is kept, so nothing is left behind: neither containers nor the bridge between them.
    ephemeral: Option<Cable>,
}

/// The network of Pods, which outlives the runtime that made it.
struct Cable(String);

impl Drop for Cable {
    fn drop(&mut self) {
        let quietly = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            // What was never made is as good as gone.
            let _ = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        quietly("ip", &["link", "delete", &self.0]);
        for table in tables_of(&self.0) {
            for family in Family::ALL {
                quietly("nft", &["delete", "table", family.word(), &table]);
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    #[error("--image-gc-low-threshold {0} must be below --image-gc-high-threshold {1}")]
    Thresholds(u8, u8),
    #[error("no container runtime behind {0}: {1}")]
    Runtime(String, pintle_container::Error),
    #[error("{0}; `--nodes 1` starts with a simulated node instead")]
    Private(pintle_container::Error),
    #[error("--image-credential-provider-config {0}: {1}")]
    Providers(PathBuf, String),
    #[error("{0}")]
    Eviction(#[from] WrongThreshold),
    #[error("cannot write to {0}: {1}; choose another place with --data-dir or mend its permissions")]
    Directory(PathBuf, std::io::Error),
}

impl Nodes {
    /// As many simulated nodes as are asked for; else this machine, or one simulated node if it cannot run containers.
    pub(crate) async fn find(
        asked: Option<u16>,
        flags: &MachineFlags,
        ranges: &PodRanges,
        place: Place<'_>,
    ) -> Result<Nodes, MachineError> {
        if let Some(count) = asked {
            return Ok(Nodes::Simulated(count));
        }
        let machine = Machine::find(flags, Some(ranges), place).await?;
        Ok(machine.map_or(Nodes::Simulated(1), |machine| Nodes::Machine(Box::new(machine))))
    }

    /// A server that others reach at one address has its node there too, whatever way the machine has to the world.
    pub(crate) fn reached_at(&mut self, listening: IpAddr) {
        if let Nodes::Machine(machine) = self
            && !listening.is_unspecified()
            && !listening.is_loopback()
        {
            machine.config.address = listening;
        }
    }

    /// For the line that says what runs.
    pub(crate) fn described(&self) -> String {
        match self {
            Nodes::Simulated(0) => "no nodes".to_owned(),
            Nodes::Simulated(1) => "1 simulated node".to_owned(),
            Nodes::Simulated(count) => format!("{count} simulated nodes"),
            Nodes::Machine(machine) => format!("node {} ({})", machine.config.name, machine.runtime.version()),
        }
    }
}

impl Machine {
    /// Finds out what this machine can run; nothing if it cannot. What was started ends with an error, and if nobody waits for
    /// the rest. Without ranges its Pods have no network yet.
    pub(crate) async fn find(
        flags: &MachineFlags,
        ranges: Option<&PodRanges>,
        place: Place<'_>,
    ) -> Result<Option<Machine>, MachineError> {
        let is_root = rustix::process::geteuid().is_root();
        let asked = flags.container_runtime_endpoint.as_deref();
        if asked.is_none() && (!is_root || !Private::is_possible()) {
            return Ok(None);
        }
        let (Place::Kept(directory) | Place::Scratch(directory)) = place;
        let directory = directory.join("node");
        let name = bridge(&directory);
        let ephemeral = matches!(place, Place::Scratch(_)).then(|| Cable(name.clone()));
        std::fs::create_dir_all(&directory).map_err(|error| MachineError::Directory(directory.clone(), error))?;
        let containerd = directory.join("containerd");
        let own = PrivateConfig { plugins: containerd.join("bin"), directory: containerd };
        let foreign = match asked {
            Some(socket) => {
                let failed = |error| MachineError::Runtime(socket.display().to_string(), error);
                Some(Cri::connect(socket).await.map_err(failed)?.owned_by(&name))
            }
            None => None,
        };
        let places = match &foreign {
            Some(cri) => cri.without_network(FILE).await.map(|free| (free.configuration, free.plugins)),
            None => Some((own.networks(), own.plugins.clone())),
        };
        let places = places.map(|(configuration, plugins)| Places { configuration, plugins });
        // Two clusters may share a runtime; its Pods have one network.
        let places = places.filter(|places| !places.is_of_other(&name));
        let plugins = &flags.device_plugin_path;
        let config = NodeConfig {
            collection: flags.collection.settings(),
            static_pods: flags.static_pods(),
            credential_providers: flags.credential_providers()?,
            device_plugins: Some(std::path::absolute(plugins).unwrap_or_else(|_| plugins.clone())),
            ..told_of_itself(&directory)
        };
        let config = flags.registration.apply(config, matches!(place, Place::Kept(_)));
        let mut config = flags.bounds.apply(config)?;
        made::write(&directory, &Made::new(asked, &name, config.logs.as_deref(), places.as_ref()))
            .map_err(|error| MachineError::Directory(directory.clone(), error))?;
        let mut network = network::config(&name, &config, places, &directory);
        config.cluster_dns = network.own.iter().map(|own| own.names).collect();
        // Before the runtime starts, so that it has a network from the beginning.
        let bridge = match ranges {
            Some(ranges) => lay(&mut network, ranges).await,
            None => None,
        };
        if let (Some(bridge), true) = (&bridge, foreign.is_some()) {
            say!("network    a bridge for Pods, {}", shown(&bridge.pods));
        }
        config.pod_cidrs = bridge.iter().flat_map(|bridge| &bridge.pods).map(ToString::to_string).collect();
        let (private, cri) = match foreign {
            Some(cri) => (None, cri),
            None => {
                let (private, cri) = Private::start(&own).await.map_err(MachineError::Private)?;
                (Some(private), cri)
            }
        };
        Ok(Some(Machine { config, runtime: Arc::new(cri), network, bridge, private, ephemeral }))
    }

    /// Gives Pods a network with these addresses, if that is ours to do.
    pub(crate) async fn lay(&mut self, ranges: &PodRanges) {
        self.bridge = lay(&mut self.network, ranges).await;
    }

    /// Nothing of it is kept.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.ephemeral.is_some()
    }

    /// Ends what was started for it. Containers of a cluster that is kept run on and are found again.
    pub(crate) async fn stop(self) {
        if self.ephemeral.is_some() {
            for sandbox in self.runtime.list_sandboxes(None).await.unwrap_or_default() {
                if let Err(error) = self.runtime.remove_sandbox(&sandbox.id).await {
                    tracing::warn!(pod = %sandbox.pod.name, %error, "its containers are left behind");
                } else if let Err(message) = pintle_kubelet::remove_group_of(&sandbox.pod.uid).await {
                    tracing::warn!(pod = %sandbox.pod.name, %message);
                }
            }
        }
        if let Some(private) = self.private {
            private.stop().await;
        }
    }
}

async fn lay(network: &mut NodeNetworkConfig, ranges: &PodRanges) -> Option<Bridge> {
    let laid = network.lay(ranges).await;
    laid.unwrap_or_else(|error| {
        tracing::warn!(%error, "Pods find neither names nor the API server: they have no network");
        None
    })
}

fn shown(ranges: &[Range]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Starts what carries packets on this machine; nothing where it would cut the machine off.
pub(crate) async fn carry(context: &Context, machine: &Machine) -> Option<NodeNetwork> {
    let address = machine.config.address;
    if is_service_address(address) {
        tracing::warn!(%address, "Services are not reached: this machine's own network overlaps with theirs, {SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}");
        return None;
    }
    let (config, bridge) = (machine.network.clone(), machine.bridge.as_ref());
    let (network, answered) = NodeNetwork::start(context, config, bridge, Arc::new(Kernel::default())).await;
    if let Err(error) = answered {
        tracing::warn!(%error, "Pods find no names");
    }
    Some(network)
}

/// Ends what carries packets, and what the machine was given to run Pods with.
pub(crate) async fn stop(network: Option<NodeNetwork>, machine: Option<Machine>) {
    let is_ephemeral = machine.as_ref().is_some_and(Machine::is_ephemeral);
    match network {
        Some(network) if is_ephemeral => network.remove().await,
        Some(network) => network.stop().await,
        None => {}
    }
    if let Some(machine) = machine {
        machine.stop().await;
    }
}

/// A name of at most 15 characters, the same for the same directory: two clusters on one machine have two bridges.
pub(crate) fn bridge(directory: &Path) -> String {
    let hash = pintle_meta::hash::stable(directory.as_os_str().as_encoded_bytes());
    format!("pintle{:08x}", hash & 0xffff_ffff)
}

/// The machine's name, as a node's name may be written.
pub(crate) fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_lowercase();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

fn told_of_itself(directory: &Path) -> NodeConfig {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let release = read("/etc/os-release");
    let pretty =
        release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux").trim_matches('"');
    let config = NodeConfig::new(name(), address());
    NodeConfig {
        capacity: capacity(directory),
        architecture: architecture().to_owned(),
        operating_system_image: pretty.to_owned(),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        machine_id: read("/etc/machine-id"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        system_uuid: read("/sys/class/dmi/id/product_uuid"),
        directory: Some(directory.to_owned()),
        ..config
    }
}

fn capacity(directory: &Path) -> BTreeMap<String, Quantity> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let memory = memory.and_then(|total| total.trim().strip_suffix(" kB")).unwrap_or("0").trim().to_owned();
    let disk = rustix::fs::statvfs(directory).map_or(0, |disk| disk.f_blocks * disk.f_frsize / 1024);
    let amounts = [
        ("cpu", processors.to_string()),
        ("memory", format!("{memory}Ki")),
        ("ephemeral-storage", format!("{disk}Ki")),
        ("pods", "110".to_owned()),
    ];
    amounts.map(|(name, amount)| (name.to_owned(), Quantity(amount))).into()
}

/// The address from which this machine would speak to the world; loopback if it has no way there.
pub(crate) fn address() -> IpAddr {
    address_towards((Ipv4Addr::new(198, 51, 100, 1), 9)).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The address from which this machine would speak to another.
pub(crate) fn address_towards(other: impl ToSocketAddrs) -> Option<IpAddr> {
    let other = other.to_socket_addrs().ok()?.next()?;
    let any: IpAddr = if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Nothing is sent: connecting only makes the kernel choose.
    socket.connect(other).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// As Go names it, and with it every label and image.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
