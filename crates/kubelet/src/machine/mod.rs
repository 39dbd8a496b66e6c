//! The machine under a node: where its Pods' volumes, logs and messages are, and what their containers are made from.
//!
//! A simulated node has none, and nothing of this is done for its Pods.

mod attachment;
mod keep;
mod runtime_class;
mod termination;

#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Client;
use pintle_container::{ContainerConfig, ContainerId, Dns, Image, PodRef, SandboxConfig};
use pintle_meta::Clock;
use pintle_runtime::{Context, Informer};

pub(crate) use attachment::Attachment;

use crate::cgroups::{Cgroups, Group};
use crate::config::NodeConfig;
use crate::credentials::providers::Providers;
use crate::devices::Devices;
use crate::logs::links;
use crate::make::dns::{Cluster, Warning};
use crate::make::env::EnvFiles;
use crate::make::{Facts, container, dns, env, sandbox, services};
use crate::plan::World;
use crate::pressure::{MachineSenses, Senses};
use crate::volumes::{self, MountFailure, Mounted, Sources, Volumes};

/// How long a container waits for the Services to be known, right after the node agent has started.
const SERVICES: Duration = Duration::from_secs(5);

/// Where names are looked up, and where a local resolver keeps the servers behind it.
const RESOLVER: &str = "/etc/resolv.conf";
const RESOLVER_BEHIND: &str = "/run/systemd/resolve/resolv.conf";

pub(crate) struct Machine {
    directory: PathBuf,
    logs: PathBuf,
    address: IpAddr,
    cluster_dns: Vec<IpAddr>,
    cluster_domain: String,
    allocatable: BTreeMap<String, Quantity>,
    volumes: Volumes,
    devices: Option<Arc<Devices>>,
    services: Informer<Service>,
    /// Programs that know what registries want to be told.
    pub(crate) providers: Option<Providers>,
    client: Client,
    clock: Clock,
    cgroups: Arc<Cgroups>,
    /// If some is reserved for others.
    memory_for_pods: Option<u64>,
}

impl Machine {
    /// Where the logs of containers are.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// What can be felt of the machine.
    pub(crate) fn senses(&self) -> Arc<dyn Senses> {
        let (directory, logs) = (self.directory.clone(), self.logs.clone());
        Arc::new(MachineSenses { directory, logs, cgroups: self.cgroups.clone() })
    }

    /// Nothing for a node without a directory.
    pub(crate) fn new(context: &Context, config: &NodeConfig) -> Option<Self> {
        let directory = config.directory.clone()?;
        // Mounts are made and found by whole paths.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Some(Machine {
            logs: config.logs.clone().unwrap_or_else(|| directory.join("logs/pods")),
            address: config.address,
            cluster_dns: config.cluster_dns.clone(),
            cluster_domain: config.cluster_domain.clone(),
            allocatable: config.allocatable(),
            volumes: Volumes::new(directory.clone()),
            devices: config.device_plugins.clone().map(|plugins| {
                Arc::new(Devices::new(plugins, directory.join("devices.checkpoint"), context.clock.clone()))
            }),
            services: context.informers.of::<Service>(),
            providers: config.credential_providers.clone().map(Providers::new),
            client: context.client.clone(),
            clock: context.clock.clone(),
            cgroups: Arc::new(Cgroups::new(config.pod_max_pids)),
            memory_for_pods: config.memory_for_pods(),
            directory,
        })
    }

    /// Nothing if the node takes no device plugins.
    pub(crate) fn devices(&self) -> Option<&Arc<Devices>> {
        self.devices.as_ref()
    }

    pub(crate) fn facts<'a>(&'a self, pod: &'a Pod, spec: &'a PodSpec, world: &World) -> Facts<'a> {
        let host_addresses = vec![self.address.to_string()];
        let of_sandbox = world.ready_sandbox().map(|sandbox| sandbox.addresses.as_slice()).unwrap_or_default();
        let pod_addresses = match spec.host_network {
            Some(true) => host_addresses.clone(),
            _ => of_sandbox.iter().map(ToString::to_string).collect(),
        };
        Facts { pod, spec, pod_addresses, host_addresses, allocatable: &self.allocatable }
    }

    /// Brings all volumes of the Pod into being, or up to date.
    pub(crate) async fn mount(
        &self,
        facts: &Facts<'_>,
        attachment: &mut Attachment,
    ) -> Result<Mounted, Vec<MountFailure>> {
        let now = self.clock.now();
        let sources = attachment.sources(&self.client, facts, now).await;
        let (wanted, mut failures) = volumes::wanted(facts, sources);
        let (volumes, uid, group) = (self.volumes.clone(), facts.uid().to_owned(), volumes::Group::of(facts));
        let made = blocking(move || volumes.ensure(&uid, &wanted, group, now)).await;
        match made {
            Ok(Ok(mounted)) if failures.is_empty() => return Ok(mounted),
            Ok(made) => failures.extend(made.err().into_iter().flatten()),
            Err(message) => failures.push(MountFailure { volume: String::new(), message }),
        }
        Err(failures)
    }

    pub(crate) async fn sandbox(
        &self,
        facts: &Facts<'_>,
        attempt: u32,
    ) -> Result<(SandboxConfig, Vec<Warning>), String> {
        let hostname = sandbox::hostname(facts, &self.cluster_domain);
        let cluster = Cluster { servers: &self.cluster_dns, domain: &self.cluster_domain };
        let (dns, warnings) = dns::dns(facts, &cluster, &resolver().await);
        let mut config = sandbox::sandbox(facts, attempt, &hostname, dns, &self.logs)?;
        config.handler = runtime_class::handler(&self.client, facts).await?;
        let directory = PathBuf::from(&config.log_directory);
        blocking(move || keep::log_directory(&directory)).await??;
        Ok((config, warnings))
    }

    /// Shares processors out between classes of Pods.
    pub(crate) async fn share_out(&self, pods: Vec<Arc<Pod>>) -> Result<(), String> {
        let (cgroups, allocatable) = (self.cgroups.clone(), self.allocatable.clone());
        blocking(move || cgroups.balance(&pods, &allocatable)).await
    }

    /// Keeps all Pods together from the memory that is reserved.
    pub(crate) async fn reserve(&self) -> Result<(), String> {
        let Some(memory) = self.memory_for_pods else { return Ok(()) };
        let cgroups = self.cgroups.clone();
        blocking(move || cgroups.reserve(memory)).await?.map_err(|error| error.to_string())
    }

    /// Holds the Pod as a whole to its bounds, before anything of it runs.
    pub(crate) async fn bound(&self, facts: &Facts<'_>) -> Result<(), String> {
        let Some(group) = Group::of(facts, &self.cgroups) else { return Ok(()) };
        let (cgroups, directory) = (self.cgroups.clone(), volumes::pod_directory(&self.directory, facts.uid()));
        blocking(move || {
            // By its directory the Pod is known after a crash, and its group with it.
            keep::pod_directory_made(&directory)?;
            cgroups.ensure(&group);
            Ok(())
        })
        .await?
    }

    /// Lets a Pod's containers have any bounds for a moment, until its own are set anew.
    pub(crate) async fn unbound(&self, facts: &Facts<'_>) {
        let Some(group) = Group::of(facts, &self.cgroups) else { return };
        let cgroups = self.cgroups.clone();
        let _ = blocking(move || cgroups.loosen(&group)).await;
    }

    /// What a run of a container is made from; its files are there when this is done. An error is for the Pod's owner.
    pub(crate) async fn container(
        &self,
        facts: &Facts<'_>,
        spec: &Spec,
        attempt: u32,
        image: &Image,
        mounted: &Mounted,
        attachment: &mut Attachment,
    ) -> Result<ContainerConfig, String> {
        let services = self.service_variables(facts).await?;
        let now = self.clock.now();
        let sources: &Sources = attachment.sources(&self.client, facts, now).await;
        let files = self.env_files(spec, mounted).await?;
        let environment = env::environment(facts, spec, sources, &files, &services)?;
        let wanted = container::mounts(spec, &environment, mounted)?;
        let files = keep::Files::of(self, facts, spec, attempt);
        let (volumes, uid) = (self.volumes.clone(), facts.uid().to_owned());
        let mounts = blocking(move || {
            let mut mounts = volumes.mounts(&uid, wanted)?;
            mounts.extend(files.write()?);
            Ok::<_, String>(mounts)
        });
        let mounts = mounts.await??;
        let profiles = self.directory.join("seccomp");
        let mut config = container::container(facts, spec, attempt, image, environment, mounts, &profiles)?;
        if let Some(devices) = &self.devices {
            devices.give(facts.uid(), facts.spec, spec, &mut config).await?;
        }
        Ok(config)
    }

    async fn env_files(&self, spec: &Spec, mounted: &Mounted) -> Result<EnvFiles, String> {
        let paths = env::needed_files(spec).filter_map(|(volume, path)| {
            let on_disk = mounted.get(&volume)?.path.clone();
            Some(((volume, path), on_disk))
        });
        let paths: Vec<_> = paths.collect();
        if paths.is_empty() {
            return Ok(EnvFiles::new());
        }
        let read = |((volume, path), on_disk): ((String, String), PathBuf)| {
            let read = volumes::read_file(&on_disk, &path);
            ((volume, path), read.map_err(|error| format!("couldn't parse env file: {error}")))
        };
        blocking(move || paths.into_iter().map(read).collect()).await
    }

    async fn service_variables(&self, facts: &Facts<'_>) -> Result<BTreeMap<String, String>, String> {
        let synced = tokio::time::timeout(SERVICES, self.services.synced()).await;
        synced.map_err(|_| "services have not yet been read at least once, cannot construct envvars")?;
        let links = facts.spec.enable_service_links.unwrap_or(true);
        let mut all = self.services.in_namespace("default");
        if links && facts.namespace() != "default" {
            all.extend(self.services.in_namespace(facts.namespace()));
        }
        Ok(services::variables(all.iter().map(AsRef::as_ref), facts.namespace(), links))
    }

    /// Adds to each end what the container left as its last words.
    pub(crate) fn tell_ends(&self, facts: &Facts<'_>, world: &mut World) {
        let pod_directory = volumes::pod_directory(&self.directory, facts.uid());
        let logs = sandbox::log_directory(facts, &self.logs);
        termination::tell(facts.spec, &pod_directory, &logs, &mut world.containers);
    }

    /// The Pods of which there is something on the disk, or that have devices, by UID.
    pub(crate) async fn found(&self) -> Vec<String> {
        let volumes = self.volumes.clone();
        let found = blocking(move || volumes.found_all()).await;
        let mut found = found.unwrap_or_else(|message| {
            tracing::warn!(%message, "what Pods left on the disk cannot be told");
            Vec::new()
        });
        found.extend(self.devices.iter().flat_map(|devices| devices.pods()));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Takes away what is left of a Pod of which nothing but its UID is known.
    pub(crate) async fn sweep(&self, uid: String) -> Result<(), String> {
        self.cgroups.remove(&uid).await?;
        self.release_devices(&uid).await;
        let (volumes, logs) = (self.volumes.clone(), self.logs.clone());
        let done = blocking(move || {
            volumes.teardown(&uid)?;
            for entry in std::fs::read_dir(&logs).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.rsplit_once('_').is_some_and(|(_, of)| of == uid) {
                    volumes::remove(&logs, &name)?;
                }
            }
            links::prune(&logs)
        });
        done.await?.map_err(|error| format!("what a Pod left on the disk could not be removed: {error}"))
    }

    /// Lets collectors of logs find the log of a run. Without it only they miss something.
    pub(crate) async fn link_log(&self, pod: PodRef, container: &str, attempt: u32, id: &ContainerId) {
        let (logs, container, id) = (self.logs.clone(), container.to_owned(), id.clone());
        let linked = blocking(move || links::make(&logs, &pod, &container, attempt, &id)).await;
        if let Err(error) = linked.and_then(|linked| linked.map_err(|error| error.to_string())) {
            tracing::warn!(%error, "a container's log has no link");
        }
    }

    /// Nothing of the Pod runs any more: others may have its devices.
    pub(crate) async fn release_devices(&self, uid: &str) {
        if let Some(devices) = &self.devices {
            devices.release(uid).await;
        }
    }

    /// Gives back what a Pod took that has ended: its control group and its volumes.
    pub(crate) async fn release(&self, uid: String) -> Result<(), String> {
        self.cgroups.remove(&uid).await?;
        let volumes = self.volumes.clone();
        let done = blocking(move || volumes.release(&uid));
        done.await?.map_err(|error| format!("the Pod's volumes could not be removed: {error}"))
    }

    /// Takes away all that a Pod had here, when nothing of it runs any more.
    pub(crate) async fn teardown(&self, pod: PodRef) -> Result<(), String> {
        self.cgroups.remove(&pod.uid).await?;
        self.release_devices(&pod.uid).await;
        let (volumes, logs) = (self.volumes.clone(), self.logs.clone());
        let done = blocking(move || {
            volumes.teardown(&pod.uid)?;
            volumes::remove(&logs, &format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))?;
            links::prune(&logs)
        });
        done.await?.map_err(|error| format!("what the Pod had on the disk could not be removed: {error}"))
    }
}

/// The disk may be slow; workers of other Pods are not held up.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| format!("work on the disk did not come to its end: {error}"))
}

/// What the machine's own programs use, or what is behind it if that is only a resolver of this machine.
async fn resolver() -> Dns {
    let read = async |path: &str| tokio::fs::read_to_string(path).await.ok().map(|text| dns::parse(&text));
    let own = read(RESOLVER).await.unwrap_or_default();
    let is_local = |server: &String| server.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match own.servers.iter().all(is_local) {
        true => read(RESOLVER_BEHIND).await.filter(|behind| !behind.servers.is_empty()).unwrap_or(own),
        false => own,
    }
}
