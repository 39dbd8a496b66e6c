//! Which nodes a DaemonSet runs on, and what its Pod for a node looks like.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_rules::placement::{allows, tolerates_all};
use pintle_runtime::owner;

use crate::history::POD_REVISION;
use crate::pods;

/// The label that told templates apart before there were revisions.
const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const NAME_FIELD: &str = "metadata.name";

/// Taints of a node in trouble, which a daemon bears.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// What one that has the node's own network bears too.
const TOLERATED_BY_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Whether a node gets a Pod, and whether one that is there may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Fit {
    pub(super) runs: bool,
    pub(super) stays: bool,
}

impl Fit {
    pub(in super::super) fn never() -> Self {
        Fit { runs: false, stays: false }
    }
}

/// The Pod that a set runs, before it is known on which node.
pub(in super::super) struct Daemon<'a> {
    set: &'a DaemonSet,
    template: Cow<'a, PodTemplateSpec>,
    /// With the tolerations that every daemon has.
    spec: PodSpec,
}

impl<'a> Daemon<'a> {
    pub(in super::super) fn of(set: &'a DaemonSet) -> Self {
        let template = set.spec.as_ref().map_or_else(Cow::default, |spec| Cow::Borrowed(&spec.template));
        let mut spec = template.spec.clone().unwrap_or_default();
        let network = (spec.host_network == Some(true)).then_some(TOLERATED_BY_HOST_NETWORK);
        for (key, effect) in TOLERATED.into_iter().chain(network) {
            tolerate(&mut spec, key, effect);
        }
        Daemon { set, template, spec }
    }

    /// A Pod that is there stays on a node whose taints only keep new ones out.
    pub(in super::super) fn fit(&self, node: &Node) -> Fit {
        let named = self.spec.node_name.as_deref().filter(|name| !name.is_empty());
        if named.is_some_and(|named| named != name(node)) || !allows(&self.spec, node) {
            return Fit::never();
        }
        let taints: &[Taint] = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let tolerations = self.spec.tolerations.as_deref().unwrap_or_default();
        let bears = |effects: &[&str]| tolerates_all(tolerations, taints, effects);
        Fit { runs: bears(&["NoSchedule", "NoExecute"]), stays: bears(&["NoExecute"]) }
    }

    /// The Pod for this node, which the scheduler finds in its affinity.
    pub(super) fn pod(&self, node: &str, hash: &str) -> Pod {
        let described = self.template.metadata.clone().unwrap_or_default();
        let mut labels = described.labels.unwrap_or_default();
        if let Some(generation) = self.template_generation() {
            labels.insert(TEMPLATE_GENERATION_LABEL.to_owned(), generation.to_string());
        }
        labels.insert(POD_REVISION.to_owned(), hash.to_owned());
        let mut spec = self.spec.clone();
        bind(&mut spec, node);
        Pod {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", self.set.metadata.name.as_deref().unwrap_or_default())),
                namespace: self.set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: described.annotations,
                finalizers: described.finalizers,
                owner_references: Some(vec![owner::controller_reference(self.set)]),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
            status: None,
        }
    }

    /// Whether the Pod is of the template as it is now.
    pub(super) fn is_updated(&self, pod: &Pod, hash: &str) -> bool {
        let label = |key: &str| pod.metadata.labels.as_ref()?.get(key).map(String::as_str);
        let generation = self.template_generation().map(|generation| generation.to_string());
        (!hash.is_empty() && label(POD_REVISION) == Some(hash))
            || (generation.is_some() && label(TEMPLATE_GENERATION_LABEL) == generation.as_deref())
    }

    fn template_generation(&self) -> Option<i64> {
        self.set.metadata.annotations.as_ref()?.get(TEMPLATE_GENERATION)?.parse().ok()
    }
}

pub(super) fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// The node that the Pod is on, or asks for.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    let bound = pods::node_name(pod);
    if !bound.is_empty() {
        return Some(bound);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == NAME_FIELD && field.operator == "In")?;
    match field.values.as_deref() {
        Some([only]) => Some(only),
        _ => None,
    }
}

/// Asks for one node by name, in the place of all other required node affinity: the node fits that already.
fn bind(spec: &mut PodSpec, node: &str) {
    let by_name = NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![by_name]), match_expressions: None };
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}

/// Bears a taint for ever, also where the template says for how long.
fn tolerate(spec: &mut PodSpec, key: &str, effect: &str) {
    let toleration = Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let tolerations = spec.tolerations.get_or_insert_default();
    let is_same = |other: &&mut Toleration| {
        let value = other.value.as_deref().unwrap_or_default();
        (&other.key, &other.operator, &other.effect) == (&toleration.key, &toleration.operator, &toleration.effect)
            && value.is_empty()
    };
    match tolerations.iter_mut().find(is_same) {
        Some(same) => *same = toleration,
        None => tolerations.push(toleration),
    }
}
