//! What a node may do: what concerns itself, the Pods on it, and what these Pods name.

use super::graph::Graph;
use super::rule::Rule;
use super::{Verdict, bootstrap};
use crate::call::Call;
use crate::follow::Follower;
use crate::resources::core::pod_spec::references::Kind;
use crate::verb::Verb;
use pintle_meta::object;
use std::sync::LazyLock;

/// Everything else that a node may do, whichever objects it concerns.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let roles = bootstrap::cluster_roles();
    let role = roles.iter().find(|role| object::name(role) == "system:node");
    role.map(|role| object::list(role, &["rules"]).iter().map(Rule::from_value).collect()).unwrap_or_default()
});

pub(super) async fn judge(node: &str, call: &Call, graph: &Follower<Graph>) -> Verdict {
    let allowed = || Verdict::Allow(String::new());
    match opinion(node, call) {
        Opinion::Yes => allowed(),
        Opinion::No(reason) => Verdict::NoOpinion(reason),
        Opinion::Rules if RULES.iter().any(|rule| rule.allows(call)) => allowed(),
        Opinion::Rules => Verdict::NoOpinion(String::new()),
        Opinion::If(tie) if is_tied(&*graph.current().await, node, tie, call) => allowed(),
        Opinion::If(_) => Verdict::NoOpinion(format!("no relationship found between node '{node}' and this object")),
    }
}

/// What stands between a node and an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// A Pod on the node names it.
    Named(Kind),
    /// A claim that a Pod on the node names is bound to it.
    Bound,
    /// It is a Pod on the node.
    Runs,
    /// It attaches a volume to the node.
    Attaches,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Opinion {
    Yes,
    No(String),
    Rules,
    If(Tie),
}

fn opinion(node: &str, call: &Call) -> Opinion {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    if !call.is_of_objects() {
        return Opinion::Rules;
    }
    let (verb, path, name) = (&call.verb, &call.path, call.name());
    let no = |reason: &str| Opinion::No(reason.to_owned());
    let own = *verb == Create || name == node;
    let keeps = matches!(verb, Get | Create | Update | Patch | Delete);
    let changes = matches!(verb, Update | Patch);
    let reads = matches!(verb, Get | List | Watch);
    let selects = |field: &str| call.fields.required(field) == Some(node);
    let when = |holds: bool| if holds { Opinion::Yes } else { no("") };
    let tied = |tie: Tie| if name.is_empty() { no("No Object name found") } else { Opinion::If(tie) };
    let got = |tie: Tie| match (verb, path.subresource.as_str()) {
        (Get, "") => tied(tie),
        (Get, _) => no("cannot get subresource"),
        _ => no("can only get individual resources of this type"),
    };
    let read_in_namespace = |tie: Tie| match (reads, path.subresource.as_str(), path.namespace.as_str()) {
        (false, ..) => no("can only read resources of this type"),
        (_, "", "") => no("can only read namespaced object of this type"),
        (_, "", _) => tied(tie),
        _ => no("cannot read subresource"),
    };
    match (path.group.as_str(), path.resource.as_str(), path.subresource.as_str()) {
        ("", "secrets", _) => read_in_namespace(Tie::Named(Kind::Secret)),
        ("", "configmaps", _) => read_in_namespace(Tie::Named(Kind::ConfigMap)),
        ("", "persistentvolumeclaims", "status") if changes => tied(Tie::Named(Kind::Claim)),
        ("", "persistentvolumeclaims", "status") => no("can only get/update/patch this type"),
        ("", "persistentvolumeclaims", _) => got(Tie::Named(Kind::Claim)),
        ("", "persistentvolumes", _) => got(Tie::Bound),
        ("storage.k8s.io", "volumeattachments", _) => got(Tie::Attaches),
        ("", "serviceaccounts", "") if *verb == Get => read_in_namespace(Tie::Named(Kind::Account)),
        ("", "serviceaccounts", _) if *verb != Create || name.is_empty() => {
            no("can only create tokens for individual service accounts")
        }
        ("", "serviceaccounts", "token") => tied(Tie::Named(Kind::Account)),
        ("", "serviceaccounts", _) => no("can only create token subresource of serviceaccount"),
        ("coordination.k8s.io", "leases", _) if !keeps => {
            no("can only get, create, update, patch, or delete a node lease")
        }
        ("coordination.k8s.io", "leases", _) if path.namespace != "kube-node-lease" => {
            no("can only access leases in the \"kube-node-lease\" system namespace")
        }
        ("coordination.k8s.io", "leases", _) if !own => {
            no("can only access node lease with the same name as the requesting node")
        }
        ("coordination.k8s.io", "leases", _) => Opinion::Yes,
        ("storage.k8s.io", "csinodes", _) if !keeps => no("can only get, create, update, patch, or delete a CSINode"),
        ("storage.k8s.io", "csinodes", "") if own => Opinion::Yes,
        ("storage.k8s.io", "csinodes", "") => no("can only access CSINode with the same name as the requesting node"),
        ("storage.k8s.io", "csinodes", _) => no("cannot authorize CSINode subresources"),
        ("", "nodes", "") => match (verb, name) {
            (Create | Update | Patch, _) => Opinion::Yes,
            (Get | List | Watch, "") => {
                Opinion::No(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            (Get | List | Watch, name) if name == node => Opinion::Yes,
            (Get | List | Watch, name) => {
                Opinion::No(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => no(""),
        },
        ("", "nodes", "status") => when(changes),
        ("", "nodes", _) => no(""),
        ("", "pods", "") => match verb {
            Create | Delete => Opinion::Yes,
            List | Watch if selects("spec.nodeName") => Opinion::Yes,
            List | Watch if name.is_empty() => no("can only list/watch pods with spec.nodeName field selector"),
            Get | List | Watch => tied(Tie::Runs),
            _ => no(""),
        },
        ("", "pods", "status") => when(changes),
        ("", "pods", "eviction") => when(*verb == Create),
        ("", "pods", _) => no(""),
        _ => Opinion::Rules,
    }
}

fn is_tied(graph: &Graph, node: &str, tie: Tie, call: &Call) -> bool {
    let (namespace, name) = (call.path.namespace.as_str(), call.name());
    match tie {
        Tie::Named(kind) => graph.names(node, kind, namespace, name),
        Tie::Bound => graph.is_bound(node, name),
        Tie::Runs => graph.runs(node, namespace, name),
        Tie::Attaches => graph.attaches(node, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::User;
    use crate::request::{ResourcePath, Target};
    use std::sync::Arc;

    /// `verb [group:]resource[/subresource] [namespace/][name] [selector]`
    fn call(line: &str) -> Call {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (verb, what, which, selector) = (word(), word(), word(), word());
        let (group, what) = what.split_once(':').unwrap_or(("", what));
        let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
        let (namespace, name) = which.split_once('/').unwrap_or(("", which));
        let selector = match (verb, name) {
            ("list" | "watch", name) if !name.is_empty() => format!("metadata.name={name}"),
            _ => selector.to_owned(),
        };
        let path = ResourcePath {
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..ResourcePath::default()
        };
        let query = crate::request::Query::of("fieldSelector", &selector);
        let target = Target { verb: Verb::of(verb), path, query, ..Target::default() };
        Call::new(target, None, Arc::new(User::default()), http::HeaderMap::new())
    }

    #[test]
    fn a_node_reaches_itself_and_what_is_tied_to_it_and_nothing_of_other_nodes() {
        use Kind::*;
        const NO: Opinion = Opinion::No(String::new());
        let table = [
            ("get nodes a", Opinion::Yes),
            ("get nodes b", NO),
            ("list nodes", NO),
            ("watch nodes a", Opinion::Yes),
            ("delete nodes a", NO),
            ("patch nodes/status a", Opinion::Yes),
            ("get nodes/proxy a", NO),
            ("list pods", NO),
            ("list pods  spec.nodeName=a", Opinion::Yes),
            ("watch pods  spec.nodeName=b", NO),
            ("get pods d/p", Opinion::If(Tie::Runs)),
            ("patch pods d/p", NO),
            ("patch pods/status d/p", Opinion::Yes),
            ("create pods/exec d/p", NO),
            ("get secrets d/s", Opinion::If(Tie::Named(Secret))),
            ("list secrets d/", NO),
            ("list secrets", NO),
            ("update secrets d/s", NO),
            ("get configmaps d/c", Opinion::If(Tie::Named(ConfigMap))),
            ("get persistentvolumeclaims d/c", Opinion::If(Tie::Named(Claim))),
            ("get persistentvolumes v", Opinion::If(Tie::Bound)),
            ("create serviceaccounts/token d/x", Opinion::If(Tie::Named(Account))),
            ("create serviceaccounts d/x", NO),
            ("update coordination.k8s.io:leases kube-node-lease/a", Opinion::Yes),
            ("update coordination.k8s.io:leases kube-node-lease/b", NO),
            ("update coordination.k8s.io:leases kube-system/a", NO),
            ("create coordination.k8s.io:leases kube-node-lease/", Opinion::Yes),
            ("get storage.k8s.io:csinodes b", NO),
            ("get storage.k8s.io:volumeattachments x", Opinion::If(Tie::Attaches)),
            ("list services", Opinion::Rules),
        ];
        for (line, expected) in table {
            // Why not is for people to read.
            let said = match opinion("a", &call(line)) {
                Opinion::No(_) => NO,
                other => other,
            };
            assert_eq!(said, expected, "{line}");
        }
        let allowed = |verb: &str, group: &str, resource: &str| {
            RULES.iter().any(|rule| rule.allows(&call(&format!("{verb} {group}:{resource}"))))
        };
        assert!(allowed("watch", "", "services"));
        assert!(allowed("create", "certificates.k8s.io", "certificatesigningrequests"));
        assert!(!allowed("update", "apps", "deployments"));
    }
}
