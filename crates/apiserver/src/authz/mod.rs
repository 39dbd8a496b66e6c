//! Who may do what: a chain of authorizers, each of which allows, denies with a reason, or has no opinion.
//!
//! The first that allows or denies decides. When none has an opinion the answer is no, with all their reasons. One that could not
//! judge says why: then a request that nobody allows is not refused but failed.

pub mod bootstrap;
pub mod config;
mod graph;
mod node;
pub mod policy;
pub mod rule;
mod webhook;

use crate::authn::{MASTERS, User};
use crate::call::Call;
use crate::follow::Follower;
use crate::notes::Notes;
use crate::outbound::Outbound;
use config::{Authorization, Mode};
use graph::Graph;
use pintle_meta::names::qualified_resource;
use pintle_meta::{Clock, Random, Status};
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

/// A verdict, and what went wrong on the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgment {
    pub verdict: Verdict,
    pub error: Option<String>,
}

impl From<Verdict> for Judgment {
    fn from(verdict: Verdict) -> Self {
        Judgment { verdict, error: None }
    }
}

/// Why a request does not go on.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    Forbidden(Status),
    /// Nobody allowed it, and somebody who might have could not judge.
    Undecided(String),
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Status {
        match refused {
            Refused::Forbidden(status) => status,
            Refused::Undecided(why) => Status::internal(why),
        }
    }
}

/// The members of the chain.
enum Member {
    /// Administrators may do everything.
    Masters,
    AlwaysAllow,
    AlwaysDeny,
    /// Nodes, by what runs on them.
    Nodes(Follower<Graph>),
    /// Everybody, by roles and bindings.
    Roles(Arc<Follower<Policy>>),
    /// A program outside.
    Webhook(webhook::Webhook),
}

/// What those who look on are told to use for a rule that a webhook decides.
const NO_RULES_OF_WEBHOOKS: &str = "webhook authorizer does not support user rule resolution";
const NO_RULES_OF_NODES: &str = "node authorizer does not support user rule resolution";

pub struct Authorizer {
    chain: Vec<Member>,
    policy: Arc<Follower<Policy>>,
}

impl Authorizer {
    /// The members that are configured, behind administrators, who are always asked about first.
    pub fn new(
        store: &Arc<dyn Store>,
        config: Authorization,
        outbound: &Arc<Outbound>,
        clock: &Clock,
        random: &Random,
    ) -> Self {
        let policy = Arc::new(Follower::new(store.clone(), policy::PREFIXES));
        let members = config.chain.into_iter().map(|mode| match mode {
            Mode::Node => Member::Nodes(Follower::new(store.clone(), graph::PREFIXES)),
            Mode::Rbac => Member::Roles(policy.clone()),
            Mode::AlwaysAllow => Member::AlwaysAllow,
            Mode::AlwaysDeny => Member::AlwaysDeny,
            Mode::Webhook(webhook) => Member::Webhook(webhook::Webhook::new(*webhook, outbound, clock, random)),
        });
        let chain = std::iter::once(Member::Masters).chain(members).collect();
        Authorizer { chain, policy }
    }

    /// The roles and bindings of this moment.
    pub async fn policy(&self) -> Arc<Policy> {
        self.policy.current().await
    }

    pub async fn judge(&self, call: &Call) -> Judgment {
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        let mut decided = None;
        for member in &self.chain {
            let Judgment { verdict, error } = member.judge(call).await;
            match verdict {
                Verdict::NoOpinion(reason) if reason.is_empty() => {}
                Verdict::NoOpinion(reason) => reasons.push(reason),
                verdict => {
                    // What went wrong before counts no more.
                    errors.clear();
                    decided = Some(verdict);
                }
            }
            errors.extend(error);
            if decided.is_some() {
                break;
            }
        }
        let error = match errors.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        };
        Judgment { verdict: decided.unwrap_or_else(|| Verdict::NoOpinion(reasons.join("\n"))), error }
    }

    pub async fn allows(&self, call: &Call) -> bool {
        matches!(self.judge(call).await.verdict, Verdict::Allow(_))
    }

    pub async fn authorize(&self, call: &Call, notes: &Notes) -> Result<(), Refused> {
        let Judgment { verdict, error } = self.judge(call).await;
        let reason = match (verdict, error) {
            (Verdict::Allow(reason), _) => {
                notes.annotate("authorization.k8s.io/decision", "allow");
                notes.annotate("authorization.k8s.io/reason", reason);
                return Ok(());
            }
            (_, Some(why)) => {
                notes.annotate("authorization.k8s.io/reason", "internal error");
                return Err(Refused::Undecided(why));
            }
            (Verdict::Deny(reason) | Verdict::NoOpinion(reason), None) => reason,
        };
        let status = forbidden(call, &reason);
        notes.annotate("authorization.k8s.io/decision", "forbid");
        notes.annotate("authorization.k8s.io/reason", reason);
        Err(Refused::Forbidden(status))
    }

    /// Why the rules that roles give a user are not all that it may do; empty if they are.
    pub fn beyond_roles(&self, user: &User) -> Vec<&'static str> {
        let beyond = self.chain.iter().filter_map(|member| match member {
            Member::Nodes(_) if user.node().is_some() => Some(NO_RULES_OF_NODES),
            Member::Webhook(_) => Some(NO_RULES_OF_WEBHOOKS),
            _ => None,
        });
        beyond.collect()
    }
}

impl Member {
    async fn judge(&self, call: &Call) -> Judgment {
        let verdict = match self {
            Member::Masters if call.user.is_in(MASTERS) => Verdict::Allow(String::new()),
            Member::Masters => Verdict::NoOpinion(String::new()),
            Member::AlwaysAllow => Verdict::Allow(String::new()),
            Member::AlwaysDeny => Verdict::NoOpinion("Everything is forbidden.".to_owned()),
            Member::Nodes(graph) => match call.user.node() {
                None => Verdict::NoOpinion(String::new()),
                Some("") => Verdict::NoOpinion(format!("unknown node for user {:?}", call.user.name)),
                Some(name) => node::judge(name, call, graph).await,
            },
            Member::Roles(policy) => match policy.current().await.judge(call) {
                Ok(binding) => Verdict::Allow(format!("RBAC: allowed by {binding}")),
                Err(missing) => Verdict::NoOpinion(missing_roles(&missing)),
            },
            Member::Webhook(webhook) => return Box::pin(webhook.judge(call)).await,
        };
        verdict.into()
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
