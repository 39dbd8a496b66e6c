//! How a definition converts between its versions: not at all, or by asking a webhook.

use super::spec::is_established;
use crate::resources::client_config;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use std::collections::BTreeSet;

/// The versions of ConversionReview that this server speaks.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// `spec` is the new one, `old` the stored definition.
pub(super) fn check(spec: &Value, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    let Some(conversion) = spec.get("conversion").filter(|conversion| conversion.is_object()) else { return };
    let config = object::at(conversion, &["webhook", "clientConfig"]).filter(|config| config.is_object());
    let versions = object::list(conversion, &["webhook", "conversionReviewVersions"]);
    // Clients know these fields from where older versions of the API have them.
    let (config_path, versions_path) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let strategy = object::text(conversion, &["strategy"]);
    match strategy {
        "" => errors.push(Error::required(&path.child("strategy"), "")),
        "None" | "Webhook" => {}
        other => errors.push(Error::not_supported(&path.child("strategy"), other, &["None", "Webhook"])),
    }
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(Error::forbidden(&config_path, detail));
        }
        if !versions.is_empty() {
            errors.push(Error::forbidden(&versions_path, detail));
        }
        return;
    }
    match config {
        None => errors.push(Error::required(&config_path, "required when strategy is set to Webhook")),
        Some(config) => check_client(config, old, &config_path, errors),
    }
    review_versions(versions, old, &versions_path, errors);
}

fn check_client(config: &Value, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    client_config::check(config, path, errors);
    let bundle = object::text(config, &["caBundle"]);
    // A bundle is often filled in after the definition, by another hand.
    let may_be_wrong = old.is_none_or(|old| !is_established(old) || !has_sound_certificates(old));
    if !bundle.is_empty() && !may_be_wrong && !is_bundle(bundle) {
        let detail = "unable to load root certificates: unable to parse bytes as PEM block";
        errors.push(Error::invalid(&path.child("caBundle"), bundle, detail));
    }
}

/// Whether a definition names no certificates for its webhook, or such as can be read.
pub(crate) fn has_sound_certificates(definition: &Value) -> bool {
    let bundle = object::text(definition, &["spec", "conversion", "webhook", "clientConfig", "caBundle"]);
    bundle.is_empty() || is_bundle(bundle)
}

/// At least one certificate in PEM.
fn is_bundle(encoded: &str) -> bool {
    let Ok(pem) = BASE64_STANDARD.decode(encoded) else { return false };
    let mut certificates = CertificateDer::pem_slice_iter(&pem).flatten();
    certificates.any(|certificate| x509_parser::parse_x509_certificate(&certificate).is_ok())
}

fn review_versions(versions: &[Value], old: Option<&Value>, path: &Path, errors: &mut Errors) {
    let known = |version: &Value| version.as_str().is_some_and(|version| REVIEW_VERSIONS.contains(&version));
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if !seen.insert(text) {
            errors.push(Error::invalid(&path.index(index), text, "duplicate version"));
            continue;
        }
        let problems = rules::dns_1035_label(text).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&path.index(index), text, problem)));
    }
    // A definition that never named a known version may stay so.
    let stored = old.map(|old| object::list(old, &["spec", "conversion", "webhook", "conversionReviewVersions"]));
    let asked = stored.is_none_or(|stored| stored.is_empty() || stored.iter().any(known));
    if asked && !versions.iter().any(known) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(path, versions.to_vec(), detail));
    }
}
