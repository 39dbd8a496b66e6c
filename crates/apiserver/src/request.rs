//! What is asked: the path, the verb and the query of a request, read once at the start of the chain.

use crate::body::Payload;
use crate::call::Call;
use crate::listener::connections::Connection;
use crate::verb::Verb;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use pintle_meta::labels::{FieldSelector, Selector};
use pintle_meta::{Status, field, query};
use std::collections::BTreeMap;
use std::net::IpAddr;

use hyper::upgrade::OnUpgrade;
use std::sync::Arc;

/// A request as every transport hands it in. Its body may still be on its way.
pub struct Request {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Payload,
    /// Who the transport says is calling: a verified client certificate, or an in-process caller.
    pub peer: Peer,
    /// Set where the transport can hand the connection over to another protocol.
    pub upgrade: Option<OnUpgrade>,
    /// Where it came in; none for callers of this process.
    pub connection: Option<Arc<Connection>>,
}

impl Request {
    pub fn new(head: http::request::Parts, body: impl Into<Payload>, peer: Peer) -> Self {
        Request {
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body: body.into(),
            peer,
            upgrade: None,
            connection: None,
        }
    }

    /// The same, over a connection that may be handed over to another protocol.
    pub fn over(self, connection: Arc<Connection>, upgrade: Option<OnUpgrade>) -> Self {
        Request { connection: Some(connection), upgrade, ..self }
    }
}

/// What a request brings besides its call.
pub struct Sent {
    pub body: Bytes,
    /// Taken by what hands the connection over to another protocol.
    pub upgrade: Option<OnUpgrade>,
    /// Set for a proxy, which passes it on; then `body` is empty.
    pub unread: Option<Unread>,
}

/// A request that somebody else answers, as it came in.
pub struct Unread {
    pub method: Method,
    pub uri: Uri,
    pub body: Payload,
    /// The address of the client; none for callers of this process.
    pub from: Option<IpAddr>,
}

impl Sent {
    /// Reads the body, unless nobody here looks at it.
    pub async fn of(call: &Call, request: Request) -> Result<Self, Status> {
        let Request { method, uri, body, upgrade, connection, .. } = request;
        if call.is_proxied() {
            let from = connection.and_then(|connection| connection.from());
            return Ok(Sent { body: Bytes::new(), upgrade, unread: Some(Unread { method, uri, body, from }) });
        }
        let body = if call.verb.is_read() { Bytes::new() } else { body.read().await? };
        Ok(Sent { body, upgrade, unread: None })
    }
}

/// What the transport knows about the caller before authentication.
#[derive(Clone, Debug, Default)]
pub enum Peer {
    #[default]
    Unknown,
    /// The user that a client certificate names, which the TLS layer verified against our CA, and the second since 1970 after which
    /// it names nobody: a connection may outlive its certificate.
    Certificate { user: Arc<crate::authn::User>, ends: i64 },
    /// A certificate of the authority of front proxies. Of a proxy that is believed, the headers name the user; `user` is set if
    /// the certificate is of our CA too.
    Proxy { believed: bool, user: Option<Arc<crate::authn::User>>, ends: i64 },
    /// A loop in this process.
    Internal(Arc<crate::authn::User>),
}

/// Where a request points.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub verb: Verb,
    /// Set for paths below `/api/v1` and `/apis/group/version`.
    pub path: ResourcePath,
    /// The whole path, decoded.
    pub url: String,
    pub query: Query,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: String,
    /// The path reaches the resource through `namespaces/NAMESPACE/`. False for a namespace itself, whose own name
    /// is the namespace in which access to it is decided.
    pub in_namespace: bool,
    pub resource: String,
    pub name: String,
    pub subresource: String,
    /// What stands behind `proxy`.
    pub rest: String,
}

impl Target {
    /// Does it last until somebody ends it?
    pub fn is_long_running(&self) -> bool {
        let follows = self.path.subresource == "log" && self.query.flag("follow");
        let connects = matches!(self.path.subresource.as_str(), "attach" | "exec" | "portforward" | "proxy");
        self.verb == Verb::Watch || follows || connects
    }

    /// `/apis/apps/v1/namespaces/default/deployments/web/scale` and its kin.
    pub fn parse(method: &Method, uri: &Uri) -> Self {
        let query = Query::parse(uri.query().unwrap_or_default());
        // Decoded before it is split: an encoded slash separates, and never becomes a part of a name.
        let url = query::decode(uri.path());
        let parts: Vec<&str> = url.split('/').filter(|p| !p.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Target { verb: plain_verb(method), url, query, ..Target::default() },
        };
        let mut found = ResourcePath { group: group.into(), version: version.into(), ..Default::default() };
        // A namespace is a resource of its own until something stands behind its name.
        let rest = match rest {
            ["namespaces", namespace, inner @ ..] if !matches!(inner, [] | ["status" | "finalize"]) => {
                found.namespace = (*namespace).to_owned();
                found.in_namespace = true;
                inner
            }
            ["namespaces", namespace, ..] => {
                found.namespace = (*namespace).to_owned();
                rest
            }
            _ => rest,
        };
        found.resource = rest.first().copied().unwrap_or_default().to_owned();
        found.name = rest.get(1).copied().unwrap_or_default().to_owned();
        match rest.get(2..).unwrap_or_default() {
            ["proxy", rest @ ..] => {
                found.subresource = "proxy".to_owned();
                found.rest = rest.join("/");
            }
            parts => found.subresource = parts.join("/"),
        }
        let verb = match (method, found.name.is_empty()) {
            (&Method::GET | &Method::HEAD, true) if query.flag("watch") => Verb::Watch,
            (&Method::GET | &Method::HEAD, true) => Verb::List,
            (&Method::GET | &Method::HEAD, false) => Verb::Get,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, true) => Verb::DeleteCollection,
            (&Method::DELETE, false) => Verb::Delete,
            _ => Verb::Unknown,
        };
        Target { verb, path: found, url, query }
    }
}

fn plain_verb(method: &Method) -> Verb {
    match *method {
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::right("post"),
        Method::PUT => Verb::right("put"),
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Unknown,
    }
}

/// The query, decoded once.
#[derive(Clone, Debug, Default)]
pub struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    pub fn parse(text: &str) -> Self {
        let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in query::pairs(text) {
            map.entry(name).or_default().push(value);
        }
        Query(map)
    }

    /// A query of one pair.
    pub fn of(key: &str, value: &str) -> Self {
        Query(BTreeMap::from([(key.to_owned(), vec![value.to_owned()])]))
    }

    pub fn get(&self, key: &str) -> &str {
        self.0.get(key).and_then(|v| v.first()).map(String::as_str).unwrap_or_default()
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(name, values)| values.iter().map(|value| (name.as_str(), value.as_str())))
    }

    /// As the API reads booleans in a query: anything but absent, `0` and `false` is true.
    pub fn flag(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.get(key), "0" | "false")
    }

    pub fn integer(&self, key: &str) -> Result<Option<i64>, Status> {
        let text = self.get(key);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
    }

    /// `dryRun=All` is the only dry run there is.
    pub fn dry_run(&self) -> Result<bool, Status> {
        match self.all("dryRun") {
            [] => Ok(false),
            all if all.iter().all(|v| v == "All") => Ok(true),
            all => Err(Status::invalid(
                "meta.k8s.io",
                "CreateOptions",
                "",
                &[field::Error::not_supported(&field::Path::new("dryRun"), format!("{all:?}"), &["All"])],
            )),
        }
    }
}

/// A watch that is to last longer ends after this: a year.
const LONGEST_WATCH_SECONDS: u64 = 365 * 24 * 60 * 60;

/// Which revision a read may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// The newest.
    Latest,
    /// Whatever is at hand.
    Any,
    /// At least this one.
    NotOlderThan(u64),
    /// Exactly this one.
    Exact(u64),
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug)]
pub struct ListOptions {
    pub labels: Selector,
    pub fields: FieldSelector,
    pub limit: usize,
    pub cursor: String,
    pub at: ReadAt,
    pub watch: bool,
    pub resource_version: Option<u64>,
    pub bookmarks: bool,
    pub initial_events: bool,
    pub timeout_seconds: Option<u64>,
}

impl ListOptions {
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let labels = Selector::parse(query.get("labelSelector")).map_err(|e| Status::bad_request(e.to_string()))?;
        let fields =
            FieldSelector::parse(query.get("fieldSelector")).map_err(|e| Status::bad_request(e.to_string()))?;
        let limit = query.integer("limit")?.unwrap_or(0).max(0) as usize;
        let timeout_seconds = query.integer("timeoutSeconds")?.filter(|s| *s > 0);
        let timeout_seconds = timeout_seconds.map(|s| s.unsigned_abs().min(LONGEST_WATCH_SECONDS));
        let watch = query.flag("watch");
        let cursor = query.get("continue").to_owned();
        let initial_events = query.flag("sendInitialEvents");
        refuse_contradictions(query, watch, !cursor.is_empty())?;
        let resource_version = revision(query, watch)?;
        let at = match (query.get("resourceVersionMatch"), resource_version) {
            ("Exact", Some(revision)) => ReadAt::Exact(revision),
            (_, None) => ReadAt::Latest,
            (_, Some(0)) => ReadAt::Any,
            ("", Some(revision)) if limit > 0 => ReadAt::Exact(revision),
            (_, Some(revision)) => ReadAt::NotOlderThan(revision),
        };
        let bookmarks = query.flag("allowWatchBookmarks");
        Ok(ListOptions {
            labels,
            fields,
            limit,
            cursor,
            at,
            watch,
            resource_version,
            bookmarks,
            initial_events,
            timeout_seconds,
        })
    }
}

fn revision(query: &Query, watch: bool) -> Result<Option<u64>, Status> {
    let text = query.get("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why =
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        if watch { Status::new(500, "", why) } else { Status::bad_request(format!("invalid resource version: {why}")) }
    })
}

/// The combinations of options that the API forbids.
fn refuse_contradictions(query: &Query, watch: bool, continued: bool) -> Result<(), Status> {
    let kind_of_match = query.get("resourceVersionMatch");
    let version = query.get("resourceVersion");
    let path = field::Path::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if watch && query.has("sendInitialEvents") {
        if kind_of_match != "NotOlderThan" {
            errors.push(field::Error::forbidden(
                &path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
    } else if query.has("sendInitialEvents") {
        errors.push(field::Error::forbidden(
            &field::Path::new("sendInitialEvents"),
            "sendInitialEvents is forbidden for list",
        ));
    } else if !kind_of_match.is_empty() {
        if watch {
            errors.push(field::Error::forbidden(
                &path,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if version.is_empty() {
            errors.push(field::Error::forbidden(
                &path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if continued {
            errors.push(field::Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(kind_of_match, "Exact" | "NotOlderThan") {
            errors.push(field::Error::not_supported(&path, kind_of_match, &["Exact", "NotOlderThan", ""]));
        }
        if kind_of_match == "Exact" && version == "0" {
            errors.push(field::Error::forbidden(
                &path,
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if continued && !version.is_empty() && version != "0" {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: Method, uri: &str) -> Target {
        Target::parse(&method, &uri.parse().unwrap())
    }

    #[test]
    fn paths_name_what_they_point_at() {
        let t = target(Method::GET, "/apis/apps/v1/namespaces/d/deployments/web/scale");
        let r = t.path;
        assert_eq!((t.verb, r.group.as_str(), r.namespace.as_str()), (Verb::Get, "apps", "d"));
        assert_eq!((r.resource.as_str(), r.name.as_str(), r.subresource.as_str()), ("deployments", "web", "scale"));

        let t = target(Method::GET, "/api/v1/namespaces/x");
        let r = t.path;
        assert_eq!((r.resource.as_str(), r.name.as_str(), r.namespace.as_str()), ("namespaces", "x", "x"));

        let t = target(Method::PUT, "/api/v1/namespaces/x/finalize");
        assert_eq!(t.path.subresource, "finalize");

        let r = target(Method::GET, "/api/v1/nodes/a/proxy/stats/summary").path;
        assert_eq!((r.subresource.as_str(), r.rest.as_str()), ("proxy", "stats/summary"));

        let r = target(Method::GET, "/api/v1/namespaces/a%2Fnodes/b%2Fstatus").path;
        assert_eq!((r.resource.as_str(), r.name.as_str(), r.subresource.as_str()), ("nodes", "b", "status"));

        assert_eq!(target(Method::GET, "/api/v1/pods?watch=1").verb, Verb::Watch);
        assert_eq!(target(Method::DELETE, "/api/v1/namespaces/x/pods").verb, Verb::DeleteCollection);
        assert!(target(Method::GET, "/api/v1").path.resource.is_empty());
        assert!(target(Method::GET, "/version").path.resource.is_empty());
    }

    #[test]
    fn a_query_is_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&x=1+2&watch=0&bad=%zz");
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert_eq!(query.get("x"), "1 2");
        assert!(!query.flag("watch"));
        assert_eq!(query.get("bad"), "%zz");
    }
}
