//! Flags that bound what Pods may take from this machine; names and defaults are Kubernetes' own.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_kubelet::pressure::{Eviction, EvictionError, duration};
use pintle_kubelet::{LogRotation, NodeConfig};
use pintle_meta::quantity;

#[derive(clap::Args, Clone)]
#[command(next_help_heading = "What this machine's node lets Pods take")]
pub(super) struct BoundsFlags {
    /// Below which amounts left on the node Pods are evicted at once.
    #[arg(
        long,
        value_name = "SIGNAL<AMOUNT,…",
        default_value = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,\
                         imagefs.inodesFree<5%"
    )]
    eviction_hard: String,
    /// Below which amounts Pods are evicted when their grace period is over.
    #[arg(long, value_name = "SIGNAL<AMOUNT,…", default_value = "")]
    eviction_soft: String,
    /// For how long a soft threshold must be met.
    #[arg(long, value_name = "SIGNAL=TIME,…", default_value = "")]
    eviction_soft_grace_period: String,
    /// How much more than its threshold is freed of something that ran out.
    #[arg(long, value_name = "SIGNAL=AMOUNT,…", default_value = "")]
    eviction_minimum_reclaim: String,
    /// For how long the node says that it is under pressure after it last was.
    #[arg(long, value_name = "TIME", default_value = "5m0s", value_parser = time)]
    eviction_pressure_transition_period: Duration,
    /// The longest grace, in seconds, of a Pod that is evicted at a soft threshold.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    eviction_max_pod_grace_period: u64,
    /// Sysctls that Pods may set beside those that touch nobody else; NAME* stands for all that begin so.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = sysctl)]
    allowed_unsafe_sysctls: Vec<String>,
    /// How many processes each Pod may have; -1 for no bound.
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    pod_max_pids: i64,
    /// Above which size a container's log is moved away.
    #[arg(long, value_name = "SIZE", default_value = "10Mi", value_parser = size)]
    container_log_max_size: u64,
    /// How many files of a container's log are kept, the one that is written included.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..))]
    container_log_max_files: u16,
    /// What Pods do not get because this program and the container runtime need it.
    #[arg(long, value_name = "RESOURCE=AMOUNT,…", default_value = "", value_parser = amounts)]
    kube_reserved: BTreeMap<String, Quantity>,
    /// What Pods do not get because the rest of the machine needs it.
    #[arg(long, value_name = "RESOURCE=AMOUNT,…", default_value = "", value_parser = amounts)]
    system_reserved: BTreeMap<String, Quantity>,
}

impl BoundsFlags {
    /// Puts them into the configuration of a node.
    pub(super) fn apply(&self, config: NodeConfig) -> Result<NodeConfig, WrongThreshold> {
        let eviction = self.thresholds()?;
        Ok(NodeConfig {
            eviction: Eviction {
                transition_period: self.eviction_pressure_transition_period,
                max_pod_grace: self.eviction_max_pod_grace_period,
                ..eviction
            },
            allowed_unsafe_sysctls: self.allowed_unsafe_sysctls.clone(),
            pod_max_pids: u64::try_from(self.pod_max_pids).ok().filter(|most| *most > 0),
            log_rotation: LogRotation {
                max_size: self.container_log_max_size,
                max_files: self.container_log_max_files.into(),
            },
            reserved: [&self.kube_reserved, &self.system_reserved].map(Clone::clone).into(),
            ..config
        })
    }
}

impl BoundsFlags {
    /// Read flag by flag first, so that a mistake has a name.
    fn thresholds(&self) -> Result<Eviction, WrongThreshold> {
        let wrong = |flag| move |source| WrongThreshold { flag, source };
        let (hard, soft, grace) = (&self.eviction_hard, &self.eviction_soft, &self.eviction_soft_grace_period);
        Eviction::parse(hard, "", "", "").map_err(wrong("--eviction-hard"))?;
        let flags = "--eviction-soft, --eviction-soft-grace-period";
        Eviction::parse("", soft, grace, "").map_err(wrong(flags))?;
        let whole = Eviction::parse(hard, soft, grace, &self.eviction_minimum_reclaim);
        whole.map_err(wrong("--eviction-minimum-reclaim"))
    }
}

/// A sysctl of a namespace that Pods have of their own: any other would be the node's.
fn sysctl(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('*').unwrap_or(text).replace('/', ".");
    let own = ["net.", "kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
    let fits = |own: &&str| name.starts_with(own);
    let known = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "._-".contains(letter);
    match own.iter().any(fits) && name.chars().all(known) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no sysctl of a Pod's own; those begin with {}", own.join(", "))),
    }
}

/// Which flag is wrong, and why.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: {source}")]
pub(crate) struct WrongThreshold {
    flag: &'static str,
    source: EvictionError,
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| "give a time such as 5m0s".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    let size = quantity::Quantity::parse(text).ok().and_then(|size| u64::try_from(size.units()).ok());
    size.filter(|size| *size > 0).ok_or_else(|| "give a size such as 10Mi".to_owned())
}

fn amounts(list: &str) -> Result<BTreeMap<String, Quantity>, String> {
    let wrong = |part: &str| format!("{part:?} is not RESOURCE=AMOUNT; give the list as in cpu=500m,memory=1Gi");
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, amount) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let parsed = quantity::Quantity::parse(amount).ok().filter(|amount| !amount.is_negative());
            parsed.ok_or_else(|| wrong(part))?;
            match name {
                "cpu" | "memory" | "ephemeral-storage" => Ok((name.to_owned(), Quantity(amount.to_owned()))),
                other => Err(format!("{other} cannot be reserved; cpu, memory and ephemeral-storage can")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        bounds: BoundsFlags,
    }

    fn node() -> NodeConfig {
        NodeConfig::simulated("n", 0)
    }

    #[test]
    fn without_flags_the_bounds_are_kubernetes_own() {
        let config = Program::parse_from(["pintle"]).bounds.apply(node()).unwrap();
        let default = node();
        assert_eq!(config.eviction, default.eviction);
        assert_eq!(config.log_rotation, default.log_rotation);
        assert_eq!((config.pod_max_pids, default.pod_max_pids), (None, None));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for flag in [
            "--allowed-unsafe-sysctls=vm.swappiness",
            "--allowed-unsafe-sysctls=*",
            "--kube-reserved=cpu",
            "--kube-reserved=pods=1",
            "--container-log-max-size=0",
            "--container-log-max-files=1",
            "--eviction-pressure-transition-period=soon",
        ] {
            assert!(Program::try_parse_from(["pintle", flag]).is_err(), "{flag}");
        }
        let bounds = Program::parse_from(["pintle", "--eviction-hard", "luck<1"]).bounds;
        assert!(bounds.apply(node()).is_err());
    }
}
