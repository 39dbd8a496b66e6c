//! PodSecurity: the labels of a namespace say how much its Pods may take of the node, by Kubernetes' Pod Security Standards.
//!
//! - Pods are refused by the standard that is enforced. Of what their controllers would make, people are only warned: the Pods
//!   themselves will be refused.
//! - What counts without labels, and who is exempt, is configured ([`Configuration`]).
//! - A namespace whose labels become stricter keeps its Pods; who writes it is warned of those that would be refused now.

mod checks;
mod configuration;
mod policy;

pub use configuration::Configuration;
pub(super) use configuration::File;

use super::{Operation, Plugin, Review};
use crate::keys;
use checks::{Subject, Violation, details, reasons, violations};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use policy::{Level, Policy, Standard};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Subresources of Pods that change nothing that is checked.
const UNCHECKED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Kinds that make Pods, and where the template is.
const CONTROLLERS: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
];

/// Why a Pod was not checked, for the audit log.
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";

/// So many Pods are looked at when a namespace becomes stricter.
const MOST_PODS: usize = 3000;

pub struct PodSecurity(pub Arc<Configuration>);

impl Plugin for PodSecurity {
    fn concerns(&self, review: &Review<'_>) -> bool {
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        let subresource = review.call.path.subresource.as_str();
        let pod = review.is_of("", "pods", subresource) && !UNCHECKED.contains(&subresource);
        written && (pod || review.is_of("", "namespaces", "") || template_path(review).is_some())
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(object) = object else { return Ok(()) };
            match (review.is_of("", "namespaces", ""), template_path(review)) {
                (false, _) if self.is_exempt(review) => Ok(()),
                (true, _) => self.check_namespace(review, object).await,
                (false, Some(path)) => self.check_template(review, object, path).await,
                (false, None) => self.check_pod(review, object).await,
            }
        })
    }
}

impl PodSecurity {
    /// Is the namespace or the user exempt, whatever the Pod is?
    fn is_exempt(&self, review: &Review<'_>) -> bool {
        let exempt = &self.0.exempt;
        let names = [
            ("namespace", &exempt.namespaces, review.call.namespace()),
            ("user", &exempt.usernames, &review.call.user.name),
        ];
        let why = names.into_iter().find(|(_, all, name)| all.iter().any(|one| one == name));
        why.inspect(|(what, ..)| review.notes.annotate(EXEMPT, *what)).is_some()
    }

    fn is_exempt_by_class(&self, review: &Review<'_>, spec: &Value) -> bool {
        let class = object::text(spec, &["runtimeClassName"]);
        let is_exempt = !class.is_empty() && self.0.exempt.runtime_classes.iter().any(|one| one == class);
        if is_exempt {
            review.notes.annotate(EXEMPT, "runtimeClass");
        }
        is_exempt
    }

    /// Labels without effect are warned of.
    fn warn_of_exemption(&self, review: &Review<'_>, namespace: &Value, policy: Policy) -> bool {
        let name = object::name(namespace);
        if !self.0.exempt.namespaces.iter().any(|one| one == name) {
            return false;
        }
        if !policy.asks_nothing() && policy != self.0.defaults {
            let labelled = policy.labelled(namespace);
            review.notes.warn(format!(
                "namespace {name:?} is exempt from Pod Security, and the policy ({labelled}) will be ignored"
            ));
        }
        true
    }

    async fn check_pod(&self, review: &Review<'_>, pod: &Value) -> Result<(), Status> {
        if review.old.is_some_and(|old| !changes_images(pod, old)) {
            return Ok(());
        }
        let policy = self.policy_of_namespace(review).await?;
        let subject = Subject { metadata: &pod["metadata"], spec: &pod["spec"] };
        if self.is_exempt_by_class(review, subject.spec) {
            return Ok(());
        }
        review.notes.annotate("pod-security.kubernetes.io/enforce-policy", policy.enforce.to_string());
        let found = violations(policy.enforce, &subject);
        note_audit(review, policy.audit, &subject);
        if !found.is_empty() {
            let why = format!("violates PodSecurity {:?}: {}", policy.enforce.to_string(), details(&found));
            return Err(review.forbidden(object::name(pod), &why));
        }
        warn(review, policy.warn, &subject);
        Ok(())
    }

    async fn check_template(&self, review: &Review<'_>, object: &Value, path: &[&str]) -> Result<(), Status> {
        let Some(template) = object::at(object, path).filter(|template| !template.is_null()) else { return Ok(()) };
        let policy = self.policy_of_namespace(review).await?;
        let subject = Subject { metadata: &template["metadata"], spec: &template["spec"] };
        if self.is_exempt_by_class(review, subject.spec) {
            return Ok(());
        }
        note_audit(review, policy.audit, &subject);
        warn(review, policy.warn, &subject);
        Ok(())
    }

    async fn policy_of_namespace(&self, review: &Review<'_>) -> Result<Policy, Status> {
        let name = review.call.namespace();
        let namespace = review.read(&keys::named(keys::NAMESPACES, name)).await?;
        let namespace = namespace.ok_or_else(|| Status::internal(format!("failed to lookup namespace {name:?}")))?;
        let (policy, errors) = Policy::of(&namespace, &self.0.defaults);
        if !errors.is_empty() {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            review
                .notes
                .annotate("pod-security.kubernetes.io/error", format!("Failed to parse policy: {}", all.join(", ")));
        }
        Ok(policy)
    }

    async fn check_namespace(&self, review: &Review<'_>, namespace: &Value) -> Result<(), Status> {
        let (new, errors) = Policy::of(namespace, &self.0.defaults);
        let invalid = || Err(Status::invalid("", "Namespace", object::name(namespace), &errors));
        let Some(old) = review.old else {
            self.warn_of_exemption(review, namespace, new);
            return if errors.is_empty() { Ok(()) } else { invalid() };
        };
        let (old, old_errors) = Policy::of(old, &self.0.defaults);
        // Labels that were there before there was a check do not keep anything else from being written.
        if !errors.is_empty() && errors != old_errors {
            return invalid();
        }
        let relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
        let stricter = new.enforce.level > Level::Privileged && !relaxed;
        if stricter && !self.warn_of_exemption(review, namespace, new) {
            let pods = review.list(keys::namespace(keys::PODS, object::name(namespace))).await?;
            review.notes.warn_all(warnings(object::name(namespace), new.enforce, pods));
        }
        Ok(())
    }
}

fn template_path(review: &Review<'_>) -> Option<&'static [&'static str]> {
    let found = CONTROLLERS.iter().find(|(group, resource, _)| review.is_of(group, resource, ""));
    found.map(|(_, _, path)| *path)
}

fn note_audit(review: &Review<'_>, standard: Standard, subject: &Subject<'_>) {
    let found = violations(standard, subject);
    if !found.is_empty() {
        review.notes.annotate("pod-security.kubernetes.io/audit-violations", would_violate(standard, &found));
    }
}

fn warn(review: &Review<'_>, standard: Standard, subject: &Subject<'_>) {
    let found = violations(standard, subject);
    if !found.is_empty() {
        review.notes.warn(would_violate(standard, &found));
    }
}

fn would_violate(standard: Standard, found: &[Violation]) -> String {
    format!("would violate PodSecurity {:?}: {}", standard.to_string(), details(found))
}

/// Of a Pod's fields that are checked only images and further containers can change.
fn changes_images(pod: &Value, old: &Value) -> bool {
    let images = |pod: &Value, kind: &str| -> Vec<(String, String)> {
        let text = |container: &Value, key: &str| object::text(container, &[key]).to_owned();
        object::list(pod, &["spec", kind]).iter().map(|c| (text(c, "name"), text(c, "image"))).collect()
    };
    let same = |kind: &str| images(pod, kind) == images(old, kind);
    let known = images(old, "ephemeralContainers");
    let added = images(pod, "ephemeralContainers").iter().any(|container| !known.contains(container));
    added || !same("containers") || !same("initContainers")
}

/// Which Pods that are there would be refused now: those with the same violations together.
fn warnings(namespace: &str, standard: Standard, pods: Vec<Value>) -> Vec<String> {
    let (all, pods) = (pods.len(), by_priority(pods));
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in pods.iter().take(MOST_PODS) {
        let found = violations(standard, &Subject { metadata: &pod["metadata"], spec: &pod["spec"] });
        if !found.is_empty() {
            names.entry(reasons(&found)).or_default().push(object::name(pod));
        }
    }
    let mut said = Vec::new();
    if all > MOST_PODS {
        let part = format!("only checked against the first {MOST_PODS} of {all} existing pods");
        said.push(format!("new PodSecurity enforce level {part}"));
    }
    if !names.is_empty() {
        let level = standard.to_string();
        said.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {level:?}"
        ));
    }
    let mut of_pods: Vec<String> = names
        .into_iter()
        .filter_map(|(found, mut names)| {
            names.sort_unstable();
            let (first, others) = names.split_first()?;
            Some(match others.len() {
                0 => format!("{first}: {found}"),
                1 => format!("{first} (and 1 other pod): {found}"),
                count => format!("{first} (and {count} other pods): {found}"),
            })
        })
        .collect();
    of_pods.sort();
    said.extend(of_pods);
    said
}

/// One Pod of each controller first: the others are like it.
fn by_priority(pods: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    let (mut first, others): (Vec<Value>, Vec<Value>) = pods.into_iter().partition(|pod| {
        let mut owners = object::list(pod, &["metadata", "ownerReferences"]).iter();
        let controller = owners.find(|owner| object::flag(owner, &["controller"]));
        controller.is_none_or(|owner| seen.insert(object::text(owner, &["uid"]).to_owned()))
    });
    first.extend(others);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_that_are_there_are_named_once_for_each_reason() {
        let pod = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let (policy, _) = Policy::of(
            &json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
            &Policy::default(),
        );
        let host = json!({"hostNetwork": true});
        let pods = vec![
            pod("b", host.clone()),
            pod("good", json!({})),
            pod("a", host.clone()),
            pod(
                "c",
                json!({"hostPID": true,
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
            ),
        ];
        assert_eq!(
            warnings("shop", policy.enforce, pods),
            [
                "existing pods in namespace \"shop\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "a (and 1 other pod): host namespaces",
                "c: host namespaces, hostPath volumes",
            ]
        );
        assert_eq!(warnings("shop", policy.enforce, vec![pod("good", json!({}))]), [""; 0]);
    }

    #[test]
    fn a_pod_is_checked_again_only_when_it_runs_something_else() {
        let pod = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
        assert!(changes_images(&pod("b"), &pod("a")) && !changes_images(&pod("a"), &pod("a")));
        let mut debugged = pod("a");
        debugged["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "i"}]);
        assert!(changes_images(&debugged, &pod("a")) && !changes_images(&pod("a"), &debugged));
    }
}
