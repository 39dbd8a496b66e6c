//! The names of a project: what was asked for, checked, and what follows from it.

use pintle_meta::rules;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// `website-operator`
    pub(super) project: String,
    /// `website_operator`
    pub(super) library: String,
    /// `example.com`
    pub(super) group: String,
    /// `Website`
    pub(super) kind: String,
    /// `website`
    pub(super) singular: String,
    /// `websites`
    pub(super) plural: String,
}

/// A name that would not do, and why.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadName {
    #[error("{0:?} cannot be the name of a project: {1}")]
    Project(String, String),
    #[error("{0:?} cannot be an API group: {1}")]
    Group(String, String),
    #[error("{0:?} cannot be a kind: {1}. Choose one with --kind, such as Website")]
    Kind(String, String),
}

/// What Rust keeps for itself, and what the project depends on: a package of that name could not.
const TAKEN: &str = "\
    abstract alloc anyhow as async await become box break const continue core crate do dyn else enum extern false \
    final fn for gen if impl in k8s-openapi kube let loop macro match mod move mut override pintle-runtime \
    pintle-testkit priv proc-macro pub ref return schemars self serde serde-json serde-saphyr static std struct \
    super test tokio trait tracing-subscriber true try type typeof unsafe unsized use virtual where while yield";

/// Names that the project's own code, or code that is derived in it, uses for something else.
const USED: &str = "\
    Action AsRef Attempt Box Clone Cluster Condition ConditionType Container Context Controller Copy CustomResource \
    Debug Default DeleteParams Deployment DeploymentSpec DeploymentStatus Deserialize Drop Duration Eq Err Error \
    Event Fn From Future Hash Holds Informer Into Iterator JsonSchema Key LabelSelector ListParams None ObjectMeta \
    Ok Operator Option Ord PartialEq PartialOrd Patch PatchParams Pod PodSpec PodTemplate PodTemplateSpec PostParams \
    Reconciler Recorder Report Resource ResourceExt Result Scenario Schema SchemaGenerator Self Send Serialize \
    Shutdown Sized Some Status Step String Sync ToOwned ToString Try TryFrom TryInto Value Vec";

/// Groups that Kubernetes keeps for kinds which its community has looked at.
const PROTECTED: &[&str] = &["k8s.io", "kubernetes.io"];

/// The plural must be a DNS label, and a label's key ends with the kind: both end at 63 characters.
const LONGEST_KIND: usize = 50;

impl Names {
    pub(super) fn of(project: &str, group: &str, kind: Option<&str>) -> Result<Names, BadName> {
        check(project, group)?;
        let kind = kind.map_or_else(|| kind_of(project), str::to_owned);
        check_kind(&kind)?;
        let singular = kind.to_lowercase();
        Ok(Names {
            project: project.to_owned(),
            library: project.replace('-', "_"),
            group: group.to_owned(),
            plural: plural(&singular),
            singular,
            kind,
        })
    }
}

fn check(project: &str, group: &str) -> Result<(), BadName> {
    let bad = |why: &str| Err(BadName::Project(project.to_owned(), why.to_owned()));
    if let Some(problem) = rules::dns_1035_label(project).first() {
        return bad(problem);
    }
    if is_one_of(TAKEN, project) {
        return bad("Rust or a crate that it needs has that name; add -operator");
    }
    let bad = |why: &str| Err(BadName::Group(group.to_owned(), why.to_owned()));
    if let Some(problem) = rules::dns_subdomain(group).first() {
        return bad(problem);
    }
    if !group.contains('.') {
        return bad("it must be a domain with a dot, such as example.com");
    }
    let is_below =
        |domain: &&str| group.strip_suffix(*domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if let Some(domain) = PROTECTED.iter().find(|domain| is_below(domain)) {
        return bad(&format!("Kubernetes keeps {domain} for itself; take a domain of yours"));
    }
    Ok(())
}

fn check_kind(kind: &str) -> Result<(), BadName> {
    let bad = |why: &str| Err(BadName::Kind(kind.to_owned(), why.to_owned()));
    let starts_well = kind.starts_with(|c: char| c.is_ascii_uppercase());
    if !starts_well || !kind.chars().all(|c| c.is_ascii_alphanumeric()) {
        return bad("it must begin with a capital letter and have only letters and digits");
    }
    if kind.len() > LONGEST_KIND {
        return bad(&format!("it must have no more than {LONGEST_KIND} characters"));
    }
    if is_one_of(USED, kind) {
        return bad("the project's own code has something else of that name");
    }
    Ok(())
}

fn is_one_of(words: &str, name: &str) -> bool {
    words.split(' ').any(|word| word == name)
}

/// `blue-whale-operator` is about a `BlueWhale`.
fn kind_of(project: &str) -> String {
    let subject = project.strip_suffix("-operator").unwrap_or(project);
    let capital = |part: &str| {
        let mut characters = part.chars();
        characters.next().map(|first| first.to_ascii_uppercase().to_string() + characters.as_str()).unwrap_or_default()
    };
    subject.split('-').map(capital).collect()
}

/// As English has it, mostly; the project says its plural, so that a better one is a change in one place a file.
fn plural(singular: &str) -> String {
    let before_last = singular.chars().rev().nth(1);
    if singular.ends_with('y') && before_last.is_some_and(|c| !"aeiou".contains(c)) {
        return format!("{}ies", &singular[..singular.len() - 1]);
    }
    let hisses = ["s", "x", "z", "ch", "sh"].iter().any(|end| singular.ends_with(end));
    if hisses { format!("{singular}es") } else { format!("{singular}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_follows_from_a_name() {
        for (project, kind, plural) in [
            ("website-operator", "Website", "websites"),
            ("cache", "Cache", "caches"),
            ("blue-whale-operator", "BlueWhale", "bluewhales"),
            ("policy-operator", "Policy", "policies"),
            ("gateway", "Gateway", "gateways"),
            ("fox-operator", "Fox", "foxes"),
        ] {
            let names = Names::of(project, "example.com", None).unwrap();
            assert_eq!((names.kind.as_str(), names.plural.as_str()), (kind, plural), "{project}");
        }
        assert_eq!(Names::of("x-1", "a.b", Some("Thing2")).unwrap().library, "x_1");
    }

    #[test]
    fn a_name_that_would_not_compile_or_not_be_served_is_refused_before_anything_is_written() {
        for (project, group, kind, told) in [
            ("Website", "example.com", None, "lower case"),
            ("../up", "example.com", None, "lower case"),
            ("9lives", "example.com", None, "alphabetic character"),
            ("", "example.com", None, "lower case"),
            ("kube", "example.com", None, "add -operator"),
            ("web", "com", None, "with a dot"),
            ("web", "Example.com", None, "lower case"),
            ("web", "x.k8s.io", None, "for itself"),
            ("web", "example.com", Some("website"), "capital letter"),
            ("web", "example.com", Some("Web-site"), "only letters and digits"),
            ("web", "example.com", Some("Deployment"), "something else"),
            ("pod-operator", "example.com", None, "--kind"),
            ("operator", "example.com", None, "--kind"),
        ] {
            let told_by = Names::of(project, group, kind).unwrap_err().to_string();
            assert!(told_by.contains(told), "{project} {group} {kind:?}: {told_by}");
        }
    }
}
