//! Links in a proxied answer: what points to the server behind the proxy is made to lead through the proxy.

/// Knows where an answer came from and by which path the client reaches that place.
#[derive(Clone, Debug)]
pub struct Links {
    /// `/api/v1/namespaces/default/pods/web/proxy`, escaped.
    pub prefix: String,
    /// The address and port that answered.
    pub origin: String,
    /// The host that the client asked.
    pub host: String,
}

impl Links {
    /// The link through the proxy; none if it stays as it is: it is relative, or leads elsewhere.
    pub fn through(&self, link: &str) -> Option<String> {
        let (scheme, rest) = match link.split_once("//") {
            Some((scheme, rest)) if scheme.is_empty() || is_scheme(scheme) => (Some(scheme), rest),
            _ => (None, link),
        };
        let (authority, path) = match scheme {
            Some(_) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
            None => ("", rest),
        };
        let elsewhere = !authority.is_empty() && authority != self.origin && authority != self.host;
        if elsewhere || !path.starts_with('/') {
            return None;
        }
        // The client's own host may stay; the address behind the proxy means nothing to it.
        let start = match scheme {
            Some(scheme) if authority == self.host => format!("{scheme}//{authority}"),
            _ => String::new(),
        };
        let prefix = if path.starts_with(&self.prefix) { "" } else { &self.prefix };
        Some(format!("{start}{prefix}{path}"))
    }
}

fn is_scheme(text: &str) -> bool {
    text.strip_suffix(':').is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// A tag that is longer is passed on as it is.
const MAX_TAG_BYTES: usize = 64 * 1024;

/// Attributes that hold links, with the elements that have them.
const ATTRIBUTES: [(&str, &[&str]); 14] = [
    ("href", &["a", "area", "base", "link"]),
    ("src", &["audio", "embed", "frame", "iframe", "img", "input", "script", "source", "video"]),
    ("action", &["form"]),
    ("formaction", &["button", "input"]),
    ("background", &["body"]),
    ("cite", &["blockquote", "del", "ins", "q"]),
    ("classid", &["object"]),
    ("codebase", &["applet", "object"]),
    ("data", &["object"]),
    ("longdesc", &["frame", "iframe", "img"]),
    ("manifest", &["html"]),
    ("poster", &["video"]),
    ("profile", &["head"]),
    ("usemap", &["img", "input", "object"]),
];

/// Elements whose content is text, whatever it looks like, with what ends it.
const RAW: [(&str, &[u8]); 5] = [
    ("script", b"</script"),
    ("style", b"</style"),
    ("textarea", b"</textarea"),
    ("title", b"</title"),
    ("xmp", b"</xmp"),
];

/// HTML on its way to the client, piece by piece. Holds back no more than an unfinished tag.
///
/// ```text
/// feed `<a hre`           →  ``
/// feed `f="/x">y<!-- /`   →  `<a href="/PREFIX/x">y<!--`
/// ```
pub struct Html {
    links: Links,
    held: Vec<u8>,
    /// What ends the comment or raw text in which the last piece ended.
    until: Option<&'static [u8]>,
}

impl Html {
    pub fn new(links: Links) -> Self {
        Html { links, held: Vec::new(), until: None }
    }

    /// Takes a piece, and gives what is ready.
    pub fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::with_capacity(held.len());
        let mut rest = held.as_slice();
        while let Some(left) = self.step(rest, &mut out) {
            rest = left;
        }
        self.held = rest[taken(rest, self.until)..].to_vec();
        out.extend_from_slice(&rest[..rest.len() - self.held.len()]);
        out
    }

    /// What was held back when the page ended.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Passes on as much as is understood; none if more is needed.
    fn step<'a>(&mut self, rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
        if let Some(end) = self.until {
            let at = rest.windows(end.len()).position(|window| window.eq_ignore_ascii_case(end))?;
            self.until = None;
            out.extend_from_slice(&rest[..at + end.len()]);
            return Some(&rest[at + end.len()..]);
        }
        let at = rest.iter().position(|byte| *byte == b'<')?;
        if at > 0 {
            out.extend_from_slice(&rest[..at]);
            return Some(&rest[at..]);
        }
        match rest.get(1)? {
            b'!' if rest.starts_with(b"<!--") => {
                self.until = Some(b"-->");
                out.extend_from_slice(b"<!--");
                Some(&rest[4..])
            }
            b'!' if b"<!--".starts_with(rest) => None,
            first if first.is_ascii_alphabetic() => match tag_length(rest) {
                Some(length) => {
                    self.tag(&rest[..length], out);
                    Some(&rest[length..])
                }
                None if rest.len() < MAX_TAG_BYTES => None,
                None => literal(rest, out),
            },
            _ => literal(rest, out),
        }
    }

    /// A whole start tag.
    fn tag(&mut self, tag: &[u8], out: &mut Vec<u8>) {
        let name_end = tag.iter().position(|b| b.is_ascii_whitespace() || b"/>".contains(b)).unwrap_or(tag.len());
        let name = String::from_utf8_lossy(&tag[1..name_end]).to_ascii_lowercase();
        self.until = RAW.iter().find(|(raw, _)| *raw == name).map(|(_, end)| *end);
        let mut copied = 0;
        for attribute in attributes(tag, name_end) {
            let key = String::from_utf8_lossy(&tag[attribute.name.clone()]).to_ascii_lowercase();
            let holds_link = ATTRIBUTES.iter().any(|(link, of)| *link == key && of.contains(&name.as_str()));
            let link = std::str::from_utf8(&tag[attribute.value.clone()]).ok().filter(|_| holds_link);
            if let Some(through) = link.and_then(|link| self.links.through(link)) {
                out.extend_from_slice(&tag[copied..attribute.value.start]);
                out.extend_from_slice(through.as_bytes());
                copied = attribute.value.end;
            }
        }
        out.extend_from_slice(&tag[copied..]);
    }
}

/// How much of what is not understood yet can be passed on: all but what may be the beginning of something.
fn taken(rest: &[u8], until: Option<&[u8]>) -> usize {
    match until {
        Some(end) => rest.len().saturating_sub(end.len() - 1),
        None => rest.iter().position(|byte| *byte == b'<').unwrap_or(rest.len()),
    }
}

fn literal<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    out.push(b'<');
    Some(&rest[1..])
}

/// The length of the start tag that begins here: up to the `>` that is in no quotes.
fn tag_length(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

struct Attribute {
    name: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
}

/// The attributes of a tag that have a value.
fn attributes(tag: &[u8], mut at: usize) -> Vec<Attribute> {
    let skip = |mut at: usize, wanted: fn(u8) -> bool| {
        while tag.get(at).is_some_and(|byte| wanted(*byte)) {
            at += 1;
        }
        at
    };
    let mut found = Vec::new();
    loop {
        at = skip(at, |b| b.is_ascii_whitespace() || b == b'/');
        let name_end = skip(at, |b| !b.is_ascii_whitespace() && !b"/>=".contains(&b));
        if name_end == at {
            // A stray `=` is no attribute; anything else is the end.
            if tag.get(at) == Some(&b'=') {
                at += 1;
                continue;
            }
            return found;
        }
        let name = at..name_end;
        at = skip(name_end, |b| b.is_ascii_whitespace());
        if tag.get(at) != Some(&b'=') {
            continue;
        }
        at = skip(at + 1, |b| b.is_ascii_whitespace());
        let value = match tag.get(at) {
            Some(b'"') => at + 1..skip(at + 1, |b| b != b'"'),
            Some(b'\'') => at + 1..skip(at + 1, |b| b != b'\''),
            _ => at..skip(at, |b| !b.is_ascii_whitespace() && b != b'>'),
        };
        at = if tag.get(value.end).is_some_and(|b| b"\"'".contains(b)) { value.end + 1 } else { value.end };
        found.push(Attribute { name, value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Links {
        Links { prefix: "/p/proxy".to_owned(), origin: "10.0.0.7:80".to_owned(), host: "api:6443".to_owned() }
    }

    #[test]
    fn links_to_the_pod_lead_through_the_proxy_and_others_stay() {
        for (link, expected) in [
            ("/a", Some("/p/proxy/a")),
            ("/", Some("/p/proxy/")),
            ("/a?b=//c#d", Some("/p/proxy/a?b=//c#d")),
            ("/p/proxy/a", Some("/p/proxy/a")),
            ("http://10.0.0.7:80/a/", Some("/p/proxy/a/")),
            ("//10.0.0.7:80/a", Some("/p/proxy/a")),
            ("https://api:6443/a", Some("https://api:6443/p/proxy/a")),
            ("https://api:6443/p/proxy/a", Some("https://api:6443/p/proxy/a")),
            ("a", None),
            ("?a=/b", None),
            ("", None),
            ("http://10.0.0.7:80", None),
            ("http://example.com/a", None),
            ("//example.com/a", None),
            ("mailto:a@b", None),
            ("data:text/html,//x/y", None),
        ] {
            assert_eq!(links().through(link).as_deref(), expected, "{link}");
        }
    }

    #[test]
    fn a_page_is_rewritten_the_same_however_it_is_cut() {
        let page = br#"<!DOCTYPE html><HTML><title><a href="/t"></title>
            <a class=x href="/a">1</a> < 2 <a href='/b' href2="/n">b</A><img src=/c/><img alt=">" src = "/d" >
            <!-- <a href="/comment"> --><script src="/s">x = '<a href="/js">'</script><a href="rel">e</a>
            <form action="http://10.0.0.7:80/f"><p href="/p">"#;
        let expected = br#"<!DOCTYPE html><HTML><title><a href="/t"></title>
            <a class=x href="/p/proxy/a">1</a> < 2 <a href='/p/proxy/b' href2="/n">b</A><img src=/p/proxy/c/><img alt=">" src = "/p/proxy/d" >
            <!-- <a href="/comment"> --><script src="/p/proxy/s">x = '<a href="/js">'</script><a href="rel">e</a>
            <form action="/p/proxy/f"><p href="/p">"#;
        for size in [1, 2, 3, 5, 7, 64, page.len()] {
            let mut html = Html::new(links());
            let mut out: Vec<u8> = page.chunks(size).flat_map(|piece| html.feed(piece)).collect();
            out.extend(html.finish());
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected), "pieces of {size}");
        }
    }

    #[test]
    fn a_tag_that_never_ends_is_passed_on() {
        let mut html = Html::new(links());
        let page = [b"<a href=\"".as_slice(), &vec![b'x'; 3 * MAX_TAG_BYTES]].concat();
        let mut out: Vec<u8> = page.chunks(1000).flat_map(|piece| html.feed(piece)).collect();
        assert!(out.len() > MAX_TAG_BYTES);
        out.extend(html.finish());
        assert_eq!(out, page);
    }
}
