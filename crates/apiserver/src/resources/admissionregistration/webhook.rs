//! Webhook configurations: programs that are asked before a write.

use crate::resources::client_config;
use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, integer, length};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

pub const WEBHOOK_CONFIGURATION: Described = Described {
    generations: true,
    insists_on_version: true,
    checks: check_names,
    printed: Some(&[
        NAME,
        integer(
            "Webhooks",
            "Webhooks indicates the number of webhooks registered in this configuration",
            |configuration, _| length(configuration, &["webhooks"]),
        ),
        AGE,
    ]),
    ..PLAIN
};

pub fn check(webhook: &Value, path: &Path, errors: &mut Errors) {
    let name = object::text(webhook, &["name"]);
    let here = path.child("name");
    if name.is_empty() {
        errors.push(Error::required(&here, ""));
    } else {
        errors.extend(rules::dns_subdomain(name).into_iter().map(|p| Error::invalid(&here, name, p)));
        if name.split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            errors.push(Error::invalid(&here, name, detail));
        }
    }
    if let Some(seconds) = object::integer(webhook, &["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(Error::invalid(&path.child("timeoutSeconds"), seconds, detail));
    }
    client_config::check(&webhook["clientConfig"], &path.child("clientConfig"), errors);
    check_conditions(webhook, path, errors);
    check_versions(webhook, &path.child("admissionReviewVersions"), errors);
}

fn check_versions(webhook: &Value, path: &Path, errors: &mut Errors) {
    let versions = object::list(webhook, &["admissionReviewVersions"]);
    let is_known = |version: &Value| version == "v1" || version == "v1beta1";
    if versions.is_empty() {
        errors.push(Error::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let (here, text) = (path.index(index), version.as_str().unwrap_or_default());
        if versions[..index].contains(version) {
            errors.push(Error::invalid(&here, text, "duplicate version"));
        } else {
            errors.extend(rules::dns_1035_label(text).into_iter().map(|problem| Error::invalid(&here, text, problem)));
        }
    }
    if !versions.iter().any(is_known) {
        errors.push(Error::invalid(path, versions.to_vec(), "must include at least one of v1, v1beta1"));
    }
}

/// A condition that was accepted and never evaluated would let through what it should hold back.
fn check_conditions(webhook: &Value, path: &Path, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (here, condition) in crate::resources::rules::items(webhook, path, "matchConditions") {
        let name = object::text(condition, &["name"]);
        if name.is_empty() {
            errors.push(Error::required(&here.child("name"), ""));
        } else if seen.contains(&name) {
            errors.push(Error::duplicate(&here.child("name"), name));
        }
        seen.push(name);
        let expression = object::text(condition, &["expression"]);
        let detail = "Pintle does not evaluate CEL expressions yet; use namespaceSelector, objectSelector and rules";
        errors.push(Error::invalid(&here.child("expression"), expression, detail));
    }
}

/// Every webhook of a configuration has a name of its own.
fn check_names(configuration: &Value, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (here, webhook) in crate::resources::rules::items(configuration, &Path::root(), "webhooks") {
        let name = object::text(webhook, &["name"]);
        if !name.is_empty() && seen.contains(&name) {
            errors.push(Error::duplicate(&here.child("name"), name));
        }
        seen.push(name);
    }
}
