//! Webhook configurations: programs that are asked before a write.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, integer, length};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

pub const WEBHOOK_CONFIGURATION: Described = Described {
    generations: true,
    insists_on_version: true,
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
    let versions = object::list(webhook, &["admissionReviewVersions"]);
    let here = path.child("admissionReviewVersions");
    if versions.is_empty() {
        errors.push(Error::required(&here, "must specify one of v1, v1beta1"));
    } else if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
        errors.push(Error::invalid(&here, versions.to_vec(), "must include at least one of v1, v1beta1"));
    }
    let here = path.child("clientConfig");
    let url = object::text(webhook, &["clientConfig", "url"]);
    let service = object::at(webhook, &["clientConfig", "service"]).is_some_and(Value::is_object);
    if url.is_empty() != service {
        errors.push(Error::required(&here, "exactly one of url or service is required"));
    } else if !service && !url.starts_with("https://") {
        let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        errors.push(Error::invalid(&here.child("url"), url, detail));
    }
}
