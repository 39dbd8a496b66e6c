//! How a definition converts between its versions: not at all, or by asking a webhook.

use super::spec::is_established;
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
        Some(config) => client_config(config, old, &config_path, errors),
    }
    review_versions(versions, old, &versions_path, errors);
}

fn client_config(config: &Value, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(given), None) => check_url(given, &path.child("url"), errors),
        (None, Some(given)) => check_service(given, &path.child("service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
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

fn check_url(url: &str, path: &Path, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Some(parts) = Url::parse(url) else {
        errors.push(Error::required(path, format!("url must be a valid URL: parse {url:?}: invalid URL{FORM}")));
        return;
    };
    let mut refuse = |value: &str, detail: String| errors.push(Error::invalid(path, value, detail));
    if !parts.scheme.eq_ignore_ascii_case("https") {
        let scheme = parts.scheme.to_lowercase();
        refuse(&scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parts.host.is_empty() {
        refuse("", format!("host must be specified{FORM}"));
    }
    if let Some(user) = parts.user {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    if !parts.fragment.is_empty() {
        refuse(parts.fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !parts.query.is_empty() {
        refuse(parts.query, "query parameters are not permitted in the URL".to_owned());
    }
}

struct Url<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Url<'a> {
    /// Nothing for what is no URL at all.
    fn parse(text: &'a str) -> Option<Self> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if text.chars().any(char::is_control) || text.starts_with(':') {
            return None;
        }
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        };
        let (scheme, rest) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", text));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let port = host.rsplit_once(']').map_or(host, |(_, after)| after).rsplit_once(':').map_or("", |(_, port)| port);
        let sound = |c: char| !matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
        if !port.bytes().all(|byte| byte.is_ascii_digit()) || !host.chars().all(sound) {
            return None;
        }
        Some(Url { scheme, user, host, query, fragment })
    }
}

fn check_service(service: &Value, path: &Path, errors: &mut Errors) {
    let text = |key: &str| object::text(service, &[key]);
    // The API takes the one for the other when it tells which is missing.
    for (missing, told) in [("namespace", "name"), ("name", "namespace")] {
        if text(missing).is_empty() {
            errors.push(Error::required(&path.child(told), ""));
        }
    }
    let port = object::integer(service, &["port"]).unwrap_or(0);
    let problems = rules::port_number(port);
    if !problems.is_empty() {
        errors.push(Error::invalid(&path.child("port"), port, format!("port is not valid: {}", problems.join(", "))));
    }
    check_path(text("path"), &path.child("path"), errors);
}

fn check_path(given: &str, path: &Path, errors: &mut Errors) {
    let mut refuse = |detail: String| errors.push(Error::invalid(path, given, detail));
    if given.is_empty() || given == "/" {
        return;
    }
    if given == "//" {
        refuse("segment[0] may not be empty".to_owned());
        return;
    }
    if !given.starts_with('/') {
        refuse("must start with a '/'".to_owned());
    }
    let mut rest = given.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            refuse(format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in rules::dns_subdomain(step) {
            refuse(format!("segment[{index}]: {problem}"));
        }
    }
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
