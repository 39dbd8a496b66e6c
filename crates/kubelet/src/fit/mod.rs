//! Whether a Pod fits on a node that it was bound to: what it asks for, which labels and taints the node has, which of its ports
//! are taken. A scheduler has looked already, but others bind Pods too, and what a scheduler saw may be old. No I/O.
//!
//! - `preempt`: which Pods make room for a critical Pod

mod preempt;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_meta::quantity;
use pintle_rules::placement;

use crate::make::totals::requested;
use crate::make::{amount, containers};
pub(crate) use preempt::{Victim, is_preemptable, victims};

/// What a Pod takes of a node: amounts by resource, processors in thousandths, and ports of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    amounts: BTreeMap<String, i64>,
    ports: Vec<HostPort>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort {
    /// Empty for all addresses.
    address: String,
    protocol: String,
    port: i32,
}

/// Why a Pod does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    Insufficient { resource: String, requested: i64, used: i64, capacity: i64 },
    Predicate(&'static str, &'static str),
}

impl Misfit {
    /// A reason and a message, in upstream's words.
    pub(crate) fn told(&self) -> (String, String) {
        match self {
            Misfit::Insufficient { resource, requested, used, capacity } => (
                format!("OutOf{resource}"),
                format!(
                    "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: \
                     {capacity}"
                ),
            ),
            Misfit::Predicate(name, why) => ((*name).to_owned(), format!("Predicate {name} failed: {why}")),
        }
    }

    /// How much of what is missing, if more of it would help.
    pub(crate) fn missing(&self) -> Option<(&str, i64)> {
        match self {
            Misfit::Insufficient { resource, requested, used, capacity } => {
                Some((resource, requested - (capacity - used)))
            }
            Misfit::Predicate(..) => None,
        }
    }
}

impl Claim {
    pub(crate) fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Claim::default() };
        let lists = containers(spec).filter_map(|container| container.resources.as_ref()?.requests.as_ref());
        let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let overhead = spec.overhead.as_ref();
        let names = lists.chain(whole).chain(overhead).flat_map(BTreeMap::keys);
        let amounts = names.map(|name| {
            let sum = requested(pod, name)
                .into_iter()
                .chain(amount(overhead, name))
                .fold(0, |sum: i64, one| sum.saturating_add(number(name, one)));
            (name.clone(), sum)
        });
        Claim { amounts: amounts.collect(), ports: ports(spec) }
    }

    pub(crate) fn amount(&self, resource: &str) -> i64 {
        match resource {
            "pods" => 1,
            other => self.amounts.get(other).copied().unwrap_or(0),
        }
    }
}

fn number(resource: &str, amount: quantity::Quantity) -> i64 {
    if resource == "cpu" { amount.milli() } else { amount.units() }
}

fn ports(spec: &PodSpec) -> Vec<HostPort> {
    let lasting = containers(spec).filter(|container| {
        let is_main = spec.containers.iter().any(|main| std::ptr::eq(main, *container));
        is_main || container.restart_policy.as_deref() == Some("Always")
    });
    let all = lasting.flat_map(|container| container.ports.iter().flatten());
    let all = all.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let address = port.host_ip.clone().filter(|address| address != "0.0.0.0" && address != "::");
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        Some(HostPort { address: address.unwrap_or_default(), protocol, port: number })
    });
    all.collect()
}

impl HostPort {
    fn collides(&self, other: &HostPort) -> bool {
        let same_address = self.address.is_empty() || other.address.is_empty() || self.address == other.address;
        same_address && self.protocol == other.protocol && self.port == other.port
    }
}

/// Everything that keeps a Pod from a node. `is_static` Pods are not kept out by taints; without a Node nothing is known of labels.
pub(crate) fn misfits(
    pod: &Pod,
    claim: &Claim,
    node: Option<&Node>,
    allocatable: &BTreeMap<String, Quantity>,
    others: &[&Claim],
    is_static: bool,
) -> Vec<Misfit> {
    let mut found = insufficient(claim, allocatable, others);
    if node.zip(pod.spec.as_ref()).is_some_and(|(node, spec)| !placement::allows(spec, node)) {
        found.push(Misfit::Predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
    }
    let taken = |port: &HostPort| others.iter().any(|other| other.ports.iter().any(|held| held.collides(port)));
    if claim.ports.iter().any(taken) {
        found.push(Misfit::Predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
    }
    if node.is_some_and(|node| !is_static && sends_away(node, pod)) {
        found.push(Misfit::Predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"));
    }
    found
}

/// Whether the node evicts Pods that do not tolerate a taint, and this Pod is one of them.
fn sends_away(node: &Node, pod: &Pod) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    !placement::tolerates_all(tolerations, taints, &["NoExecute"])
}

fn insufficient(claim: &Claim, allocatable: &BTreeMap<String, Quantity>, others: &[&Claim]) -> Vec<Misfit> {
    // Pods first, as upstream counts.
    let asked = claim.amounts.iter().filter(|(_, wanted)| **wanted > 0).map(|(name, _)| name.as_str());
    let capacity = |name: &str| amount(Some(allocatable), name).map(|have| number(name, have));
    std::iter::once("pods")
        .chain(asked)
        .filter_map(|resource| {
            // What the node does not know is somebody else's to count.
            let capacity = capacity(resource)?;
            let requested = claim.amount(resource);
            let used = others.iter().fold(0, |sum: i64, other| sum.saturating_add(other.amount(resource)));
            let resource = resource.to_owned();
            (requested > capacity.saturating_sub(used)).then_some(Misfit::Insufficient {
                resource,
                requested,
                used,
                capacity,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::make::testing;

    fn told(spec: Value, node: Value, others: &[Value]) -> Vec<String> {
        let pod = testing::pod(spec);
        let node: Node = serde_json::from_value(node).unwrap();
        let others: Vec<Claim> = others.iter().map(|spec| Claim::of(&testing::pod(spec.clone()))).collect();
        let others: Vec<&Claim> = others.iter().collect();
        let mut allocatable = testing::allocatable();
        allocatable.insert("pods".into(), Quantity("3".into()));
        let found = misfits(&pod, &Claim::of(&pod), Some(&node), &allocatable, &others, false);
        found.iter().map(|misfit| format!("{}: {}", misfit.told().0, misfit.told().1)).collect()
    }

    fn asking(cpu: &str) -> Value {
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "example.com/unknown": "7"}}}]})
    }

    fn plain() -> Value {
        json!({"containers": [{"name": "c"}]})
    }

    fn node() -> Value {
        json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}})
    }

    #[test]
    fn a_node_does_not_take_on_more_than_it_has() {
        assert!(told(asking("4"), node(), &[]).is_empty());
        let expected =
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000".to_owned();
        assert_eq!(told(asking("1500m"), node(), &[asking("3")]), [expected]);
        let full = [plain(), plain(), plain()];
        let expected =
            "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3".to_owned();
        assert_eq!(told(plain(), node(), &full), [expected]);
    }

    #[test]
    fn overhead_counts_and_so_does_the_largest_init_container() {
        let spec = json!({"overhead": {"cpu": "100m"},
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
        assert_eq!(Claim::of(&testing::pod(spec)).amount("cpu"), 2100);
    }

    #[test]
    fn a_port_of_the_machine_is_given_once() {
        let on = |port: Value| json!({"containers": [{"name": "c", "ports": [port]}]});
        let port = |address: &str, protocol: &str| json!({"containerPort": 80, "hostPort": 8080, "hostIP": address, "protocol": protocol});
        let taken = "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        for (wanted, held, collides) in [
            (port("", "TCP"), port("", "TCP"), true),
            (port("", "TCP"), port("", "UDP"), false),
            (port("127.0.0.1", "TCP"), port("0.0.0.0", "TCP"), true),
            (port("127.0.0.1", "TCP"), port("127.0.0.2", "TCP"), false),
        ] {
            let found = told(on(wanted.clone()), node(), &[on(held.clone())]);
            assert_eq!(found.first().map(String::as_str), collides.then_some(taken), "{wanted} {held}");
        }
    }

    #[test]
    fn a_node_that_the_pod_did_not_ask_for_refuses_it() {
        let refused =
            "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned();
        let selecting = |value: &str| json!({"nodeSelector": {"disk": value}, "containers": []});
        assert!(told(selecting("ssd"), node(), &[]).is_empty());
        assert_eq!(told(selecting("hdd"), node(), &[]), [refused]);
    }

    #[test]
    fn a_node_that_sends_pods_away_takes_none_that_does_not_tolerate_that() {
        let tainted =
            |effect: &str| json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": effect}]}});
        let refused =
            "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
                .to_owned();
        assert_eq!(told(plain(), tainted("NoExecute"), &[]), [refused]);
        assert!(told(plain(), tainted("NoSchedule"), &[]).is_empty(), "that is the scheduler's");
        let tolerating = json!({"containers": [], "tolerations": [{"key": "k", "operator": "Exists"}]});
        assert!(told(tolerating, tainted("NoExecute"), &[]).is_empty());
        let pod = testing::pod(plain());
        let node: Node = serde_json::from_value(tainted("NoExecute")).unwrap();
        assert!(misfits(&pod, &Claim::of(&pod), Some(&node), &testing::allocatable(), &[], true).is_empty());
    }
}
