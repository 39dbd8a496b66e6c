//! Nobody gives away more than they have: a role holds only rights that its author holds, and so does a binding.

use super::{Operation, Plugin, Review};
use crate::authn::MASTERS;
use crate::authz::rule::Rule;
use crate::call::Call;
use crate::request::ResourcePath;
use crate::resources::check;
use crate::verb::Verb;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

pub struct Rights;

impl Plugin for Rights {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.resource.group == GROUP && matches!(review.operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match object {
                Some(object) => must_be_held(review, object).await,
                None => Ok(()),
            }
        })
    }
}

async fn must_be_held(review: &Review<'_>, object: &Value) -> Result<(), Status> {
    let (user, namespace) = (&review.call.user, review.call.namespace());
    if user.is_in(MASTERS) || review.old.is_some_and(|old| only_owners_or_finalizers_differ(old, object)) {
        return Ok(());
    }
    let authorizer = review.authorizer();
    let policy = authorizer.policy().await;
    // Who may escalate, or bind this very role, need not hold what is in it.
    let (verb, resource, name, rules) = match review.resource.kind.as_str() {
        "Role" | "ClusterRole" => ("escalate", review.resource.name.as_str(), object::name(object), rules_of(object)),
        _ => {
            let (kind, name) = (object::text(object, &["roleRef", "kind"]), object::text(object, &["roleRef", "name"]));
            let (resource, namespace) = match kind {
                "ClusterRole" => ("clusterroles", ""),
                _ => ("roles", namespace),
            };
            let Some(rules) = policy.role(namespace, name) else {
                return Err(Status::not_found(GROUP, resource, name));
            };
            ("bind", resource, name, rules.to_vec())
        }
    };
    let path = ResourcePath {
        group: GROUP.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..ResourcePath::default()
    };
    if authorizer.allows(&Call::asks(user.clone(), Verb::right(verb), path)).await {
        return Ok(());
    }
    let held = policy.rules_for(user, namespace);
    let missing = missing(&held, &rules);
    if !missing.is_empty() {
        let groups: Vec<String> = user.groups.iter().map(|g| format!("{g:?}")).collect();
        let why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            groups.join(" "),
            missing.join("\n")
        );
        return Err(review.forbidden(object::name(object), &why));
    }
    // An aggregating role takes in whatever its selectors will ever match, so it needs every right there is.
    let aggregating = review.old.into_iter().chain([object]).any(aggregates);
    if aggregating && !self::missing(&held, &full_authority()).is_empty() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(review.forbidden(object::name(object), why));
    }
    Ok(())
}

/// The parts of `rules` that none of the held rules covers, as text.
fn missing(held: &[Rule], rules: &[Rule]) -> Vec<String> {
    let parts = rules.iter().flat_map(Rule::parts);
    parts.filter(|part| !held.iter().any(|h| h.covers(part))).map(|part| part.to_string()).collect()
}

fn aggregates(role: &Value) -> bool {
    !object::list(role, &["aggregationRule", "clusterRoleSelectors"]).is_empty()
}

fn full_authority() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), paths: all(), ..Rule::default() },
    ]
}

/// The garbage collector lets go of roles and bindings without the rights that are in them.
pub(super) fn only_owners_or_finalizers_differ(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        let metadata = object::metadata(&mut rest);
        for key in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            metadata.remove(key);
        }
        rest
    };
    check::same(&rest(old), &rest(new))
}

fn rules_of(role: &Value) -> Vec<Rule> {
    object::list(role, &["rules"]).iter().map(Rule::from_value).collect()
}
