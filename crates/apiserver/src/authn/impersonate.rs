//! Acting as another user: the `Impersonate-…` headers, each checked against the rights of the one who sends them.
//!
//! - A header that cannot be read is an error. It never counts as absent: the request would run with its sender's rights.
//! - There are several ways to be allowed, tried in the order of [`Mode::ALL`]. The constrained ones need two rights: to act as
//!   that user (`impersonate:MODE`), and to do this very thing while doing so (`impersonate-on:MODE:VERB`).
//! - A service account or a node is impersonated by a right on that, and has its usual groups.
//! - Groups, a UID or extra values without a user are an error.

use super::{ANONYMOUS, AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED, User};
use crate::authz::{self, Authorizer};
use crate::call::Call;
use crate::notes::Notes;
use crate::request::{ResourcePath, Target};
use crate::verb::Verb;
use http::{HeaderMap, HeaderValue};
use pintle_meta::{Status, query, rules};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The API group of the rights on UIDs and extra values.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// So many groups or extra values are worth the question whether all are allowed.
const MANY: usize = 4;

/// A way to be allowed to act as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The node on which the sender, a Pod's service account, runs.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Anybody else, with groups and all.
    UserInfo,
    /// Anybody, for whatever they may do: one right, as it has always been.
    Legacy,
}

impl Mode {
    const ALL: [Mode; 5] =
        [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

    fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }

    fn verb(self) -> Verb {
        match self {
            Mode::Legacy => Verb::right("impersonate"),
            mode => Verb::Other(Cow::Owned(format!("impersonate:{}", mode.name()))),
        }
    }

    fn applies(self, sender: &User, asked: &Asked) -> bool {
        let (node, account) = (node(&asked.name), service_account(&asked.name));
        match self {
            Mode::AssociatedNode => {
                let runs_on = sender.extra.get("authentication.kubernetes.io/node-name").map(Vec::as_slice);
                let is_there = matches!((runs_on, node), (Some([own]), Some(node)) if own == node);
                is_there && asked.is_name_alone() && service_account(&sender.name).is_some()
            }
            Mode::ArbitraryNode => node.is_some() && asked.is_name_alone(),
            Mode::ServiceAccount => account.is_some() && asked.is_name_alone(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }
}

/// The user that a request acts as: `user` itself, or the one that its headers name. Constrained impersonation may be switched off.
pub async fn impersonate(
    (authorizer, constrained): (&Authorizer, bool),
    user: Arc<User>,
    target: &Target,
    headers: &HeaderMap,
) -> Result<Arc<User>, Status> {
    let Some(asked) = Asked::of(headers)? else { return Ok(user) };
    let mut refused = None;
    for mode in Mode::ALL {
        if !mode.applies(&user, &asked) || (mode != Mode::Legacy && !constrained) {
            continue;
        }
        match allowed(authorizer, &user, target, mode, &asked).await {
            Ok(()) => return Ok(Arc::new(asked.into_user(mode))),
            Err(status) => _ = refused.get_or_insert(status),
        }
    }
    Err(refused.unwrap_or_else(Status::unauthorized))
}

async fn allowed(
    authorizer: &Authorizer,
    user: &Arc<User>,
    target: &Target,
    mode: Mode,
    asked: &Asked,
) -> Result<(), Status> {
    let notes = Notes::new();
    if mode != Mode::Legacy {
        let verb = format!("impersonate-on:{}:{}", mode.name(), target.verb.as_str());
        let target = Target { verb: Verb::Other(Cow::Owned(verb)), ..target.clone() };
        authorizer.authorize(&Call::new(target, None, user.clone(), HeaderMap::new()), &notes).await?;
    }
    let ask = |path: ResourcePath| Call::asks(user.clone(), mode.verb(), path);
    authorizer.authorize(&ask(impersonated(mode, asked)), &notes).await?;
    if let Some(uid) = &asked.uid {
        authorizer.authorize(&ask(on(AUTHENTICATION, "uids", uid)), &notes).await?;
    }
    let group = if mode == Mode::Legacy { "" } else { AUTHENTICATION };
    if let Some(why) = asked.problem().filter(|_| mode != Mode::Legacy) {
        return Err(authz::forbidden(&ask(on(group, why.resource, why.name)), &why.reason));
    }
    let groups: Vec<ResourcePath> = asked.groups.iter().map(|name| on(group, "groups", name)).collect();
    let extra = |key: &str, name: &str| {
        let path = on(AUTHENTICATION, "userextras", name);
        ResourcePath { subresource: key.to_owned(), ..path }
    };
    let mut extras = Vec::new();
    for (key, values) in &asked.extra {
        extras.extend(values.iter().map(|name| extra(key, name)));
    }
    for (paths, all) in [(groups, on(group, "groups", "*")), (extras, extra("*", "*"))] {
        if mode != Mode::Legacy && paths.len() >= MANY && authorizer.allows(&ask(all)).await {
            continue;
        }
        for path in paths {
            authorizer.authorize(&ask(path), &notes).await?;
        }
    }
    Ok(())
}

fn on(group: &str, resource: &str, name: &str) -> ResourcePath {
    let (group, resource, name) = (group.to_owned(), resource.to_owned(), name.to_owned());
    ResourcePath { group, resource, name, ..ResourcePath::default() }
}

/// The user as the object on which the right is needed.
fn impersonated(mode: Mode, asked: &Asked) -> ResourcePath {
    let group = if mode == Mode::Legacy { "" } else { AUTHENTICATION };
    match (mode, service_account(&asked.name), node(&asked.name)) {
        (Mode::AssociatedNode, ..) => on(group, "nodes", "*"),
        (Mode::ArbitraryNode, _, Some(node)) => on(group, "nodes", node),
        (_, Some((namespace, name)), _) => {
            ResourcePath { namespace: namespace.to_owned(), ..on(group, "serviceaccounts", name) }
        }
        _ => on(group, "users", &asked.name),
    }
}

/// What the headers ask for.
#[derive(Default)]
struct Asked {
    name: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// What nobody is allowed to act with in a constrained way.
struct Problem {
    resource: &'static str,
    name: &'static str,
    reason: String,
}

impl Asked {
    fn is_name_alone(&self) -> bool {
        self.uid.is_none() && self.groups.is_empty() && self.extra.is_empty()
    }

    fn problem(&self) -> Option<Problem> {
        let problem = |resource, name, reason: &str| Some(Problem { resource, name, reason: reason.to_owned() });
        if self.groups.iter().any(String::is_empty) {
            return problem("groups", "", "impersonating the empty string group is not allowed");
        }
        if self.groups.iter().any(|group| group == MASTERS) {
            return problem("groups", MASTERS, "impersonating the system:masters group is not allowed");
        }
        for (key, values) in &self.extra {
            if key.is_empty() {
                return problem("userextras", "", "impersonating the empty string key in extra is not allowed");
            }
            if !is_prefixed_path(key) {
                return problem("userextras", "", "impersonating an invalid key in extra is not allowed");
            }
            if values.iter().any(String::is_empty) {
                return problem("userextras", "", "impersonating the empty string value in extra is not allowed");
            }
        }
        None
    }

    /// The user in whose name the request goes on.
    fn into_user(self, mode: Mode) -> User {
        let mut groups = match (mode, service_account(&self.name)) {
            (Mode::AssociatedNode | Mode::ArbitraryNode, _) => vec![NODES.to_owned()],
            (_, Some((namespace, _))) if self.groups.is_empty() => {
                vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
            }
            _ => self.groups,
        };
        let missing = if self.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !groups.iter().any(|group| group == missing || group == UNAUTHENTICATED) {
            groups.push(missing.to_owned());
        }
        User { uid: self.uid.unwrap_or_default(), name: self.name, groups, extra: self.extra }
    }

    fn of(headers: &HeaderMap) -> Result<Option<Asked>, Status> {
        let mut asked = Asked {
            name: one(headers, USER)?.unwrap_or_default(),
            uid: one(headers, UID)?,
            groups: headers.get_all(GROUP).iter().map(|value| text(GROUP, value)).collect::<Result<_, _>>()?,
            extra: BTreeMap::new(),
        };
        for (name, value) in headers {
            let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
            let values = asked.extra.entry(query::decode(key).to_lowercase()).or_default();
            values.push(text(name.as_str(), value)?);
        }
        let more = !asked.groups.is_empty() || asked.uid.is_some() || !asked.extra.is_empty();
        match (asked.name.is_empty(), more) {
            (true, true) => {
                Err(Status::bad_request("requested groups, a UID or extra values without impersonating a user"))
            }
            (true, false) => Ok(None),
            (false, _) => Ok(Some(asked)),
        }
    }
}

/// The value of a header that stands once; an empty one is none.
fn one(headers: &HeaderMap, name: &str) -> Result<Option<String>, Status> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(Some(text(name, value)?).filter(|value| !value.is_empty())),
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Status::bad_request(format!("the header {name} stands more than once"))),
    }
}

fn text(name: &str, value: &HeaderValue) -> Result<String, Status> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| Status::bad_request(format!("the header {name} is not valid UTF-8")))
}

/// Namespace and name of the service account that a user name stands for.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = rules::dns_label(namespace).is_empty() && rules::dns_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// The node that a user name stands for.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| rules::dns_subdomain(name).is_empty())
}

/// A domain, a slash and a path, as in `example.com/scopes`.
fn is_prefixed_path(key: &str) -> bool {
    let Some((domain, path)) = key.split_once('/') else { return false };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:/%@".contains(&b);
    rules::dns_subdomain(domain).is_empty() && !path.is_empty() && path.bytes().all(plain)
}
