//! The Node object that a configuration makes, and what of it must be kept true.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo, ObjectReference,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pintle_container::{Health, Image};
use pintle_runtime::conditions;

use crate::config::NodeConfig;
use crate::devices::Amounts;
use crate::pressure::Condition;

/// Condition, status when all is well, reason, message.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// What a node lacks, reason, message.
const LACKS: [(Condition, &str, &str); 3] = [
    (Condition::Memory, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    (Condition::Disk, "KubeletHasDiskPressure", "kubelet has disk pressure"),
    (Condition::Pid, "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
];

/// As many as upstream reports, the largest first.
const MOST_IMAGES: usize = 50;

/// The port on which nodes serve logs and exec.
const PORT: i32 = 10250;

pub(super) fn node(config: &NodeConfig, runtime_version: &str, told: &Told, now: Timestamp) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            labels: Some(labels(config)),
            annotations: Some(config.annotations.clone()).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: Some(config.taints.clone()).filter(|taints| !taints.is_empty()),
            provider_id: config.provider_id.clone(),
            pod_cidr: config.pod_cidrs.first().cloned(),
            pod_cidrs: Some(config.pod_cidrs.clone()).filter(|ranges| !ranges.is_empty()),
            ..NodeSpec::default()
        }),
        status: Some(status(config, runtime_version, told, &NodeStatus::default(), now)),
    }
}

/// What the runtime says of itself and of its images.
#[derive(Default, PartialEq)]
pub(super) struct Told {
    /// Why Pods cannot run, if they cannot.
    pub(super) unready: Option<String>,
    pub(super) images: Vec<ContainerImage>,
    /// What the node lacks.
    pub(super) pressure: BTreeSet<Condition>,
    /// What device plugins offer.
    pub(super) devices: Amounts,
}

impl Told {
    pub(super) fn new(health: Health, images: Vec<Image>) -> Self {
        let runtime = health.runtime.err().map(|why| format!("container runtime is down: {why}"));
        let network = health.network.err().map(|why| format!("container runtime network not ready: {why}"));
        let mut images: Vec<Image> = images;
        images.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
        let images = images.into_iter().take(MOST_IMAGES).map(|image| ContainerImage {
            names: Some(if image.names.is_empty() { vec![image.name] } else { image.names }),
            size_bytes: i64::try_from(image.size).ok(),
        });
        Told {
            unready: runtime.or(network),
            images: images.collect(),
            pressure: BTreeSet::new(),
            devices: Amounts::default(),
        }
    }
}

/// The status to report; what others keep in it stays.
pub(super) fn status(
    config: &NodeConfig,
    runtime_version: &str,
    told: &Told,
    old: &NodeStatus,
    now: Timestamp,
) -> NodeStatus {
    let mut present = old.conditions.clone().unwrap_or_default();
    for (kind, status, reason, message) in CONDITIONS {
        let lacks = LACKS.iter().find(|(lack, ..)| told.pressure.contains(lack) && lack.to_string() == kind);
        let (status, reason, message) = match (&told.unready, kind, lacks) {
            (Some(why), "Ready", _) => ("False", "KubeletNotReady", why.as_str()),
            (_, _, Some((_, reason, message))) => ("True", *reason, *message),
            _ => (status, reason, message),
        };
        let condition = NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(now)),
        };
        conditions::set(&mut present, condition);
    }
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    NodeStatus {
        addresses: Some(vec![
            address("InternalIP", config.address.to_string()),
            address("Hostname", config.name.clone()),
        ]),
        capacity: Some(amounts(&config.capacity, &told.devices, &told.devices.capacity, old.capacity.as_ref())),
        allocatable: Some(amounts(
            &config.allocatable(),
            &told.devices,
            &told.devices.allocatable,
            old.allocatable.as_ref(),
        )),
        conditions: Some(present),
        images: Some(told.images.clone()).filter(|images| !images.is_empty()),
        daemon_endpoints: Some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: PORT }) }),
        node_info: Some(NodeSystemInfo {
            architecture: config.architecture.clone(),
            operating_system: config.operating_system.clone(),
            os_image: config.operating_system_image.clone(),
            kernel_version: config.kernel_version.clone(),
            machine_id: config.machine_id.clone(),
            boot_id: config.boot_id.clone(),
            system_uuid: config.system_uuid.clone(),
            kubelet_version: config.kubelet_version.clone(),
            container_runtime_version: runtime_version.to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..old.clone()
    }
}

/// The node's own, what plugins offer, and what others have put there.
fn amounts(
    own: &BTreeMap<String, Quantity>,
    devices: &Amounts,
    offered: &BTreeMap<String, usize>,
    old: Option<&BTreeMap<String, Quantity>>,
) -> BTreeMap<String, Quantity> {
    let mut amounts = old.cloned().unwrap_or_default();
    amounts.retain(|name, _| !devices.gone.contains(name));
    amounts.extend(own.clone());
    amounts.extend(offered.iter().map(|(name, count)| (name.clone(), Quantity(count.to_string()))));
    amounts
}

/// Whether two statuses say different things, heartbeats apart.
pub(super) fn differs(old: &NodeStatus, new: &NodeStatus) -> bool {
    let told = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
            condition.last_transition_time = None;
        }
        status.conditions.iter_mut().for_each(|conditions| conditions.sort_by(|a, b| a.type_.cmp(&b.type_)));
        // The API server may write amounts in another form.
        for amounts in [&mut status.capacity, &mut status.allocatable] {
            for amount in amounts.iter_mut().flat_map(BTreeMap::values_mut) {
                if let Some(canonical) = pintle_meta::quantity::canonical(&amount.0) {
                    amount.0 = canonical;
                }
            }
        }
        status
    };
    told(old) != told(new)
}

/// Labels that every node has and this one has lost.
pub(super) fn missing_labels(config: &NodeConfig, node: &Node) -> BTreeMap<String, String> {
    let present = node.metadata.labels.clone().unwrap_or_default();
    let default = default_labels(config).into_iter();
    default.filter(|(name, value)| present.get(name) != Some(value)).collect()
}

fn labels(config: &NodeConfig) -> BTreeMap<String, String> {
    let mut labels = default_labels(config);
    labels.extend(config.labels.clone());
    labels
}

fn default_labels(config: &NodeConfig) -> BTreeMap<String, String> {
    let fixed = [
        ("kubernetes.io/hostname", &config.name),
        ("kubernetes.io/os", &config.operating_system),
        ("kubernetes.io/arch", &config.architecture),
        ("beta.kubernetes.io/os", &config.operating_system),
        ("beta.kubernetes.io/arch", &config.architecture),
    ];
    let instance = config
        .instance_type
        .iter()
        .flat_map(|kind| [("node.kubernetes.io/instance-type", kind), ("beta.kubernetes.io/instance-type", kind)]);
    fixed.into_iter().chain(instance).map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// Events about a node name it as its UID too, as upstream's do: they are recorded before the UID is known.
pub(crate) fn reference(name: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_heartbeat_alone_is_no_news() {
        let config = NodeConfig::simulated("n", 0);
        let first = status(&config, "simulated://1", &Told::default(), &NodeStatus::default(), at(0));
        let second = status(&config, "simulated://1", &Told::default(), &first, at(60));
        assert!(!differs(&first, &second));
        let ready = conditions::find(second.conditions.as_deref().unwrap(), "Ready").unwrap();
        assert_eq!(ready.last_heartbeat_time, Some(Time(at(60))));
        assert_eq!(ready.last_transition_time, Some(Time(at(0))));
    }

    #[test]
    fn what_the_lifecycle_loop_wrote_on_a_silent_node_is_corrected() {
        let config = NodeConfig::simulated("n", 0);
        let mut old = status(&config, "simulated://1", &Told::default(), &NodeStatus::default(), at(0));
        for condition in old.conditions.iter_mut().flatten() {
            condition.status = "Unknown".into();
        }
        let new = status(&config, "simulated://1", &Told::default(), &old, at(60));
        assert!(differs(&old, &new));
        assert!(conditions::is_true(new.conditions.as_deref().unwrap(), "Ready"));
    }

    #[test]
    fn a_node_carries_its_labels_and_gets_lost_ones_back() {
        let mut config = NodeConfig::simulated("n", 0);
        config.labels.insert("zone".into(), "a".into());
        let mut node = node(&config, "simulated://1", &Told::default(), at(0));
        let labels = node.metadata.labels.as_mut().unwrap();
        assert_eq!((labels["zone"].as_str(), labels["kubernetes.io/hostname"].as_str()), ("a", "n"));
        assert!(missing_labels(&config, &node).is_empty());
        node.metadata.labels.as_mut().unwrap().remove("kubernetes.io/os");
        assert_eq!(missing_labels(&config, &node), [("kubernetes.io/os".to_owned(), "linux".to_owned())].into());
    }

    #[test]
    fn a_node_that_runs_out_of_disk_says_so_and_is_ready_all_the_same() {
        let config = NodeConfig::simulated("n", 0);
        let told = Told { pressure: [Condition::Disk].into(), ..Told::default() };
        let status = status(&config, "simulated://1", &told, &NodeStatus::default(), at(0));
        let conditions = status.conditions.unwrap();
        let said: Vec<_> = conditions.iter().map(|one| (one.type_.as_str(), one.status.as_str())).collect();
        let expected =
            [("MemoryPressure", "False"), ("DiskPressure", "True"), ("PIDPressure", "False"), ("Ready", "True")];
        assert_eq!(said, expected);
        assert_eq!(conditions[1].reason.as_deref(), Some("KubeletHasDiskPressure"));
    }

    #[test]
    fn what_plugins_offer_is_on_the_node_beside_what_others_put_there() {
        let config = NodeConfig::simulated("n", 0);
        let by_hand = [("example.com/dongle".to_owned(), Quantity("4".into()))];
        let old = NodeStatus { capacity: Some(by_hand.into()), ..NodeStatus::default() };
        let lamps = |count| [("example.com/lamp".to_owned(), count)].into();
        let devices = Amounts { capacity: lamps(2), allocatable: lamps(1), ..Amounts::default() };
        let told = Told { devices, ..Told::default() };
        let with = status(&config, "simulated://1", &told, &old, at(0));
        let amount = |amounts: &Option<BTreeMap<String, Quantity>>, name: &str| {
            amounts.as_ref().and_then(|amounts| amounts.get(name)).map(|amount| amount.0.clone())
        };
        assert_eq!(amount(&with.capacity, "example.com/lamp").as_deref(), Some("2"));
        assert_eq!(amount(&with.allocatable, "example.com/lamp").as_deref(), Some("1"));
        assert_eq!(amount(&with.capacity, "cpu").as_deref(), Some("32"));
        assert_eq!(amount(&with.capacity, "example.com/dongle").as_deref(), Some("4"));
        let gone = Amounts { gone: ["example.com/lamp".to_owned()].into(), ..Amounts::default() };
        let without = status(&config, "simulated://1", &Told { devices: gone, ..Told::default() }, &with, at(1));
        assert_eq!(amount(&without.capacity, "example.com/lamp"), None);
        assert!(differs(&with, &without));
    }

    #[test]
    fn a_node_whose_network_is_not_set_up_says_so_and_is_not_ready() {
        let config = NodeConfig::simulated("n", 0);
        let health = Health { runtime: Ok(()), network: Err("cni plugin not initialized".into()) };
        let image = |id: &str, size| Image { id: id.into(), name: id.into(), size, ..Image::default() };
        let told = Told::new(health, vec![image("small", 1), image("large", 2)]);
        let status = status(&config, "simulated://1", &told, &NodeStatus::default(), at(0));
        let ready = conditions::find(status.conditions.as_deref().unwrap(), "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("KubeletNotReady")));
        assert!(ready.message.as_deref().unwrap().ends_with("network not ready: cni plugin not initialized"));
        assert_eq!(status.images.unwrap()[0].names.as_deref(), Some(&["large".to_owned()][..]));
    }
}
