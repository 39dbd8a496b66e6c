//! Where a webhook listens: a URL or a Service, as a `clientConfig` says it.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

pub fn check(config: &Value, path: &Path, errors: &mut Errors) {
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(given), None) => check_url(given, &path.child("url"), errors),
        (None, Some(given)) => check_service(given, &path.child("service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(client: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(client, &Path::root(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_webhook_listens_at_one_place_that_can_be_called() {
        for (client, problems) in [
            (json!({"url": "https://127.0.0.1:1/x"}), vec![]),
            (json!({"service": {"namespace": "a", "name": "b", "port": 443, "path": "/x/y.z"}}), vec![]),
            (json!({}), vec!["exactly one of url or service is required"]),
            (json!({"url": "http://127.0.0.1:1/x"}), vec!["'https' is the only allowed URL scheme"]),
            (json!({"url": "https://u:p@127.0.0.1:1/x"}), vec!["user information is not permitted"]),
            (json!({"url": "https://127.0.0.1:1/x?a=b"}), vec!["query parameters are not permitted"]),
            (json!({"url": "https://127.0.0.1:1/x#a"}), vec!["fragments are not permitted"]),
            (json!({"service": {"namespace": "a", "port": 443}}), vec!["service.namespace: Required value"]),
            (
                json!({"service": {"namespace": "a", "name": "b", "port": 443, "path": "x//y"}}),
                vec!["must start with a '/'", "segment[0] may not be empty", "segment[1] may not be empty"],
            ),
            (json!({"service": {"namespace": "a", "name": "b", "port": 70000}}), vec!["port is not valid"]),
        ] {
            let found = found(&client);
            assert_eq!(found.len(), problems.len(), "{client}: {found:?}");
            for (one, problem) in found.iter().zip(problems) {
                assert!(one.contains(problem), "{client}: {one}");
            }
        }
    }
}
