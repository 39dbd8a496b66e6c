//! Which admission plugins are on, by Kubernetes' names, and what a configuration file tells them.

mod file;

pub use file::read;

use super::pod_security;
use crate::outbound::Credentials;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a plugin of Kubernetes is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Here {
    On,
    /// Off unless asked for.
    Off,
    /// Not built.
    Absent,
}

/// Every plugin that Kubernetes v1.36 knows. NodeRestriction is on, as every installer of Kubernetes sets it.
const KNOWN: [(&str, Here); 39] = [
    ("AlwaysAdmit", Here::Absent),
    ("AlwaysDeny", Here::Absent),
    ("AlwaysPullImages", Here::Off),
    ("CertificateApproval", Here::On),
    ("CertificateSigning", Here::On),
    ("CertificateSubjectRestriction", Here::On),
    ("ClusterTrustBundleAttest", Here::On),
    ("DefaultIngressClass", Here::On),
    ("DefaultStorageClass", Here::On),
    ("DefaultTolerationSeconds", Here::On),
    ("DenyServiceExternalIPs", Here::Off),
    ("EventRateLimit", Here::Absent),
    ("ExtendedResourceToleration", Here::Absent),
    ("ImagePolicyWebhook", Here::Absent),
    ("LimitPodHardAntiAffinityTopology", Here::Absent),
    ("LimitRanger", Here::On),
    ("MutatingAdmissionPolicy", Here::Absent),
    ("MutatingAdmissionWebhook", Here::On),
    ("NamespaceAutoProvision", Here::Absent),
    ("NamespaceExists", Here::Absent),
    ("NamespaceLifecycle", Here::On),
    ("NodeDeclaredFeatureValidator", Here::Absent),
    ("NodeRestriction", Here::On),
    ("OwnerReferencesPermissionEnforcement", Here::Off),
    ("PersistentVolumeClaimResize", Here::On),
    ("PodGroupProtection", Here::Absent),
    ("PodNodeSelector", Here::Absent),
    ("PodResizeValidator", Here::On),
    ("PodSecurity", Here::On),
    ("PodTolerationRestriction", Here::Absent),
    ("PodTopologyLabels", Here::On),
    ("Priority", Here::On),
    ("ResourceQuota", Here::On),
    ("RuntimeClass", Here::On),
    ("ServiceAccount", Here::On),
    ("StorageObjectInUseProtection", Here::On),
    ("TaintNodesByCondition", Here::On),
    ("ValidatingAdmissionPolicy", Here::Absent),
    ("ValidatingAdmissionWebhook", Here::On),
];

/// Why a list of plugins cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("plugin {name:?} is unknown; the plugins are {}", names(&[Here::On, Here::Off]))]
    Unknown { name: String },
    #[error("plugin {name:?} of Kubernetes is not built here; the plugins are {}", names(&[Here::On, Here::Off]))]
    Absent { name: String },
    #[error("plugin {0:?} is both enabled and disabled")]
    Both(String),
}

fn names(of: &[Here]) -> String {
    let named: Vec<&str> = KNOWN.iter().filter(|(_, here)| of.contains(here)).map(|(name, _)| *name).collect();
    named.join(", ")
}

fn known(name: &str) -> Option<(&'static str, Here)> {
    KNOWN.iter().find(|(known, _)| *known == name).copied()
}

/// The plugins that are on, and how they are set up.
#[derive(Clone, Default)]
pub struct Setup {
    enabled: BTreeSet<&'static str>,
    disabled: BTreeSet<&'static str>,
    pub configuration: Configuration,
}

/// What a configuration file says to single plugins.
#[derive(Clone, Default)]
pub struct Configuration {
    pub pod_security: Arc<pod_security::Configuration>,
    /// What is shown to webhooks.
    pub mutating: Arc<Credentials>,
    pub validating: Arc<Credentials>,
}

impl Setup {
    /// Some plugins more and some less than those that are on by default.
    pub fn of(enabled: &[String], disabled: &[String]) -> Result<Self, PluginError> {
        let mut setup = Setup::default();
        for name in enabled {
            match known(name) {
                None => return Err(PluginError::Unknown { name: name.clone() }),
                Some((_, Here::Absent)) => return Err(PluginError::Absent { name: name.clone() }),
                Some((name, _)) => _ = setup.enabled.insert(name),
            }
        }
        for name in disabled {
            // One that is not built is off, as it is asked for.
            let (name, _) = known(name).ok_or_else(|| PluginError::Unknown { name: name.clone() })?;
            setup.disabled.insert(name);
        }
        match setup.enabled.intersection(&setup.disabled).next() {
            Some(both) => Err(PluginError::Both((*both).to_owned())),
            None => Ok(setup),
        }
    }

    /// Is the plugin of this name on? What has no name is a part of the server.
    pub(super) fn has(&self, name: &str) -> bool {
        let on_by_default = known(name).is_none_or(|(_, here)| here == Here::On);
        (on_by_default || self.enabled.contains(name)) && !self.disabled.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(enabled: &[&str], disabled: &[&str]) -> Result<Setup, String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Setup::of(&owned(enabled), &owned(disabled)).map_err(|error| error.to_string())
    }

    #[test]
    fn plugins_are_switched_by_the_names_that_kubernetes_has() {
        let setup = of(&["DenyServiceExternalIPs", "LimitRanger"], &["PodSecurity", "ImagePolicyWebhook"]).unwrap();
        for (name, on) in [
            ("DenyServiceExternalIPs", true),
            ("AlwaysPullImages", false),
            ("LimitRanger", true),
            ("PodSecurity", false),
            ("Priority", true),
            ("", true),
        ] {
            assert_eq!(setup.has(name), on, "{name}");
        }
    }

    #[test]
    fn a_plugin_that_cannot_be_switched_is_refused_by_its_name() {
        for (enabled, disabled, why) in [
            (&["LimitRange"][..], &[][..], "\"LimitRange\" is unknown; the plugins are AlwaysPullImages, "),
            (&[], &["limitranger"], "\"limitranger\" is unknown"),
            (&["EventRateLimit"], &[], "\"EventRateLimit\" of Kubernetes is not built here"),
            (&["Priority"], &["Priority"], "\"Priority\" is both enabled and disabled"),
        ] {
            let said = of(enabled, disabled).err().unwrap();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn every_plugin_that_can_be_switched_is_one_of_the_chain() {
        let store: Arc<dyn pintle_store::Store> = Arc::new(pintle_store::MemoryStore::new());
        let metrics = crate::serve::metrics::Metrics::default();
        let chain = super::super::plugins(&store, &metrics.webhooks, &Configuration::default());
        let chain: BTreeSet<&str> = chain.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let switched: BTreeSet<&str> =
            KNOWN.iter().filter(|(_, here)| *here != Here::Absent).map(|(name, _)| *name).collect();
        assert_eq!(chain, switched);
    }
}
