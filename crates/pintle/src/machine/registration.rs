//! Flags for how this machine registers as a node; names and defaults are Kubernetes' own.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_kubelet::NodeConfig;
use pintle_meta::rules;

#[derive(clap::Args, Clone)]
#[command(next_help_heading = "How this machine registers as a node")]
pub(super) struct RegistrationFlags {
    /// The node's name [default: the machine's].
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(super) node_name: Option<String>,
    /// Labels with which the node registers.
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',', value_parser = label)]
    node_labels: Vec<(String, String)>,
    /// Taints with which the node registers.
    #[arg(long, value_name = "KEY=VALUE:EFFECT,…", value_delimiter = ',', value_parser = taint)]
    register_with_taints: Vec<Taint>,
    /// How many Pods the node runs at most.
    #[arg(long, value_name = "N", default_value_t = 110, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_pods: u32,
    /// Where the logs of containers go; beside it, `containers` has a link to each [default: /var/log/pods; with --ephemeral a
    /// directory that goes with the cluster].
    #[arg(long, value_name = "DIR")]
    pod_logs_dir: Option<PathBuf>,
}

/// Where logs of containers are looked for.
const POD_LOGS: &str = "/var/log/pods";

impl RegistrationFlags {
    /// Puts them into the configuration of a node. What is kept nowhere leaves no logs behind.
    pub(crate) fn apply(&self, config: NodeConfig, is_kept: bool) -> NodeConfig {
        let mut capacity = config.capacity;
        capacity.insert("pods".to_owned(), Quantity(self.max_pods.to_string()));
        let default = config.directory.as_ref().filter(|_| is_kept).map(|_| PathBuf::from(POD_LOGS));
        NodeConfig {
            name: self.node_name.clone().unwrap_or(config.name),
            labels: config.labels.into_iter().chain(self.node_labels.iter().cloned()).collect(),
            taints: config.taints.into_iter().chain(self.register_with_taints.iter().cloned()).collect(),
            logs: self.pod_logs_dir.clone().map(|path| std::path::absolute(&path).unwrap_or(path)).or(default),
            capacity,
            ..config
        }
    }
}

fn sound(problems: Vec<String>) -> Result<(), String> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

pub(crate) fn name(text: &str) -> Result<String, String> {
    sound(rules::dns_subdomain(text)).map(|()| text.to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    sound(rules::qualified_name(key))?;
    sound(rules::label_value(value))?;
    if rules::is_closed_to_nodes(key) {
        return Err(format!(
            "unknown 'kubernetes.io' or 'k8s.io' label {key}: a label in the 'kubernetes.io' namespace must begin with an \
             allowed prefix (kubelet.kubernetes.io, node.kubernetes.io) or be one of {}",
            rules::NODE_LABELS.join(", ")
        ));
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn taint(text: &str) -> Result<Taint, String> {
    let wrong = || format!("{text:?} is not KEY=VALUE:EFFECT; the effects are NoSchedule, PreferNoSchedule, NoExecute");
    let (named, effect) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (key, value) = named.split_once('=').map_or((named, None), |(key, value)| (key, Some(value)));
    sound(rules::qualified_name(key))?;
    sound(rules::label_value(value.unwrap_or_default()))?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(wrong());
    }
    let value = value.filter(|value| !value.is_empty()).map(str::to_owned);
    Ok(Taint { key: key.to_owned(), value, effect: effect.to_owned(), ..Taint::default() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        flags: RegistrationFlags,
    }

    fn applied(arguments: &[&str], is_kept: bool) -> NodeConfig {
        let flags = Program::parse_from(["pintle"].iter().chain(arguments)).flags;
        let directory = Some(PathBuf::from("/data/node"));
        flags.apply(NodeConfig { directory, ..NodeConfig::simulated("machine", 0) }, is_kept)
    }

    #[test]
    fn a_node_registers_as_its_operator_says() {
        let config = applied(
            &[
                "--node-name=edge-1",
                "--node-labels=disk=ssd,node.kubernetes.io/pool=edge",
                "--register-with-taints=dedicated=edge:NoSchedule,away:NoExecute",
                "--max-pods=25",
            ],
            true,
        );
        assert_eq!((config.name.as_str(), config.capacity["pods"].0.as_str()), ("edge-1", "25"));
        let labels: BTreeMap<&str, &str> =
            config.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(labels, BTreeMap::from([("disk", "ssd"), ("node.kubernetes.io/pool", "edge")]));
        let taints: Vec<_> =
            config.taints.iter().map(|taint| (&*taint.key, taint.value.as_deref(), &*taint.effect)).collect();
        assert_eq!(taints, [("dedicated", Some("edge"), "NoSchedule"), ("away", None, "NoExecute")]);
        assert_eq!(config.logs, Some(PathBuf::from("/var/log/pods")));
    }

    #[test]
    fn without_flags_nothing_changes_and_an_ephemeral_cluster_leaves_no_logs() {
        let config = applied(&[], false);
        assert_eq!((config.name.as_str(), config.capacity["pods"].0.as_str()), ("machine", "110"));
        assert!(config.labels.is_empty() && config.taints.is_empty() && config.logs.is_none());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for flag in [
            "--node-name=No_Name",
            "--node-labels=disk",
            "--node-labels=kubernetes.io/role=master",
            "--node-labels=a b=c",
            "--register-with-taints=dedicated=edge",
            "--register-with-taints=dedicated=edge:Sometimes",
            "--max-pods=0",
        ] {
            assert!(Program::try_parse_from(["pintle", flag]).is_err(), "{flag}");
        }
    }
}
