//! One webhook of a configuration, read once when the configuration changes.

use crate::outbound::Client;
use pintle_meta::labels::Selector;
use pintle_meta::object;
use serde_json::Value;
use std::time::Duration;

const DEFAULT_TIMEOUT_SECONDS: i64 = 10;

/// The versions of AdmissionReview that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

impl Version {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V1Beta1 => "v1beta1",
        }
    }
}

pub(super) struct Hook {
    pub(super) name: String,
    /// The configuration and the place in it: another webhook of the same name is another one.
    pub(super) id: String,
    pub(super) rules: Vec<Rule>,
    /// Requests of other versions are meant too.
    pub(super) takes_equivalents: bool,
    /// A call that fails is no reason to refuse.
    pub(super) fails_open: bool,
    pub(super) timeout: Duration,
    pub(super) may_dry_run: bool,
    /// None if it speaks no version that is known here.
    pub(super) version: Option<Version>,
    pub(super) namespaces: Selector,
    pub(super) objects: Selector,
    /// It is asked again when others changed the object after it.
    pub(super) is_asked_again: bool,
    pub(super) client: Client,
}

pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    /// Resource and subresource.
    pub(super) resources: Vec<(String, String)>,
    pub(super) scope: String,
}

impl Hook {
    pub(super) fn read(webhook: &Value, configuration: &str, index: usize) -> Self {
        let text = |key: &str| object::text(webhook, &[key]);
        let seconds = object::integer(webhook, &["timeoutSeconds"]).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let selector = |key: &str| match webhook.get(key) {
            None | Some(Value::Null) => Selector::everything(),
            selector => Selector::from_label_selector(selector).unwrap_or_else(Selector::everything),
        };
        let versions = object::list(webhook, &["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        let mut known = versions.filter_map(|version| match version {
            "v1" => Some(Version::V1),
            "v1beta1" => Some(Version::V1Beta1),
            _ => None,
        });
        let name = text("name").to_owned();
        Hook {
            id: format!("{configuration}/{name}/{index}"),
            name,
            rules: object::list(webhook, &["rules"]).iter().map(Rule::read).collect(),
            takes_equivalents: text("matchPolicy") != "Exact",
            fails_open: text("failurePolicy") == "Ignore",
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or(1)),
            may_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            version: known.next(),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            is_asked_again: text("reinvocationPolicy") == "IfNeeded",
            client: Client::read(&webhook["clientConfig"]),
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let words = |key: &str| {
            object::list(rule, &[key]).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let split = |name: &String| {
            let (resource, subresource) = name.split_once('/').unwrap_or((name, ""));
            (resource.to_owned(), subresource.to_owned())
        };
        Rule {
            operations: words("operations"),
            groups: words("apiGroups"),
            versions: words("apiVersions"),
            resources: words("resources").iter().map(split).collect(),
            scope: object::text(rule, &["scope"]).to_owned(),
        }
    }
}
