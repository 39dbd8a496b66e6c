//! What is shown to which program: users of a kubeconfig that are named after the programs.
//!
//! ```text
//! name of a user          is shown to
//! hook.shop.svc:8443      the Service hook of the namespace shop, at this port
//! hook.shop.svc           the same at port 443
//! *.example.com           every host below example.com
//! *                       every other program; without one, the user of the current context
//! ```

use super::endpoint::Login;
use super::{EndpointError, Place, kubeconfig};
use crate::pki::Identity;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const HTTPS: u16 = 443;

/// What a request shows.
#[derive(Default)]
pub struct Credential {
    pub identity: Option<Identity>,
    pub login: Login,
}

/// The credentials of a file. Without one nothing is shown to anybody.
#[derive(Clone, Default)]
pub struct Credentials {
    pub(super) by_name: BTreeMap<String, Arc<Credential>>,
    /// For programs that no name fits.
    pub(super) otherwise: Option<Arc<Credential>>,
}

impl Credentials {
    pub fn of_kubeconfig(path: &Path) -> Result<Self, EndpointError> {
        kubeconfig::read(path, |file| file.credentials())
    }

    /// What a program is shown, the most special name first.
    pub fn of(&self, host: &str, port: u16) -> Option<&Arc<Credential>> {
        if self.by_name.is_empty() {
            return None;
        }
        let without_port = || (port == HTTPS).then(|| self.named(host)).flatten();
        let others = || self.by_name.get("*").or(self.otherwise.as_ref());
        self.named(&super::join(host, port)).or_else(without_port).or_else(others)
    }

    pub(super) fn of_place(&self, place: &Place) -> Option<&Arc<Credential>> {
        let (Place::Address { port, .. } | Place::Service { port, .. }) = place;
        self.of(&place.server_name(), *port)
    }

    /// Itself, or everything below one of its parents.
    fn named(&self, target: &str) -> Option<&Arc<Credential>> {
        let parents = target.match_indices('.').map(|(at, _)| format!("*{}", &target[at..]));
        let parents = parents.filter_map(|pattern| self.by_name.get(&pattern));
        self.by_name.get(target).or_else(|| parents.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_shown_what_is_named_after_it_and_nobody_elses_credential() {
        let names = ["hook.shop.svc:8443", "hook.shop.svc", "*.example.com", "*.b.example.com", "*.c.example.com:444"];
        let named = |name: &str| Credential { identity: None, login: Login::Fixed(name.to_owned()) };
        let mut credentials = Credentials {
            by_name: names.iter().map(|name| ((*name).to_owned(), Arc::new(named(name)))).collect(),
            otherwise: None,
        };
        let shown =
            |credentials: &Credentials, host: &str, port: u16| match credentials.of(host, port).map(|it| &it.login) {
                Some(Login::Fixed(name)) => name.clone(),
                _ => String::new(),
            };
        for (host, port, name) in [
            ("hook.shop.svc", 8443, "hook.shop.svc:8443"),
            ("hook.shop.svc", 443, "hook.shop.svc"),
            ("hook.shop.svc", 444, ""),
            ("other.shop.svc", 443, ""),
            ("a.example.com", 443, "*.example.com"),
            ("a.b.example.com", 443, "*.b.example.com"),
            ("a.c.example.com", 444, "*.c.example.com:444"),
            ("example.com", 443, ""),
            ("aexample.com", 443, ""),
        ] {
            assert_eq!(shown(&credentials, host, port), name, "{host}:{port}");
        }
        credentials.otherwise = Some(Arc::new(named("current")));
        assert_eq!(shown(&credentials, "other.shop.svc", 443), "current");
        credentials.by_name.insert("*".to_owned(), Arc::new(named("all")));
        assert_eq!(shown(&credentials, "other.shop.svc", 443), "all");
    }
}
