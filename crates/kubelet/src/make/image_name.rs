//! Whether the name of an image can be one, by the grammar that registries and runtimes share.
//!
//! ```text
//! name   = [domain[:port]/]component{/component}[:tag][@digest]
//! ```

/// Without the tag and digest.
const MAX_PATH_BYTES: usize = 255;
const MAX_TAG_BYTES: usize = 128;

/// What a name without a registry stands for.
const DEFAULT_DOMAIN: &str = "docker.io";

/// Says what is wrong with a name that no registry could have.
pub(crate) fn check(image: &str) -> Result<(), String> {
    fault(image).map_or(Ok(()), |why| Err(format!("couldn't parse image name {image:?}: {why}")))
}

fn fault(image: &str) -> Option<String> {
    let invalid = || Some("invalid reference format".to_owned());
    let is_identifier = image.len() == 64 && image.bytes().all(is_lower_hex);
    if is_identifier {
        return Some(format!("invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"));
    }
    let (domain, rest) = split_domain(image);
    let remote = rest.split(':').next().unwrap_or_default();
    if remote.chars().any(char::is_uppercase) {
        return Some(format!("invalid reference format: repository name ({remote}) must be lowercase"));
    }
    let (named, digest) = match rest.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match named.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (named, None),
    };
    let is_library = domain == DEFAULT_DOMAIN && !path.contains('/');
    let is_domain = is_component(domain) || is_host(domain);
    if !is_domain || !path.split('/').all(is_component) || !tag.is_none_or(is_tag) {
        return invalid();
    }
    let length = path.len() + if is_library { "library/".len() } else { 0 };
    if length > MAX_PATH_BYTES {
        return Some(format!("repository name must not be more than {MAX_PATH_BYTES} characters"));
    }
    match digest.map(digest_fault) {
        Some(Some("")) => invalid(),
        Some(Some(why)) => Some(why.to_owned()),
        _ => None,
    }
}

/// A first part without a dot or a port is no registry, unless it is this machine.
fn split_domain(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':']) || first == "localhost" || first.chars().any(char::is_uppercase) =>
        {
            (first, rest)
        }
        _ => (DEFAULT_DOMAIN, image),
    }
}

/// Letters and digits, in parts between one dot, one or two underscores, or any number of dashes.
fn is_component(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends =
        text.bytes().next().is_some_and(is_alphanumeric) && text.bytes().next_back().is_some_and(is_alphanumeric);
    let mut separators = text.split(|letter: char| u8::try_from(letter).is_ok_and(is_alphanumeric));
    ends && separators
        .all(|separator| matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'))
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_address =
        |inner: &str| !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    is_port && bracketed.map_or_else(|| host.split('.').all(is_label), is_address)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= MAX_TAG_BYTES
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

/// Nothing if it is right; an empty text if it is no digest at all.
fn digest_fault(digest: &str) -> Option<&'static str> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or_default();
    if algorithm.is_empty() || hex.len() < 32 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some("");
    }
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Some("unsupported digest algorithm"),
    };
    match hex.len() == length {
        false => Some("invalid checksum digest length"),
        true if !hex.bytes().all(is_lower_hex) => Some("invalid checksum digest format"),
        true => None,
    }
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_registries_have_are_taken() {
        let digest = format!("busybox@sha256:{}", "0a".repeat(32));
        for name in [
            "busybox",
            "busybox:1.36",
            "library/busybox",
            "registry.example.com/a/b-c/d__e.f:v1_2-3",
            "registry.example.com:5000/a",
            "localhost/a",
            "localhost:5000/a:latest",
            "[::1]:5000/a",
            "my_registry.example.com/a",
            "UPPER.example.com/a",
            digest.as_str(),
            "a--b/c",
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused_in_upstreams_words() {
        let long = "a".repeat(300);
        for (name, why) in [
            ("", "invalid reference format"),
            ("FAILED_IMAGE", "invalid reference format: repository name (FAILED_IMAGE) must be lowercase"),
            ("foo/Bar:1", "invalid reference format: repository name (foo/Bar) must be lowercase"),
            ("a b", "invalid reference format"),
            ("a:", "invalid reference format"),
            ("a:.x", "invalid reference format"),
            ("a//b", "invalid reference format"),
            ("a..b", "invalid reference format"),
            ("-a", "invalid reference format"),
            ("a@sha256:short", "invalid reference format"),
            ("a@md5:00000000000000000000000000000000", "unsupported digest algorithm"),
            ("https://example.com/a", "invalid reference format"),
            (&long, "repository name must not be more than 255 characters"),
            (
                &"ab".repeat(32),
                &format!("invalid repository name ({}), cannot specify 64-byte hexadecimal strings", "ab".repeat(32)),
            ),
        ] {
            assert_eq!(check(name), Err(format!("couldn't parse image name {name:?}: {why}")));
        }
    }
}
