//! What a name, a label, a port may look like; each rule answers with the sentences the API answers with.

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// The problems of a text; none when it is fine.
pub type Problems = Vec<String>;

pub fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} {}", if limit == 1 { "byte" } else { "bytes" })
}

pub fn dns_label(text: &str) -> Problems {
    let mut problems = Problems::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_dns_label(text) {
        problems.push(DNS_LABEL.to_owned());
    }
    problems
}

pub fn dns_subdomain(text: &str) -> Problems {
    let mut problems = Problems::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !text.split('.').all(is_dns_label) {
        problems.push(DNS_SUBDOMAIN.to_owned());
    }
    problems
}

pub fn dns_1035_label(text: &str) -> Problems {
    let mut problems = Problems::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_dns_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(DNS_1035.to_owned());
    }
    problems
}

/// A name that may stand in a URL's path: RBAC's and others'.
pub fn path_segment(text: &str) -> Problems {
    let mut problems = Problems::new();
    if text == "." || text == ".." {
        problems.push(format!("may not be '{text}'"));
    }
    for bad in ['/', '%'] {
        if text.contains(bad) {
            problems.push(format!("may not contain '{bad}'"));
        }
    }
    problems
}

/// A label's or an annotation's key: an optional DNS prefix, a slash, a name.
pub fn qualified_name(text: &str) -> Problems {
    let mut problems = Problems::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(dns_subdomain(prefix).into_iter().map(|p| format!("prefix part {p}")));
            }
            *name
        }
        _ => {
            problems.push(format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED.trim_start_matches("name part ")
            ));
            return problems;
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !is_wordlike(name) {
        problems.push(QUALIFIED.to_owned());
    }
    problems
}

pub fn label_value(text: &str) -> Problems {
    let mut problems = Problems::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !text.is_empty() && !is_wordlike(text) {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

/// A key of a ConfigMap or a Secret.
pub fn config_key(text: &str) -> Problems {
    let mut problems = Problems::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        problems.push(CONFIG_KEY.to_owned());
    } else if text == "." {
        problems.push("must not be '.'".to_owned());
    } else if text == ".." {
        problems.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        problems.push("must not start with '..'".to_owned());
    }
    problems
}

pub fn env_name(text: &str) -> Problems {
    if !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        Problems::new()
    } else {
        vec![ENV_NAME.to_owned()]
    }
}

pub fn port_number(port: i64) -> Problems {
    if (1..=65535).contains(&port) {
        Problems::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

/// A port's name: `http`, `https-alt`.
pub fn port_name(text: &str) -> Problems {
    let mut problems = Problems::new();
    if text.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

pub fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|b| edge(b) || *b == b'-')
}

fn is_wordlike(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Labels of Kubernetes' own that a node may give itself, beside those below `kubelet.kubernetes.io` and `node.kubernetes.io`.
pub const NODE_LABELS: [&str; 10] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Whether a label is Kubernetes' own and for administrators: a node must not give it to itself.
pub fn is_closed_to_nodes(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    let is_own = NODE_LABELS.contains(&label) || within("kubelet.kubernetes.io") || within("node.kubernetes.io");
    (within("kubernetes.io") || within("k8s.io")) && !is_own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_dns() {
        for good in ["a", "a-b", "1", "a.b.c"] {
            assert!(dns_subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", "ä"] {
            assert!(!dns_subdomain(bad).is_empty(), "{bad}");
        }
        assert!(dns_label(&"a".repeat(64)).len() == 1);
        assert!(!dns_1035_label("1a").is_empty());
    }

    #[test]
    fn a_node_gives_itself_only_labels_that_are_its_own() {
        for own in
            ["disk", "example.com/disk", "kubernetes.io/os", "node.kubernetes.io/pool", "a.kubelet.kubernetes.io/b"]
        {
            assert!(!is_closed_to_nodes(own), "{own}");
        }
        for closed in [
            "kubernetes.io/role",
            "a.k8s.io/b",
            "node-restriction.kubernetes.io/a",
            "b.node-restriction.kubernetes.io/a",
        ] {
            assert!(is_closed_to_nodes(closed), "{closed}");
        }
    }

    #[test]
    fn label_keys_may_have_a_prefix() {
        for good in ["app", "example.com/app", "a_b.c"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "A.com/x", "-a"] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
    }
}
