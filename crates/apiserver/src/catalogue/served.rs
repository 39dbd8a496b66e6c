//! Which built-in versions are served: all, but for those that a configuration switches off (`--runtime-config`).

use super::{Catalogue, Resource};
use crate::gates::boolean;
use std::collections::{BTreeMap, BTreeSet};

/// Versions and single resources that are not served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    off: BTreeSet<(String, String)>,
    resources_off: BTreeSet<(String, String, String)>,
}

/// Why a configuration cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServedError {
    #[error(
        "{0:?} is no version: give GROUP/VERSION=false, GROUP/VERSION/RESOURCE=false or api/all, api/ga, api/beta, api/alpha"
    )]
    Malformed(String),
    #[error("invalid value of {key}: {value:?} is neither true nor false")]
    NotBoolean { key: String, value: String },
    #[error("{0} is named twice")]
    Twice(String),
    #[error("unknown api groups {0}")]
    UnknownGroup(String),
    #[error("group version {0} is not served here and cannot be switched on")]
    UnknownVersion(String),
    #[error("{0} versions are not served here and cannot be switched on")]
    NoSuchStage(&'static str),
    #[error("resource {0} is not served here")]
    UnknownResource(String),
    #[error("{0} cannot be switched off: the API server itself depends on it")]
    Needed(String),
}

/// Groups that the server reads and writes for itself: users, rights, flows, its own Service, and what others register with it.
const NEEDED: [&str; 11] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
];

/// Written at the first start too, by its name.
const NEEDED_RESOURCE: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");

impl Served {
    /// `KEY=true,KEY=false`; what is more special decides: a resource, then a version, then `api/ga` and its kin, then `api/all`.
    pub fn parse(list: &str) -> Result<Self, ServedError> {
        let catalogue = Catalogue::default();
        let asked = Asked::parse(list)?;
        let mut served = Served::default();
        for resource in catalogue.built_in() {
            if !asked.wants(&resource.group, &resource.version) {
                served.off.insert((resource.group.clone(), resource.version.clone()));
            }
        }
        for (key, on) in &asked.resources {
            let (group, version, name) = key;
            let known = catalogue.get(group, version, name);
            known.ok_or_else(|| ServedError::UnknownResource(format!("{group}/{version}/{name}")))?;
            match on {
                true if !asked.wants(group, version) => {
                    // The others of the version stay off, one by one.
                    served.off.remove(&(group.clone(), version.clone()));
                    for other in catalogue.of_group_version(group, version) {
                        let key = (group.clone(), version.clone(), other.name.clone());
                        if asked.resources.get(&key) != Some(&true) {
                            served.resources_off.insert(key);
                        }
                    }
                }
                true => {}
                false => _ = served.resources_off.insert(key.clone()),
            }
        }
        let needed = |resource: &&std::sync::Arc<Resource>| {
            let of = (resource.group.as_str(), resource.name.as_str());
            (NEEDED.contains(&of.0) || of == NEEDED_RESOURCE) && !served.has(resource)
        };
        match catalogue.built_in().find(needed) {
            Some(resource) => Err(ServedError::Needed(format!("{}/{}", resource.api_version(), resource.name))),
            None => Ok(served),
        }
    }

    pub(super) fn has(&self, resource: &Resource) -> bool {
        if self.off.is_empty() && self.resources_off.is_empty() {
            return true;
        }
        let (group, version) = (resource.group.clone(), resource.version.clone());
        !self.off.contains(&(group.clone(), version.clone()))
            && !self.resources_off.contains(&(group, version, resource.name.clone()))
    }
}

/// What a configuration says, by how special it is.
#[derive(Default)]
struct Asked {
    all: Option<bool>,
    ga: Option<bool>,
    versions: BTreeMap<(String, String), bool>,
    resources: BTreeMap<(String, String, String), bool>,
}

impl Asked {
    fn parse(list: &str) -> Result<Self, ServedError> {
        let (mut asked, mut seen) = (Asked::default(), BTreeSet::new());
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            // As upstream: what has no value is switched on.
            let (key, value) = word.split_once('=').unwrap_or((word, "true"));
            if !seen.insert(key) {
                return Err(ServedError::Twice(key.to_owned()));
            }
            let wrong = || ServedError::NotBoolean { key: key.to_owned(), value: value.to_owned() };
            asked.note(key, boolean(value).ok_or_else(wrong)?)?;
        }
        Ok(asked)
    }

    fn note(&mut self, key: &str, on: bool) -> Result<(), ServedError> {
        let parts: Vec<&str> = key.split('/').collect();
        match parts[..] {
            ["api", "all"] => self.all = Some(on),
            ["api", "ga"] => self.ga = Some(on),
            // They are off.
            ["api", "beta" | "alpha"] if !on => {}
            ["api", "beta"] => return Err(ServedError::NoSuchStage("beta")),
            ["api", "alpha"] => return Err(ServedError::NoSuchStage("alpha")),
            ["v1"] | ["api", "v1"] => _ = self.versions.insert((String::new(), "v1".to_owned()), on),
            [group, version] if !group.is_empty() && !version.is_empty() => {
                let known = known(group, version);
                match known {
                    Known::Version => _ = self.versions.insert((group.to_owned(), version.to_owned()), on),
                    // A version that is off is off.
                    Known::Group if !on => {}
                    Known::Group => return Err(ServedError::UnknownVersion(key.to_owned())),
                    Known::Nothing => return Err(ServedError::UnknownGroup(group.to_owned())),
                }
            }
            [group, version, resource] if !resource.is_empty() => {
                let group = if group == "api" { "" } else { group };
                let key = (group.to_owned(), version.to_owned(), resource.to_owned());
                self.resources.insert(key, on);
            }
            _ => return Err(ServedError::Malformed(key.to_owned())),
        }
        Ok(())
    }

    /// Is this version wanted as a whole?
    fn wants(&self, group: &str, version: &str) -> bool {
        let named = self.versions.get(&(group.to_owned(), version.to_owned())).copied();
        // Every version that is built in is one of the form that `api/ga` means.
        named.or(self.ga).or(self.all).unwrap_or(true)
    }
}

enum Known {
    Version,
    Group,
    Nothing,
}

fn known(group: &str, version: &str) -> Known {
    let catalogue = Catalogue::default();
    let mut found = Known::Nothing;
    for resource in catalogue.built_in().filter(|resource| resource.group == group) {
        if resource.version == version {
            return Known::Version;
        }
        found = Known::Group;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_resources_are_switched_off_and_the_rest_is_served() {
        let all = Catalogue::default().built_in().count();
        let count = |list: &str| {
            let served = Served::parse(list).unwrap_or_else(|error| panic!("{list}: {error}"));
            Catalogue::default().built_in().filter(|resource| served.has(resource)).count()
        };
        let of = |group: &str| Catalogue::default().built_in().filter(|resource| resource.group == group).count();
        assert_eq!(count(""), all);
        assert_eq!(count("api/all=true,api/beta=false,batch/v1"), all);
        assert_eq!(count("batch/v1=false"), all - of("batch"));
        assert_eq!(count("batch/v1/cronjobs=false"), all - 1);
        assert_eq!(count("batch/v1=false,batch/v1/jobs=true"), all - of("batch") + 1);
        assert_eq!(count("batch/v2alpha1=false"), all);
    }

    #[test]
    fn what_cannot_be_switched_is_refused_by_its_name() {
        for (list, why) in [
            ("batch=false", "\"batch\" is no version"),
            ("batch/v1=no", "invalid value of batch/v1"),
            ("batch/v1=true,batch/v1=false", "batch/v1 is named twice"),
            ("example.com/v1=false", "unknown api groups example.com"),
            ("batch/v2alpha1=true", "batch/v2alpha1 is not served here"),
            ("batch/v1/cronjob=false", "batch/v1/cronjob is not served here"),
            ("api/alpha=true", "alpha versions are not served here"),
            ("v1=false", "cannot be switched off"),
            ("api/all=false", "cannot be switched off"),
            ("networking.k8s.io/v1=false", "networking.k8s.io/v1/"),
            ("scheduling.k8s.io/v1=false", "scheduling.k8s.io/v1/priorityclasses"),
        ] {
            let said = Served::parse(list).unwrap_err().to_string();
            assert!(said.contains(why), "{list}: {said}");
        }
    }
}
