//! PodSecurityConfiguration: what counts where a namespace has no labels, and who is exempt.

use super::policy::{Policy, Standard};
use pintle_meta::field::{Error, Errors, Path};
use serde::Deserialize;
use std::collections::BTreeSet;

/// What a configuration file says, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    pub(in crate::admission) defaults: Policy,
    pub(super) exempt: Exemptions,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Exemptions {
    pub(super) usernames: Vec<String>,
    pub(super) namespaces: Vec<String>,
    pub(super) runtime_classes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admission) struct File {
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    exemptions: Exemptions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

impl Default for Defaults {
    fn default() -> Self {
        let (level, version) = (|| "privileged".to_owned(), || "latest".to_owned());
        Defaults {
            enforce: level(),
            enforce_version: version(),
            audit: level(),
            audit_version: version(),
            warn: level(),
            warn_version: version(),
        }
    }
}

impl File {
    /// `at` is where the configuration stands in its file.
    pub(in crate::admission) fn validated(self, at: &Path) -> Result<Configuration, Errors> {
        let (mut errors, defaults) = (Errors::new(), at.child("defaults"));
        let mut standard = |mode: &str, level: &str, version: &str| {
            let paths = (defaults.child(mode), defaults.child(&format!("{mode}-version")));
            Standard::parse(level, version, (&paths.0, &paths.1), &mut errors)
        };
        let Defaults { enforce, enforce_version, audit, audit_version, warn, warn_version } = &self.defaults;
        let defaults = Policy {
            enforce: standard("enforce", enforce, enforce_version),
            audit: standard("audit", audit, audit_version),
            warn: standard("warn", warn, warn_version),
        };
        let exemptions = at.child("exemptions");
        let Exemptions { usernames, namespaces, runtime_classes } = &self.exemptions;
        for (field, names) in
            [("usernames", usernames), ("namespaces", namespaces), ("runtimeClasses", runtime_classes)]
        {
            let mut seen = BTreeSet::new();
            for (index, name) in names.iter().enumerate() {
                let path = exemptions.child(field).index(index);
                if name.is_empty() {
                    errors.push(Error::invalid(&path, name.as_str(), "must not be empty"));
                } else if !seen.insert(name) {
                    errors.push(Error::duplicate(&path, name.as_str()));
                }
            }
        }
        match errors.is_empty() {
            true => Ok(Configuration { defaults, exempt: self.exemptions }),
            false => Err(errors),
        }
    }
}
