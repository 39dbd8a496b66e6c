//! What is wrong with a FlowSchema.

use super::mandatory;
use crate::flow::defaults::SCHEMA;
use crate::flow::spec::EXEMPT;
use crate::resources::check::{same, text as check_text};
use crate::resources::rules::items;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(super) fn check(schema: &Value, errors: &mut Errors) {
    let (path, spec, name) = (Path::new("spec"), &schema["spec"], object::name(schema));
    let precedence = object::integer(spec, &["matchingPrecedence"]).unwrap_or(0);
    let wrong = match precedence {
        ..=0 => Some("must be a positive value"),
        1 if name != EXEMPT => Some("only the schema named 'exempt' may have matchingPrecedence 1"),
        10_001.. => Some("must not be greater than 10000"),
        _ => None,
    };
    errors.extend(wrong.map(|why| Error::invalid(&path.child("matchingPrecedence"), precedence, why)));
    if let Some(method) = spec.get("distinguisherMethod").filter(|method| !method.is_null()) {
        let kind = object::text(method, &["type"]);
        if !matches!(kind, "ByNamespace" | "ByUser") {
            let path = path.child("distinguisherMethod").child("type");
            errors.push(Error::not_supported(&path, kind, &["ByNamespace", "ByUser"]));
        }
    }
    let level = object::text(spec, &["priorityLevelConfiguration", "name"]);
    if !level.is_empty() {
        check_text(level, &path.child("priorityLevelConfiguration").child("name"), rules::dns_subdomain, errors);
    }
    for (path, rule) in items(spec, &path, "rules") {
        check_rule(rule, &path, errors);
    }
    if mandatory(SCHEMA, name).is_some_and(|wanted| !same(&wanted["spec"], spec)) {
        errors.push(Error::invalid(&path, spec.clone(), format!("spec of '{name}' must equal the fixed value")));
    }
}

fn check_rule(rule: &Value, path: &Path, errors: &mut Errors) {
    let list = |key: &str| object::list(rule, &[key]);
    if list("subjects").is_empty() {
        errors.push(Error::required(&path.child("subjects"), "subjects must contain at least one value"));
    }
    for (path, subject) in items(rule, path, "subjects") {
        check_subject(subject, &path, errors);
    }
    if list("resourceRules").is_empty() && list("nonResourceRules").is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(Error::required(path, why));
    }
    for (path, rule) in items(rule, path, "resourceRules") {
        check_verbs(rule, &path, errors);
        let needed = "resource rules must supply at least one";
        words(rule, &path, "apiGroups", &format!("{needed} api group"), "api groups", errors);
        words(rule, &path, "resources", &format!("{needed} resource"), "resources", errors);
        check_namespaces(rule, &path, errors);
    }
    for (path, rule) in items(rule, path, "nonResourceRules") {
        check_verbs(rule, &path, errors);
        let needed = "nonResourceURLs must contain at least one value";
        if words(rule, &path, "nonResourceURLs", needed, "non-resource URLs", errors) {
            for (path, url) in items(rule, &path, "nonResourceURLs") {
                let url = url.as_str().unwrap_or_default();
                errors.extend(url_problem(url).map(|why| Error::invalid(&path, url, why)));
            }
        }
    }
}

/// Is it a list of words, and not of everything?
fn words(rule: &Value, path: &Path, key: &str, needed: &str, what: &str, errors: &mut Errors) -> bool {
    let (list, path) = (object::list(rule, &[key]), path.child(key));
    if list.is_empty() {
        errors.push(Error::required(&path, needed));
        return false;
    }
    let everything = list.iter().any(|word| word == "*");
    if everything && list.len() > 1 {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&path, list.to_vec(), why));
    }
    !everything
}

fn check_verbs(rule: &Value, path: &Path, errors: &mut Errors) {
    let verbs = object::list(rule, &["verbs"]);
    let named = words(rule, path, "verbs", "verbs must contain at least one value", "verbs", errors);
    if named && !verbs.iter().all(|verb| VERBS.iter().any(|known| verb == known)) {
        errors.push(Error::not_supported(&path.child("verbs"), verbs.to_vec(), &VERBS));
    }
}

fn check_namespaces(rule: &Value, path: &Path, errors: &mut Errors) {
    if object::list(rule, &["namespaces"]).is_empty() && object::flag(rule, &["clusterScope"]) {
        return;
    }
    let needed = "resource rules that are not cluster scoped must supply at least one namespace";
    if words(rule, path, "namespaces", needed, "namespaces", errors) {
        for (path, namespace) in items(rule, path, "namespaces") {
            let namespace = namespace.as_str().unwrap_or_default();
            let wrong = |why| format!("each member of this list must be '*' or a DNS-1123 label; {why}");
            let problems = rules::dns_label(namespace).into_iter().map(wrong);
            errors.extend(problems.map(|why| Error::invalid(&path, namespace, why)));
        }
    }
}

fn check_subject(subject: &Value, path: &Path, errors: &mut Errors) {
    const KINDS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = object::text(subject, &["kind"]);
    let Some((_, mine)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        errors.push(Error::not_supported(&path.child("kind"), kind, &KINDS.map(|(name, _)| name)));
        return;
    };
    let is_there = |key: &str| subject.get(key).is_some_and(|value| !value.is_null());
    let here = path.child(mine);
    if !is_there(mine) {
        errors.push(Error::required(&here, format!("{mine} is required when subject kind is '{kind}'")));
    } else if object::text(subject, &[mine, "name"]).is_empty() {
        errors.push(Error::required(&here.child("name"), ""));
    }
    for (other, key) in KINDS.iter().filter(|(other, key)| *other != kind && is_there(key)) {
        let why = format!("{key} is forbidden when subject kind is not '{other}'");
        errors.push(Error::forbidden(&path.child(key), why));
    }
    if *mine == "serviceAccount" && is_there(mine) {
        let text = |key: &str| object::text(subject, &[mine, key]);
        if !matches!(text("name"), "" | "*") {
            check_text(text("name"), &here.child("name"), rules::dns_subdomain, errors);
        }
        match text("namespace") {
            "" => errors.push(Error::required(&here.child("namespace"), "must specify namespace for service account")),
            namespace => check_text(namespace, &here.child("namespace"), rules::dns_label, errors),
        }
    }
}

fn url_problem(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !url.ends_with("/*")) => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong_fields(change: impl Fn(&mut Value)) -> Vec<String> {
        let mut schema = json!({"metadata": {"name": "mine"}, "spec": {"matchingPrecedence": 500,
            "priorityLevelConfiguration": {"name": "system"}, "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [{"kind": "Group", "group": {"name": "team"}}],
                "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}]}]}});
        change(&mut schema["spec"]);
        let mut errors = Vec::new();
        check(&schema, &mut errors);
        errors.iter().map(|error| error.field.as_str().to_owned()).collect()
    }

    #[test]
    fn a_schema_that_would_not_match_is_refused_with_its_field() {
        assert_eq!(wrong_fields(|_| {}), Vec::<String>::new());
        type Breaks = fn(&mut Value);
        let cases: &[(&str, Breaks)] = &[
            ("spec.matchingPrecedence", |spec| spec["matchingPrecedence"] = json!(1)),
            ("spec.matchingPrecedence", |spec| spec["matchingPrecedence"] = json!(10_001)),
            ("spec.distinguisherMethod.type", |spec| spec["distinguisherMethod"]["type"] = json!("ByMood")),
            ("spec.priorityLevelConfiguration.name", |spec| spec["priorityLevelConfiguration"]["name"] = json!("A b")),
            ("spec.rules[0].subjects", |spec| spec["rules"][0]["subjects"] = json!([])),
            ("spec.rules[0].subjects[0].kind", |spec| spec["rules"][0]["subjects"][0]["kind"] = json!("Robot")),
            ("spec.rules[0].subjects[0].user", |spec| spec["rules"][0]["subjects"][0]["kind"] = json!("User")),
            ("spec.rules[0].subjects[0].group.name", |spec| {
                spec["rules"][0]["subjects"][0]["group"]["name"] = json!("")
            }),
            ("spec.rules[0].resourceRules[0].verbs", |spec| {
                spec["rules"][0]["resourceRules"][0]["verbs"] = json!(["eat"])
            }),
            ("spec.rules[0].resourceRules[0].verbs", |spec| {
                spec["rules"][0]["resourceRules"][0]["verbs"] = json!(["*", "get"])
            }),
            ("spec.rules[0].resourceRules[0].apiGroups", |spec| {
                spec["rules"][0]["resourceRules"][0]["apiGroups"] = json!([])
            }),
            ("spec.rules[0].resourceRules[0].namespaces", |spec| {
                spec["rules"][0]["resourceRules"][0]["namespaces"] = json!([])
            }),
            ("spec.rules[0].resourceRules[0].namespaces[0]", |spec| {
                spec["rules"][0]["resourceRules"][0]["namespaces"] = json!(["A"])
            }),
            ("spec.rules[0].nonResourceRules[0].nonResourceURLs[0]", |spec| {
                spec["rules"][0]["nonResourceRules"][0]["nonResourceURLs"] = json!(["/a*"]);
            }),
        ];
        for (field, breaks) in cases {
            let wrong = wrong_fields(breaks);
            assert_eq!(wrong.first().map(String::as_str), Some(*field), "{wrong:?}");
        }
    }
}
