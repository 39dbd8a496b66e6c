//! What a ResourceQuota counts: which objects count for which of its resources, and how much.
//!
//! - Every namespaced kind counts as `count/RESOURCE.GROUP`; a few have an older name too (`configmaps`). Pods, Services and
//!   claims count for more, such as `requests.cpu`.
//! - A quota with scopes counts only what is in all of them; [`scopes`] says what is.
//! - Admission charges an object with [`Evaluator::usage`]; the loop adds up the same usage over all objects.

mod device_claims;
mod pods;
pub mod scopes;
mod services;
mod volume_claims;

pub use volume_claims::storage_class_of;

use crate::Amounts;
use jiff::Timestamp;
use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use scopes::Requirement;
use serde_json::Value;

/// What an object is charged for: how a kind counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluator {
    group: String,
    resource: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// One for each object.
    Objects,
}

/// A write that may be charged.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    pub subresource: &'a str,
    pub object: &'a Value,
    /// The object as it was; none where it is new.
    pub old: Option<&'a Value>,
}

/// Kinds that no quota counts.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("events.k8s.io", "events"),
];

/// Kinds that count in a way of their own.
const OWN: [(&str, &str, Kind); 4] = [
    ("", "pods", Kind::Pods),
    ("", "services", Kind::Services),
    ("", "persistentvolumeclaims", Kind::VolumeClaims),
    ("resource.k8s.io", "resourceclaims", Kind::DeviceClaims),
];

/// Kinds of the core group whose plural alone is their name in a quota too.
const ALIASED: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

const COUNT: &str = "count/";

impl Evaluator {
    /// How objects of a resource are counted; none where no quota counts them.
    pub fn of(group: &str, resource: &str) -> Option<Evaluator> {
        if IGNORED.contains(&(group, resource)) {
            return None;
        }
        let own = OWN.iter().find(|own| (own.0, own.1) == (group, resource)).map(|own| own.2);
        let kind = own.unwrap_or(Kind::Objects);
        Some(Evaluator { group: group.to_owned(), resource: resource.to_owned(), kind })
    }

    /// Those with names beside `count/RESOURCE.GROUP`.
    pub fn with_names_of_their_own() -> impl Iterator<Item = Evaluator> {
        let own = OWN.iter().map(|(group, resource, _)| (*group, *resource));
        own.chain(ALIASED.iter().map(|resource| ("", *resource)))
            .filter_map(|(group, resource)| Self::of(group, resource))
    }

    pub fn group(&self) -> &str {
        &self.group
    }

    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Does its usage follow from its existence alone, so that it need not be read to be counted?
    pub fn counts_existence(&self) -> bool {
        self.kind == Kind::Objects
    }

    /// May the write need a charge?
    pub fn handles(&self, write: Write<'_>) -> bool {
        let is_update = write.old.is_some();
        match (self.kind, write.subresource) {
            (Kind::Pods, "") => write.old.is_none_or(|old| scopes::ends(old) != scopes::ends(write.object)),
            (Kind::Pods, "resize") => is_update,
            (Kind::VolumeClaims, "status") => {
                write.old.is_some_and(|old| volume_claims::status_counts(write.object, old))
            }
            (Kind::Services | Kind::VolumeClaims | Kind::DeviceClaims, "") => true,
            (Kind::Objects, "") => !is_update,
            _ => false,
        }
    }

    /// Does this name in a quota's `hard` stand for something of this kind?
    pub fn counts(&self, name: &str) -> bool {
        let by_name = name.strip_prefix(COUNT) == Some(&self.qualified());
        by_name
            || match self.kind {
                Kind::Pods => pods::counts(name),
                Kind::Services => services::counts(name),
                Kind::VolumeClaims => volume_claims::counts(name),
                Kind::DeviceClaims => device_claims::counts(name),
                Kind::Objects => self.is_aliased() && name == self.resource,
            }
    }

    /// What a quota of `required` demands of the object: that it says what it will use.
    pub fn constraints(&self, required: &[&str], object: &Value) -> Result<(), String> {
        match self.kind {
            Kind::Pods => pods::constraints(required, object),
            _ => Ok(()),
        }
    }

    /// What an object is charged for.
    pub fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        let mut usage = Amounts::default();
        usage.set(format!("{COUNT}{}", self.qualified()), Quantity::from_units(1));
        match self.kind {
            Kind::Pods => usage.add(&pods::usage(object, now)),
            Kind::Services => usage.add(&services::usage(object)),
            Kind::VolumeClaims => usage.add(&volume_claims::usage(object)),
            Kind::DeviceClaims => usage.add(&device_claims::usage(object)),
            Kind::Objects if self.is_aliased() => usage.set(self.resource.clone(), Quantity::from_units(1)),
            Kind::Objects => {}
        }
        usage
    }

    /// Is the object in the scope that a quota names?
    pub fn is_in(&self, scope: &Requirement, object: &Value) -> bool {
        match self.kind {
            Kind::Pods => scopes::has_pod(scope, object),
            Kind::VolumeClaims => scopes::has_volume_claim(scope, object),
            // Nothing else has a scope: a quota with one does not count it.
            _ => false,
        }
    }

    /// Is the object in all of these scopes?
    pub fn is_in_all(&self, scopes: &[Requirement], object: &Value) -> bool {
        scopes.iter().all(|scope| self.is_in(scope, object))
    }

    /// Does a change of the object give back what it was charged for? Of a deletion it is known.
    pub fn releases(&self, old: &Value, new: &Value, now: Timestamp) -> bool {
        match self.kind {
            Kind::Objects => false,
            _ => {
                let usage = |object| self.usage(object, now);
                let scope = |object| {
                    (scopes::ends(object), object::text(object, &["spec", "volumeAttributesClassName"]).to_owned())
                };
                usage(old) != usage(new) || scope(old) != scope(new)
            }
        }
    }

    /// `deployments.apps`
    fn qualified(&self) -> String {
        pintle_meta::names::qualified_resource(&self.group, &self.resource)
    }

    fn is_aliased(&self) -> bool {
        self.group.is_empty() && ALIASED.contains(&self.resource.as_str())
    }
}

/// The resource that `count/RESOURCE.GROUP` counts, as resource and group.
pub fn counted_by_name(name: &str) -> Option<(&str, &str)> {
    let qualified = name.strip_prefix(COUNT)?;
    Some(qualified.split_once('.').unwrap_or((qualified, "")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_counts_by_its_name() {
        let deployments = Evaluator::of("apps", "deployments").unwrap();
        assert!(deployments.counts("count/deployments.apps"));
        assert!(!deployments.counts("count/deployments") && !deployments.counts("deployments"));
        assert_eq!(deployments.usage(&json!({}), Timestamp::UNIX_EPOCH).to_string(), "count/deployments.apps=1");
        let secrets = Evaluator::of("", "secrets").unwrap();
        assert!(secrets.counts("secrets") && secrets.counts("count/secrets"));
        assert_eq!(secrets.usage(&json!({}), Timestamp::UNIX_EPOCH).to_string(), "count/secrets=1,secrets=1");
        assert_eq!(Evaluator::of("", "events"), None);
        assert_eq!(counted_by_name("count/widgets.example.com"), Some(("widgets", "example.com")));
        assert_eq!(counted_by_name("pods"), None);
    }

    #[test]
    fn only_writes_that_change_what_is_used_are_charged() {
        let handles = |group: &str, resource: &str, subresource: &str, object: Value, old: Option<Value>| {
            let write = Write { subresource, object: &object, old: old.as_ref() };
            Evaluator::of(group, resource).unwrap().handles(write)
        };
        assert!(handles("", "pods", "", json!({}), None));
        assert!(!handles("", "pods", "", json!({}), Some(json!({}))));
        assert!(handles("", "pods", "", json!({"spec": {"activeDeadlineSeconds": 5}}), Some(json!({}))));
        assert!(handles("", "pods", "resize", json!({}), Some(json!({}))));
        assert!(!handles("", "pods", "status", json!({}), Some(json!({}))));
        assert!(handles("", "services", "", json!({}), Some(json!({}))));
        assert!(!handles("", "services", "status", json!({}), Some(json!({}))));
        assert!(!handles("", "configmaps", "", json!({}), Some(json!({}))));
    }
}
