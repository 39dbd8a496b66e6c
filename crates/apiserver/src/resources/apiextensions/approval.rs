//! Groups of the Kubernetes community (`*.k8s.io`, `*.kubernetes.io`): a definition there says who approved its API.

use pintle_meta::field::{Error, Path};
use pintle_meta::object;
use serde_json::Value;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const WHERE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
pub const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Missing,
    Invalid,
    /// The annotation says that it is not approved, which is enough.
    Bypassed,
    Approved,
}

impl Approval {
    /// Nothing for groups that need none.
    pub fn of(definition: &Value) -> Option<Approval> {
        let group = object::text(definition, &["spec", "group"]);
        let protected = ["k8s.io", "kubernetes.io"]
            .iter()
            .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
        protected.then(|| match annotation(definition) {
            "" => Approval::Missing,
            text if text.starts_with("unapproved") => Approval::Bypassed,
            text if is_url(text) => Approval::Approved,
            _ => Approval::Invalid,
        })
    }

    pub fn error(self, definition: &Value) -> Option<Error> {
        let path = Path::new("metadata").child("annotations").key(ANNOTATION);
        match self {
            Approval::Missing => Some(Error::required(&path, self.reason(definition))),
            Approval::Invalid => Some(Error::invalid(&path, annotation(definition), self.reason(definition))),
            Approval::Bypassed | Approval::Approved => None,
        }
    }

    /// The status, the reason and the message of its condition.
    pub fn condition(self, definition: &Value) -> (&'static str, &'static str, String) {
        let (status, reason) = match self {
            Approval::Missing => ("False", "MissingAnnotation"),
            Approval::Invalid => ("False", "InvalidAnnotation"),
            Approval::Bypassed => ("False", "UnapprovedAnnotation"),
            Approval::Approved => ("True", "ApprovedAnnotation"),
        };
        (status, reason, self.reason(definition))
    }

    fn reason(self, definition: &Value) -> String {
        let text = annotation(definition);
        match self {
            Approval::Missing => format!("protected groups must have approval annotation {ANNOTATION:?}, {WHERE}"),
            Approval::Invalid => format!(
                "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting with \"unapproved\", {WHERE}"
            ),
            Approval::Bypassed => format!("not approved: {text:?}"),
            Approval::Approved => format!("approved in {text}"),
        }
    }
}

fn annotation(definition: &Value) -> &str {
    object::text(definition, &["metadata", "annotations", ANNOTATION])
}

/// A scheme and a host.
fn is_url(text: &str) -> bool {
    let uri: Result<http::Uri, _> = text.parse();
    uri.is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn groups_of_the_community_need_an_approval() {
        for (group, text, approval) in [
            ("example.com", "", None),
            ("notk8s.io", "", None),
            ("k8s.io", "", Some(Approval::Missing)),
            (
                "gateway.networking.k8s.io",
                "https://github.com/kubernetes-sigs/gateway-api/pull/2466",
                Some(Approval::Approved),
            ),
            ("a.kubernetes.io", "unapproved, experimental-only", Some(Approval::Bypassed)),
            ("a.kubernetes.io", "yes", Some(Approval::Invalid)),
        ] {
            let definition = json!({"spec": {"group": group}, "metadata": {"annotations": {ANNOTATION: text}}});
            assert_eq!(Approval::of(&definition), approval, "{group} {text}");
            let refused = approval.and_then(|approval| approval.error(&definition)).is_some();
            assert_eq!(refused, matches!(approval, Some(Approval::Missing | Approval::Invalid)));
        }
    }
}
