//! What a node may do: what concerns itself, the Pods on it, and what these Pods name.
//!
//! There is no graph to keep: the Pods of a node are found by the field that every entry carries, and only those whose bytes
//! hold the name that is asked for are read. So the answer is never behind the store.

use super::Attributes;
use super::bootstrap;
use super::rules::Rule;
use crate::codec;
use crate::resources::core::pod_spec::references;
use pintle_meta::object;
use pintle_store::{Range, Store};
use serde_json::Value;
use std::sync::LazyLock;

/// Everything else that a node may do, whichever objects it concerns.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let roles = bootstrap::cluster_roles();
    let role = roles.iter().find(|role| object::name(role) == "system:node");
    role.map(|role| object::list(role, &["rules"]).iter().map(Rule::from_value).collect()).unwrap_or_default()
});

pub(super) async fn allows(store: &dyn Store, node: &str, asked: &Attributes<'_>) -> bool {
    if node.is_empty() {
        return false;
    }
    match judge(node, asked) {
        Verdict::Yes => true,
        Verdict::No => false,
        Verdict::Rules => RULES.iter().any(|rule| rule.allows(asked)),
        Verdict::If(tie) => is_tied(store, node, tie, asked.namespace, asked.name).await,
    }
}

/// What stands between a node and an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// A Pod on the node names it.
    Named(references::Kind),
    /// A claim that a Pod on the node names is bound to it.
    Bound,
    /// It is a Pod on the node.
    Runs,
    /// It attaches a volume to the node.
    Attaches,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Yes,
    No,
    Rules,
    If(Tie),
}

fn judge(node: &str, asked: &Attributes<'_>) -> Verdict {
    use references::Kind;
    let reads = matches!(asked.verb, "get" | "list" | "watch") && asked.subresource.is_empty();
    let gets = asked.verb == "get" && asked.subresource.is_empty();
    let own = asked.verb == "create" || asked.name == node;
    let keeps = matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete");
    let selects = |field: &str| asked.fields.is_some_and(|fields| fields.required(field) == Some(node));
    let when = |holds: bool| if holds { Verdict::Yes } else { Verdict::No };
    let tied = |may: bool, tie: Tie| if may && !asked.name.is_empty() { Verdict::If(tie) } else { Verdict::No };
    if asked.path.is_some() {
        return Verdict::Rules;
    }
    match (asked.group, asked.resource, asked.subresource) {
        ("", "secrets", _) => tied(reads && !asked.namespace.is_empty(), Tie::Named(Kind::Secret)),
        ("", "configmaps", _) => tied(reads && !asked.namespace.is_empty(), Tie::Named(Kind::ConfigMap)),
        ("", "persistentvolumeclaims", "status") => {
            tied(matches!(asked.verb, "update" | "patch"), Tie::Named(Kind::Claim))
        }
        ("", "persistentvolumeclaims", _) => tied(gets, Tie::Named(Kind::Claim)),
        ("", "persistentvolumes", _) => tied(gets, Tie::Bound),
        ("storage.k8s.io", "volumeattachments", _) => tied(gets, Tie::Attaches),
        ("", "serviceaccounts", "token") => tied(asked.verb == "create", Tie::Named(Kind::Account)),
        ("", "serviceaccounts", _) => tied(gets, Tie::Named(Kind::Account)),
        ("coordination.k8s.io", "leases", _) => when(keeps && own && asked.namespace == "kube-node-lease"),
        ("storage.k8s.io", "csinodes", "") => when(keeps && own),
        ("storage.k8s.io", "csinodes", _) => Verdict::No,
        ("", "nodes", "") => match asked.verb {
            "create" | "update" | "patch" => Verdict::Yes,
            _ => when(reads && asked.name == node),
        },
        ("", "nodes", "status") => when(matches!(asked.verb, "update" | "patch")),
        ("", "nodes", _) => Verdict::No,
        ("", "pods", "") => match asked.verb {
            "create" | "delete" => Verdict::Yes,
            "list" | "watch" if selects("spec.nodeName") => Verdict::Yes,
            _ => tied(reads, Tie::Runs),
        },
        ("", "pods", "status") => when(matches!(asked.verb, "update" | "patch")),
        ("", "pods", "eviction") => when(asked.verb == "create"),
        ("", "pods", _) => Verdict::No,
        _ => Verdict::Rules,
    }
}

async fn is_tied(store: &dyn Store, node: &str, tie: Tie, namespace: &str, name: &str) -> bool {
    match tie {
        Tie::Named(kind) => names(store, node, namespace, kind, name).await,
        Tie::Bound => {
            let Some(volume) = read(store, &format!("/registry/persistentvolumes/{name}")).await else { return false };
            let claim = |key| object::text(&volume, &["spec", "claimRef", key]);
            let (namespace, claim) = (claim("namespace"), claim("name"));
            !claim.is_empty() && names(store, node, namespace, references::Kind::Claim, claim).await
        }
        Tie::Runs => {
            let pod = read(store, &format!("/registry/pods/{namespace}/{name}")).await;
            pod.is_some_and(|pod| runs_on(&pod, node))
        }
        Tie::Attaches => {
            let attachment = read(store, &format!("/registry/volumeattachments/{name}")).await;
            attachment.is_some_and(|attachment| object::text(&attachment, &["spec", "nodeName"]) == node)
        }
    }
}

async fn read(store: &dyn Store, key: &str) -> Option<Value> {
    store.get(key).await.ok()?.map(|entry| codec::decode(&entry.value))
}

fn runs_on(pod: &Value, node: &str) -> bool {
    object::text(pod, &["spec", "nodeName"]) == node
}

/// Whether a Pod on the node names the object.
async fn names(store: &dyn Store, node: &str, namespace: &str, kind: references::Kind, name: &str) -> bool {
    let Ok(page) = store.range(Range::prefix(format!("/registry/pods/{namespace}/")).cached()).await else {
        return false;
    };
    page.entries.iter().any(|entry| {
        // An ephemeral claim's name is made of two others, which stand apart.
        let may = kind == references::Kind::Claim || contains(&entry.value, name);
        if !may || !contains(&entry.value, node) {
            return false;
        }
        let pod = codec::decode(&entry.value);
        runs_on(&pod, node) && references::of(&pod).any(|found| found == (kind, name.into()))
    })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|stored| stored.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::labels::FieldSelector;

    /// `verb [group/]resource[/subresource] [namespace/][name] [?selector]`
    fn ask(line: &str) -> Verdict {
        let mut words = line.split(' ');
        let (verb, what, which) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
        let selector = words.next().unwrap_or("").trim_start_matches('?');
        let (group, what) = what.split_once(':').unwrap_or(("", what));
        let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
        let (namespace, name) = which.split_once('/').unwrap_or(("", which));
        let fields = FieldSelector::parse(selector).unwrap();
        let attributes =
            Attributes { verb, group, resource, subresource, namespace, name, fields: Some(&fields), path: None };
        judge("a", &attributes)
    }

    #[test]
    fn a_node_reaches_itself_and_what_is_tied_to_it_and_nothing_of_other_nodes() {
        use references::Kind::*;
        let table = [
            ("get nodes a", Verdict::Yes),
            ("get nodes b", Verdict::No),
            ("list nodes", Verdict::No),
            ("watch nodes a", Verdict::Yes),
            ("delete nodes a", Verdict::No),
            ("patch nodes/status a", Verdict::Yes),
            ("get nodes/proxy a", Verdict::No),
            ("list pods", Verdict::No),
            ("list pods  ?spec.nodeName=a", Verdict::Yes),
            ("watch pods  ?spec.nodeName=b", Verdict::No),
            ("get pods d/p", Verdict::If(Tie::Runs)),
            ("patch pods d/p", Verdict::No),
            ("patch pods/status d/p", Verdict::Yes),
            ("create pods/exec d/p", Verdict::No),
            ("get secrets d/s", Verdict::If(Tie::Named(Secret))),
            ("list secrets d/", Verdict::No),
            ("list secrets", Verdict::No),
            ("update secrets d/s", Verdict::No),
            ("get configmaps d/c", Verdict::If(Tie::Named(ConfigMap))),
            ("get persistentvolumeclaims d/c", Verdict::If(Tie::Named(Claim))),
            ("get persistentvolumes v", Verdict::If(Tie::Bound)),
            ("create serviceaccounts/token d/x", Verdict::If(Tie::Named(Account))),
            ("create serviceaccounts d/x", Verdict::No),
            ("update coordination.k8s.io:leases kube-node-lease/a", Verdict::Yes),
            ("update coordination.k8s.io:leases kube-node-lease/b", Verdict::No),
            ("update coordination.k8s.io:leases kube-system/a", Verdict::No),
            ("create coordination.k8s.io:leases kube-node-lease/", Verdict::Yes),
            ("get storage.k8s.io:csinodes b", Verdict::No),
            ("get storage.k8s.io:volumeattachments x", Verdict::If(Tie::Attaches)),
            ("list services", Verdict::Rules),
        ];
        for (line, expected) in table {
            assert_eq!(ask(line), expected, "{line}");
        }
        let allowed = |verb, group, resource| {
            RULES.iter().any(|rule| rule.allows(&Attributes { verb, group, resource, ..Attributes::default() }))
        };
        assert!(allowed("watch", "", "services"));
        assert!(allowed("create", "certificates.k8s.io", "certificatesigningrequests"));
        assert!(!allowed("update", "apps", "deployments"));
    }
}
