//! The request inside a CertificateSigningRequest, as PKCS #10 has it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::object;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, parse_x509_pem};

/// Whom a certificate is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Subject {
    pub common_name: String,
    pub organizations: Vec<String>,
}

/// Reads `spec.request`, and checks that the requester has the key. The error is what the user reads.
pub fn subject(request: &Value) -> Result<Subject, String> {
    let bytes = BASE64_STANDARD.decode(object::text(request, &["spec", "request"])).unwrap_or_default();
    let block =
        parse_x509_pem(&bytes).ok().map(|(_, block)| block).filter(|block| block.label == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let (rest, asked) = X509CertificationRequest::from_der(&block.contents).map_err(|error| error.to_string())?;
    if !rest.is_empty() {
        return Err("there is something behind the request".to_owned());
    }
    asked.verify_signature().map_err(|_| "the signature does not match the key of the request")?;
    let subject = &asked.certification_request_info.subject;
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().ok().map(str::to_owned);
    Ok(Subject {
        common_name: subject.iter_common_name().last().and_then(text).unwrap_or_default(),
        organizations: subject.iter_organization().filter_map(text).collect(),
    })
}

/// Whether `status.certificate` holds certificates and nothing else; an empty one is none.
pub fn check_certificate(certificate: &str) -> Result<(), String> {
    let bytes = BASE64_STANDARD.decode(certificate).map_err(|error| error.to_string())?;
    let mut rest = bytes.as_slice();
    let mut blocks = 0;
    while let Ok((after, block)) = parse_x509_pem(rest) {
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        block.parse_x509().map_err(|error| error.to_string())?;
        blocks += 1;
        rest = after;
    }
    if blocks == 0 && !bytes.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}
