//! Acting as another user: the `Impersonate-…` headers, each checked against the rights of the one who sends them.
//!
//! - A header that cannot be read is an error. It never counts as absent: the request would run with its sender's rights.
//! - A service account is impersonated by the right on `serviceaccounts` in its namespace, and has its usual groups.
//! - Groups, a UID or extra values without a user are an error.

use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use crate::authz::Authorizer;
use crate::call::Call;
use crate::notes::Notes;
use crate::request::ResourcePath;
use crate::verb::Verb;
use http::{HeaderMap, HeaderValue};
use pintle_meta::{Status, query, rules};
use std::collections::BTreeMap;
use std::sync::Arc;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The API group of the rights on UIDs and extra values.
const AUTHENTICATION: &str = "authentication.k8s.io";

const IMPERSONATE: Verb = Verb::right("impersonate");

/// The user that a request acts as: `user` itself, or the one that its headers name.
pub async fn impersonate(authorizer: &Authorizer, user: Arc<User>, headers: &HeaderMap) -> Result<Arc<User>, Status> {
    let Some(asked) = Asked::of(headers)? else { return Ok(user) };
    let account = service_account(&asked.name);
    for path in rights(&asked, account) {
        authorizer.authorize(&Call::asks(user.clone(), IMPERSONATE, path), &Notes::new()).await?;
    }
    let groups = groups_of(&asked, account);
    Ok(Arc::new(User { uid: asked.uid.unwrap_or_default(), name: asked.name, groups, extra: asked.extra }))
}

/// Everything that the right to impersonate is needed on.
fn rights(asked: &Asked, account: Option<(&str, &str)>) -> Vec<ResourcePath> {
    let on = |group: &str, resource: &str, name: &str| ResourcePath {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourcePath::default()
    };
    let mut rights = vec![match account {
        Some((namespace, name)) => ResourcePath { namespace: namespace.to_owned(), ..on("", "serviceaccounts", name) },
        None => on("", "users", &asked.name),
    }];
    rights.extend(asked.groups.iter().map(|name| on("", "groups", name)));
    for (key, values) in &asked.extra {
        let extra = |name: &String| ResourcePath { subresource: key.clone(), ..on(AUTHENTICATION, "userextras", name) };
        rights.extend(values.iter().map(extra));
    }
    rights.extend(asked.uid.iter().map(|name| on(AUTHENTICATION, "uids", name)));
    rights
}

/// What the headers ask for.
#[derive(Default)]
struct Asked {
    name: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Asked {
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

/// The groups that were asked for, else those that a service account always has; and whether it is somebody at all.
fn groups_of(asked: &Asked, account: Option<(&str, &str)>) -> Vec<String> {
    let mut groups = asked.groups.clone();
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    }
    let (missing, instead) = match asked.name.as_str() {
        ANONYMOUS => (UNAUTHENTICATED, UNAUTHENTICATED),
        _ => (AUTHENTICATED, UNAUTHENTICATED),
    };
    if !groups.iter().any(|group| group == missing || group == instead) {
        groups.push(missing.to_owned());
    }
    groups
}
