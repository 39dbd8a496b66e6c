//! Who may do what: a chain of authorizers, each of which allows, denies with a reason, or has no opinion.
//!
//! The first that allows or denies decides. When none has an opinion the answer is no, with all their reasons.

pub mod bootstrap;
mod graph;
mod node;
pub mod policy;
pub mod rule;

use crate::authn::MASTERS;
use crate::call::Call;
use crate::follow::Follower;
use crate::notes::Notes;
use graph::Graph;
use pintle_meta::Status;
use pintle_meta::names::qualified_resource;
use pintle_store::Store;
use policy::Policy;
use std::sync::Arc;

/// What an authorizer says of a call. The words are for people, in the 403 or in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow(String),
    Deny(String),
    NoOpinion(String),
}

/// The members of the chain.
enum Member {
    /// Administrators may do everything.
    Masters,
    /// Nodes, by what runs on them.
    Nodes(Follower<Graph>),
    /// Everybody, by roles and bindings.
    Roles(Arc<Follower<Policy>>),
}

pub struct Authorizer {
    chain: Vec<Member>,
    policy: Arc<Follower<Policy>>,
}

impl Authorizer {
    pub fn new(store: &Arc<dyn Store>) -> Self {
        let policy = Arc::new(Follower::new(store.clone(), policy::PREFIXES));
        let graph = Follower::new(store.clone(), graph::PREFIXES);
        Authorizer { chain: vec![Member::Masters, Member::Nodes(graph), Member::Roles(policy.clone())], policy }
    }

    /// The roles and bindings of this moment.
    pub async fn policy(&self) -> Arc<Policy> {
        self.policy.current().await
    }

    pub async fn judge(&self, call: &Call) -> Verdict {
        let mut reasons: Vec<String> = Vec::new();
        for member in &self.chain {
            match member.judge(call).await {
                Verdict::NoOpinion(reason) if reason.is_empty() => {}
                Verdict::NoOpinion(reason) => reasons.push(reason),
                decided => return decided,
            }
        }
        Verdict::NoOpinion(reasons.join("\n"))
    }

    pub async fn allows(&self, call: &Call) -> bool {
        matches!(self.judge(call).await, Verdict::Allow(_))
    }

    pub async fn authorize(&self, call: &Call, notes: &Notes) -> Result<(), Status> {
        let (decision, reason) = match self.judge(call).await {
            Verdict::Allow(reason) => ("allow", reason),
            Verdict::Deny(reason) | Verdict::NoOpinion(reason) => ("forbid", reason),
        };
        notes.annotate("authorization.k8s.io/decision", decision);
        let refused = decision == "forbid";
        let status = refused.then(|| forbidden(call, &reason));
        notes.annotate("authorization.k8s.io/reason", reason);
        status.map_or(Ok(()), Err)
    }
}

impl Member {
    async fn judge(&self, call: &Call) -> Verdict {
        match self {
            Member::Masters if call.user.is_in(MASTERS) => Verdict::Allow(String::new()),
            Member::Masters => Verdict::NoOpinion(String::new()),
            Member::Nodes(graph) => match call.user.node() {
                None => Verdict::NoOpinion(String::new()),
                Some("") => Verdict::NoOpinion(format!("unknown node for user {:?}", call.user.name)),
                Some(name) => node::judge(name, call, graph).await,
            },
            Member::Roles(policy) => match policy.current().await.judge(call) {
                Ok(binding) => Verdict::Allow(format!("RBAC: allowed by {binding}")),
                Err(missing) => Verdict::NoOpinion(missing_roles(&missing)),
            },
        }
    }
}

/// Bindings to roles that are not there: most likely what somebody who is refused forgot.
fn missing_roles(missing: &[String]) -> String {
    match missing {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}

pub fn forbidden(call: &Call, reason: &str) -> Status {
    let (user, verb) = (&call.user.name, call.verb.as_str());
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    if !call.is_of_objects() {
        let message = format!("forbidden: User {user:?} cannot {verb} path {:?}{because}", call.url);
        return Status::new(403, "Forbidden", message).with_details(serde_json::json!({}));
    }
    let (path, name) = (&call.path, call.name());
    let whole = match path.subresource.as_str() {
        "" => path.resource.clone(),
        subresource => format!("{}/{subresource}", path.resource),
    };
    let place = match path.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let object = if name.is_empty() { String::new() } else { format!(" {name:?}") };
    let message = format!(
        "{}{object} is forbidden: User {user:?} cannot {verb} resource {whole:?} in API group {:?} {place}{because}",
        qualified_resource(&path.group, &path.resource),
        path.group
    );
    Status::new(403, "Forbidden", message).with_details(pintle_meta::status::about(name, &path.group, &path.resource))
}
