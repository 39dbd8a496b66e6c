//! What is registered by APIServices, as a part of the catalogue: who answers for a version, and the order of groups.

use super::{Documents, FrontProxyIdentity};
use crate::kept::api_services;
use crate::outbound::{Destination, Place, Trust};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use imbl::OrdMap;
use serde::Deserialize;
use std::sync::{Arc, OnceLock};

/// A version that another API server answers for.
pub struct Registered {
    pub group: String,
    pub version: String,
    pub service: Reference,
    /// Its condition says that it can be asked.
    pub is_available: bool,
    trust: Trusted,
    destination: Arc<OnceLock<Result<Destination, String>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Trusted {
    Anyone,
    /// Certificates of these authorities are accepted; of those that the machine trusts if the list is empty.
    Authorities(Vec<u8>),
}

impl Registered {
    /// The name of its APIService.
    pub fn name(&self) -> String {
        api_services::name(&self.group, &self.version)
    }

    /// The path of its version.
    pub fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    /// Where it is reached and how it is recognised. The error is one for people.
    pub(super) fn destination(&self, identity: &FrontProxyIdentity) -> Result<&Destination, &str> {
        let made = self.destination.get_or_init(|| {
            let identity = identity.get();
            let trust = match &self.trust {
                Trusted::Anyone => Trust::of_anyone(identity.as_deref()),
                Trusted::Authorities(bundle) => Trust::of_bundle(bundle, identity.as_deref()),
            };
            let Reference { namespace, name, port } = self.service.clone();
            Ok(Destination {
                place: Place::Service { namespace, name, port },
                trust: trust.map_err(|e| e.to_string())?,
            })
        });
        made.as_ref().map_err(String::as_str)
    }

    /// Do both lead to the same server?
    pub(super) fn leads_where(&self, other: &Registered) -> bool {
        self.service == other.service && self.trust == other.trust
    }
}

/// What a server says of one of its versions.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The resources as JSON, as discovery shows them.
    pub resources: String,
    /// It could not be asked, or did not answer so that it is understood.
    pub is_stale: bool,
    pub documents: Documents,
}

/// Keys are names of APIServices, `v1.example.com`.
#[derive(Clone, Default)]
pub struct Registrations {
    remote: OrdMap<String, Arc<Registered>>,
    told: OrdMap<String, Arc<Told>>,
    /// Places in the order of groups and versions that differ from those of the version's kind.
    places: OrdMap<String, (i64, i64)>,
}

#[derive(Deserialize)]
struct Stored {
    spec: Spec,
    #[serde(default)]
    status: State,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    group: String,
    version: String,
    service: Option<Reference>,
    ca_bundle: String,
    #[serde(rename = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
    group_priority_minimum: i64,
    version_priority: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

impl Registrations {
    /// An APIService is now this one, or gone. True if documents about the catalogue are not right any more.
    pub fn change(&mut self, name: &str, stored: Option<&[u8]>) -> bool {
        let stored = stored.and_then(|stored| serde_json::from_slice::<Stored>(stored).ok());
        let Some(Stored { spec, status }) = stored else {
            let was_shown = self.remote.remove(name).is_some() | self.told.remove(name).is_some();
            return self.places.remove(name).is_some() | was_shown;
        };
        let place = (spec.group_priority_minimum, spec.version_priority);
        let moved = if place == usual(&spec.group, &spec.version) && spec.service.is_none() {
            self.places.remove(name).is_some()
        } else {
            self.places.insert(name.to_owned(), place) != Some(place)
        };
        let Some(service) = spec.service else {
            self.told.remove(name);
            return self.remote.remove(name).is_some() | moved;
        };
        let trust = match spec.insecure_skip_tls_verify {
            true => Trusted::Anyone,
            // Checked when it was written.
            false => Trusted::Authorities(BASE64_STANDARD.decode(&spec.ca_bundle).unwrap_or_default()),
        };
        let is_available = status.conditions.iter().any(|one| one.r#type == "Available" && one.status == "True");
        let (group, version) = (spec.group, spec.version);
        let mut registered = Registered { group, version, service, is_available, trust, destination: Arc::default() };
        let before = self.remote.get(name).filter(|before| before.leads_where(&registered));
        if let Some(before) = before {
            registered.destination = before.destination.clone();
        }
        let is_new = !self.remote.contains_key(name);
        self.remote.insert(name.to_owned(), Arc::new(registered));
        is_new | moved
    }

    /// A server says this of one of its versions; nothing if it is not asked any more. False if it said so before.
    pub fn tell(&mut self, name: &str, told: Option<&Arc<Told>>) -> bool {
        match told {
            Some(told) => self.told.insert(name.to_owned(), told.clone()).as_ref() != Some(told),
            None => self.told.remove(name).is_some(),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Registered>> {
        self.remote.get(name)
    }

    pub fn is_empty(&self) -> bool {
        self.remote.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = (&String, &Arc<Registered>)> {
        self.remote.iter()
    }

    pub fn is_remote(&self, group: &str, version: &str) -> bool {
        !self.remote.is_empty() && self.remote.contains_key(&api_services::name(group, version))
    }

    /// What a server that was asked says of a version.
    pub fn told(&self, group: &str, version: &str) -> Option<&Arc<Told>> {
        if self.told.is_empty() { None } else { self.told.get(&api_services::name(group, version)) }
    }

    /// Who answers a path in place of this server.
    pub fn at(&self, url: &str) -> Option<&Arc<Registered>> {
        if self.remote.is_empty() {
            return None;
        }
        let mut parts = url.split('/').filter(|part| !part.is_empty());
        let (group, version) = match parts.next()? {
            "api" => ("", "v1"),
            "apis" => (parts.next()?, parts.next()?),
            "openapi" if parts.next()? == "v3" && parts.next()? == "apis" => {
                let (group, version) = (parts.next()?, parts.next()?);
                let told = self.told(group, version)?;
                return if told.documents.v3_url.is_some() {
                    self.get(&api_services::name(group, version))
                } else {
                    None
                };
            }
            _ => return None,
        };
        self.get(&api_services::name(group, version))
    }

    /// The place of a version in the order: of its group, and in its group. More comes first.
    pub fn place(&self, group: &str, version: &str) -> (i64, i64) {
        let moved = if self.places.is_empty() { None } else { self.places.get(&api_services::name(group, version)) };
        moved.copied().unwrap_or_else(|| usual(group, version))
    }
}

fn usual(group: &str, version: &str) -> (i64, i64) {
    let row = api_services::BUILT_IN.iter().find(|row| row.0 == group && row.1 == version);
    row.map_or(api_services::CUSTOM, |row| (row.2, row.3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(available: &str) -> Value {
        json!({"spec": {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "service": {"namespace": "n", "name": "s", "port": 443}},
            "status": {"conditions": [{"type": "Available", "status": available}]}})
    }

    #[test]
    fn every_path_of_a_registered_version_is_the_other_servers() {
        let mut all = Registrations::default();
        assert!(all.change("v1.a.example.com", Some(service("False").to_string().as_bytes())));
        for (path, is_theirs) in [
            ("/apis/a.example.com/v1", true),
            ("/apis/a.example.com/v1/", true),
            ("//apis//a.example.com/v1/x", true),
            ("/apis/a.example.com/v1/namespaces/x/things/y", true),
            ("/apis/a.example.com", false),
            ("/apis/a.example.com/v2", false),
            ("/api/v1/pods", false),
            ("/openapi/v3/apis/a.example.com/v1", false),
        ] {
            assert_eq!(all.at(path).is_some(), is_theirs, "{path}");
        }
        assert!(!all.at("/apis/a.example.com/v1").unwrap().is_available);
        assert!(
            !all.change("v1.a.example.com", Some(service("True").to_string().as_bytes())),
            "documents stay as they are"
        );
        assert!(all.at("/apis/a.example.com/v1").unwrap().is_available);
        assert!(all.change("v1.a.example.com", None));
        assert!(all.at("/apis/a.example.com/v1").is_none());
    }

    #[test]
    fn a_version_has_the_place_that_its_object_says() {
        let mut all = Registrations::default();
        assert_eq!(all.place("apps", "v1"), (17800, 15));
        assert_eq!(all.place("a.example.com", "v1"), (1000, 100));
        all.change("v1.a.example.com", Some(service("True").to_string().as_bytes()));
        assert_eq!(all.place("a.example.com", "v1"), (100, 10));
        let local =
            json!({"spec": {"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15}});
        assert!(!all.change("v1.apps", Some(local.to_string().as_bytes())), "as it always was");
    }
}
