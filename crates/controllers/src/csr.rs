//! What several loops ask about a CertificateSigningRequest: who it is for, which names it wants, what became of it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, parse_x509_pem};

pub(crate) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(crate) const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(crate) const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";

/// The request inside, as far as loops ask. The API server has checked its signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
    /// Names of a kind that no node has: mail addresses, URIs and others.
    pub(crate) others: bool,
}

impl Asked {
    pub(crate) fn of(csr: &CertificateSigningRequest) -> Option<Asked> {
        let (_, block) = parse_x509_pem(&csr.spec.request.0).ok()?;
        let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
        let subject = &request.certification_request_info.subject;
        // Readers of certificates differ in which of two names they take.
        let mut names = subject.iter_common_name();
        let (Some(common_name), None) = (names.next(), names.next()) else { return None };
        let mut asked = Asked {
            common_name: common_name.as_str().ok()?.to_owned(),
            organizations: subject
                .iter_organization()
                .map(|o| o.as_str().map(str::to_owned))
                .collect::<Result<_, _>>()
                .ok()?,
            ..Asked::default()
        };
        let alternatives =
            request.requested_extensions().into_iter().flatten().filter_map(|extension| match extension {
                ParsedExtension::SubjectAlternativeName(alternatives) => Some(&alternatives.general_names),
                _ => None,
            });
        for name in alternatives.flatten() {
            match name {
                GeneralName::DNSName(name) => asked.names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => match address(bytes) {
                    Some(address) => asked.addresses.push(address),
                    None => asked.others = true,
                },
                _ => asked.others = true,
            }
        }
        Some(asked)
    }

    /// The node that it names as its subject.
    pub(crate) fn node(&self) -> Option<&str> {
        self.common_name.strip_prefix("system:node:").filter(|name| !name.is_empty())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

/// Why a request is not one that the signer of its name signs; nothing for signers of others.
pub(crate) fn refusal(signer: &str, asked: &Asked, usages: &[String]) -> Option<&'static str> {
    let usages: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let for_node = |own: &str| {
        let needed = BTreeSet::from(["digital signature", own]);
        let with_encipherment = BTreeSet::from(["digital signature", "key encipherment", own]);
        if asked.organizations != ["system:nodes"] {
            Some("subject organization is not system:nodes")
        } else if asked.node().is_none() {
            Some("subject common name does not begin with system:node:")
        } else if asked.others {
            Some("only DNS names and IP addresses are allowed as subjectAltNames")
        } else if usages != needed && usages != with_encipherment {
            Some("usages are not those that a node's certificate has")
        } else {
            None
        }
    };
    let has_names = !asked.names.is_empty() || !asked.addresses.is_empty();
    match signer {
        NODE_CLIENT => for_node("client auth").or(has_names.then_some("subjectAltNames are not allowed")),
        NODE_SERVING => for_node("server auth").or((!has_names).then_some("DNS or IP subjectAltName is required")),
        CLIENT if !usages.contains("client auth") => Some("missing required usage for client certificate: client auth"),
        CLIENT
            if !usages.iter().all(|usage| ["client auth", "digital signature", "key encipherment"].contains(usage)) =>
        {
            Some("invalid usage for client certificate")
        }
        _ => None,
    }
}

/// The condition of that type, if it holds.
pub(crate) fn condition<'a>(
    csr: &'a CertificateSigningRequest,
    kind: &str,
) -> Option<&'a CertificateSigningRequestCondition> {
    let conditions = csr.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

pub(crate) fn is_issued(csr: &CertificateSigningRequest) -> bool {
    csr.status.as_ref().and_then(|status| status.certificate.as_ref()).is_some_and(|bytes| !bytes.0.is_empty())
}
