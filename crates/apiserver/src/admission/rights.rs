//! Nobody gives away more than they have: a role holds only rights that its author holds, and so does a binding.

use super::forbidden;
use crate::authn::MASTERS;
use crate::authz::rules::Rule;
use crate::authz::{Attributes, Authorizer};
use crate::registry::Write;
use crate::resources::check;
use pintle_meta::{Status, object};
use serde_json::Value;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) async fn must_be_held(
    authorizer: &Authorizer,
    write: &Write<'_>,
    old: Option<&Value>,
    object: &Value,
) -> Result<(), Status> {
    if write.user.is_in(MASTERS) || old.is_some_and(|old| only_owners_or_finalizers_differ(old, object)) {
        return Ok(());
    }
    let policy = authorizer.policy().await;
    // Who may escalate, or bind this very role, need not hold what is in it.
    let (verb, resource, name, rules) = match write.resource.kind.as_str() {
        "Role" | "ClusterRole" => ("escalate", write.resource.name.as_str(), object::name(object), rules_of(object)),
        _ => {
            let (kind, name) = (object::text(object, &["roleRef", "kind"]), object::text(object, &["roleRef", "name"]));
            let (resource, namespace) = match kind {
                "ClusterRole" => ("clusterroles", ""),
                _ => ("roles", write.namespace),
            };
            let Some(rules) = policy.role(namespace, name) else {
                return Err(Status::not_found(GROUP, resource, name));
            };
            ("bind", resource, name, rules.to_vec())
        }
    };
    let attributes =
        Attributes { verb, group: GROUP, resource, namespace: write.namespace, name, ..Attributes::default() };
    if authorizer.allows(write.user, &attributes).await {
        return Ok(());
    }
    let held: Vec<&Rule> = policy.rules_for(write.user, write.namespace).collect();
    let missing = missing(&held, &rules);
    if !missing.is_empty() {
        let groups: Vec<String> = write.user.groups.iter().map(|g| format!("{g:?}")).collect();
        let why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            write.user.name,
            groups.join(" "),
            missing.join("\n")
        );
        return Err(forbidden(write, object::name(object), &why));
    }
    // An aggregating role takes in whatever its selectors will ever match, so it needs every right there is.
    if old.into_iter().chain([object]).any(aggregates) && !self::missing(&held, &full_authority()).is_empty() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(forbidden(write, object::name(object), why));
    }
    Ok(())
}

/// The parts of `rules` that none of the held rules covers, as text.
fn missing(held: &[&Rule], rules: &[Rule]) -> Vec<String> {
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
fn only_owners_or_finalizers_differ(old: &Value, new: &Value) -> bool {
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
