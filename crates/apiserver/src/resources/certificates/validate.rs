//! What a CertificateSigningRequest must be, and what may change in it by which door.

use super::request;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;
use std::collections::BTreeSet;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const SHORTEST: i64 = 600;
const LONGEST_DOMAIN: usize = 253;
const LONGEST_NAME: usize = 571;
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// Conditions that say what became of the request; they are true or they are not there.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

pub(super) fn new(csr: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    if let Err(why) = request::subject(csr) {
        errors.push(Error::invalid(&spec.child("request"), object::text(csr, &["spec", "request"]), why));
    }
    usages(object::list(csr, &["spec", "usages"]), &spec.child("usages"), errors);
    signer(object::text(csr, &["spec", "signerName"]), &spec.child("signerName"), errors);
    if let Some(seconds) = object::integer(csr, &["spec", "expirationSeconds"]).filter(|seconds| *seconds < SHORTEST) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(Error::invalid(&spec.child("expirationSeconds"), seconds, why));
    }
}

/// What was asked cannot change; conditions are added, those of an approval by `approval` alone, the certificate by `status`
/// alone and once.
pub(super) fn changed(csr: &Value, old: &Value, subresource: &str, errors: &mut Errors) {
    let status = Path::new("status");
    let here = status.child("conditions");
    conditions(object::list(csr, &["status", "conditions"]), &here, errors);
    for kind in FINAL {
        let (now, before) = (of_type(csr, kind), of_type(old, kind));
        let what = if now.len() < before.len() {
            "remove"
        } else if subresource == "approval" || kind == "Failed" {
            continue;
        } else if now.len() > before.len() {
            "add"
        } else if now != before {
            "modify"
        } else {
            continue;
        };
        errors.push(Error::forbidden(&here, format!("updates may not {what} a condition of type {kind:?}")));
    }
    let certificate = |csr| object::text(csr, &["status", "certificate"]);
    if certificate(csr) == certificate(old) {
        return;
    }
    let here = status.child("certificate");
    if subresource != "status" {
        errors.push(Error::forbidden(&here, "updates may not set certificate content"));
    } else if !certificate(old).is_empty() {
        errors.push(Error::forbidden(&here, "updates may not modify existing certificate content"));
    } else if let Err(why) = request::check_certificate(certificate(csr)) {
        errors.push(Error::invalid(&here, "<certificate data>", why));
    }
}

fn of_type<'a>(csr: &'a Value, kind: &str) -> Vec<&'a Value> {
    object::list(csr, &["status", "conditions"]).iter().filter(|condition| condition["type"] == kind).collect()
}

fn usages(usages: &[Value], path: &Path, errors: &mut Errors) {
    if usages.is_empty() {
        errors.push(Error::required(path, ""));
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().enumerate() {
        let usage = usage.as_str().unwrap_or_default();
        if !USAGES.contains(&usage) {
            errors.push(Error::not_supported(&path.index(index), usage, USAGES));
        }
        if !seen.insert(usage) {
            errors.push(Error::duplicate(&path.index(index), usage));
        }
    }
}

/// `example.com/signer-name`; that there is one at all is a rule of the kind.
fn signer(name: &str, path: &Path, errors: &mut Errors) {
    if name.is_empty() {
        return;
    }
    if name == LEGACY {
        errors.push(Error::invalid(path, name, "the legacy signerName is not allowed via this API version"));
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(Error::invalid(path, name, why));
        return;
    };
    if domain.len() > LONGEST_DOMAIN {
        errors.push(Error::too_long(path, LONGEST_DOMAIN));
    }
    let mut labels = |text: &str, rule: fn(&str) -> rules::Problems| {
        for label in text.split('.') {
            let problems = rule(label);
            for problem in &problems {
                errors.push(Error::invalid(path, text, format!("validating label {label:?}: {problem}")));
            }
            if !problems.is_empty() {
                break;
            }
        }
    };
    labels(domain, rules::dns_label);
    labels(rest, rules::dns_subdomain);
    if !domain.contains('.') {
        errors.push(Error::invalid(path, domain, "should be a domain with at least two segments separated by dots"));
    }
    if name.len() > LONGEST_NAME {
        errors.push(Error::too_long(path, LONGEST_NAME));
    }
}

fn conditions(conditions: &[Value], path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let (here, kind) = (path.index(index), object::text(condition, &["type"]));
        if kind.is_empty() {
            errors.push(Error::required(&here.child("type"), ""));
        }
        let allowed: &[&str] = if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match object::text(condition, &["status"]) {
            "" => errors.push(Error::required(&here.child("status"), "")),
            status if !allowed.contains(&status) => {
                errors.push(Error::not_supported(&here.child("status"), status, allowed));
            }
            _ => {}
        }
        if (kind == "Approved" && seen.contains("Denied")) || (kind == "Denied" && seen.contains("Approved")) {
            errors.push(Error::invalid(path, kind, "Approved and Denied conditions are mutually exclusive"));
        }
        if !seen.insert(kind) {
            errors.push(Error::duplicate(&here.child("type"), kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    fn pem() -> String {
        let key = KeyPair::generate().unwrap();
        let request = CertificateParams::default().serialize_request(&key).unwrap();
        base64::prelude::BASE64_STANDARD.encode(request.pem().unwrap())
    }

    fn told(errors: &Errors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_that_nobody_could_sign_is_refused_by_its_field() {
        let good = json!({"spec": {"request": pem(), "usages": ["client auth"], "signerName": "example.com/x"}});
        let mut errors = Errors::new();
        new(&good, &mut errors);
        assert_eq!(told(&errors), Vec::<String>::new());
        for (field, value, expected) in [
            (
                "request",
                json!("bm8="),
                "spec.request: Invalid value: \"bm8=\": PEM block type must be CERTIFICATE REQUEST",
            ),
            ("usages", json!([]), "spec.usages: Required value"),
            ("usages", json!(["signing", "signing"]), "spec.usages[1]: Duplicate value: \"signing\""),
            (
                "signerName",
                json!("kubernetes.io/legacy-unknown"),
                "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
            ),
            (
                "signerName",
                json!("x"),
                "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ),
            (
                "expirationSeconds",
                json!(599),
                "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            ),
        ] {
            let mut request = good.clone();
            request["spec"][field] = value;
            let mut errors = Errors::new();
            new(&request, &mut errors);
            assert_eq!(told(&errors), [expected], "{field}");
        }
    }

    #[test]
    fn a_request_is_approved_by_one_door_and_signed_by_another() {
        let with = |conditions: Value, certificate: &str| json!({"status": {"conditions": conditions, "certificate": certificate}});
        let approved = json!([{"type": "Approved", "status": "True"}]);
        let table = [
            (with(json!([]), ""), with(approved.clone(), ""), "approval", ""),
            (
                with(json!([]), ""),
                with(approved.clone(), ""),
                "status",
                "updates may not add a condition of type \"Approved\"",
            ),
            (
                with(approved.clone(), ""),
                with(json!([]), ""),
                "approval",
                "updates may not remove a condition of type \"Approved\"",
            ),
            (with(json!([]), ""), with(json!([]), "eA=="), "approval", "updates may not set certificate content"),
            (
                with(json!([]), "eA=="),
                with(json!([]), "eQ=="),
                "status",
                "updates may not modify existing certificate content",
            ),
            (with(json!([]), ""), with(json!([]), "eA=="), "status", "must contain at least one CERTIFICATE PEM block"),
            (
                with(json!([]), ""),
                with(json!([{"type": "Denied", "status": "False"}]), ""),
                "approval",
                "supported values: \"True\"",
            ),
        ];
        for (old, request, door, expected) in table {
            let mut errors = Errors::new();
            changed(&request, &old, door, &mut errors);
            match expected {
                "" => assert!(errors.is_empty(), "{:?}", told(&errors)),
                expected => {
                    assert!(told(&errors).iter().any(|e| e.contains(expected)), "{:?} {expected}", told(&errors))
                }
            }
        }
    }
}
