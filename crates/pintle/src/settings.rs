//! How the API server is set up, beside who comes in: admission plugins, feature gates, what is served. Flags have the names that
//! Kubernetes' API server has.

use crate::access::{AccessError, AccessFlags};
use pintle_apiserver::access::ConfigError;
use pintle_apiserver::admission::{self, PluginError};
use pintle_apiserver::catalogue::Served;
use pintle_apiserver::gates::Gates;
use pintle_apiserver::setup::Setup;
use std::path::PathBuf;

#[derive(clap::Args, Clone, Default, PartialEq)]
pub(crate) struct ServerFlags {
    #[command(flatten)]
    access: AccessFlags,
    /// Admission plugins that are on beside those that are by default: AlwaysPullImages, DenyServiceExternalIPs,
    /// OwnerReferencesPermissionEnforcement.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins that are off, by Kubernetes' names.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// An AdmissionConfiguration: defaults and exemptions of PodSecurity, credentials for admission webhooks (docs/webhooks.md). Read
    /// once, at the start.
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// Features to switch: WatchList=BOOL, ConstrainedImpersonation=BOOL.
    #[arg(long, value_name = "NAME=BOOL,…", value_parser = |list: &str| Gates::parse(list))]
    feature_gates: Option<Gates>,
    /// Built-in versions and resources to switch off: GROUP/VERSION=false, GROUP/VERSION/RESOURCE=false. Loops that need them wait for
    /// them: leave those out with --loops.
    #[arg(long, value_name = "KEY=BOOL,…", value_parser = |list: &str| Served::parse(list))]
    runtime_config: Option<Served>,
}

/// Why the flags, or a file that they name, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("{0}")]
    Access(#[from] AccessError),
    #[error("--enable-admission-plugins, --disable-admission-plugins: {0}")]
    Plugins(#[from] PluginError),
    #[error("--admission-control-config-file: {0}")]
    File(#[from] ConfigError),
}

impl ServerFlags {
    pub(crate) fn is_given(&self) -> bool {
        *self != ServerFlags::default()
    }

    /// Everything that the flags and their files say. `client_ca_pem` is the authority of users' certificates.
    pub(crate) fn load(&self, client_ca_pem: &str) -> Result<Setup, SettingsError> {
        let mut admission = admission::Setup::of(&self.enable_admission_plugins, &self.disable_admission_plugins)?;
        if let Some(path) = &self.admission_control_config_file {
            admission.configuration = admission::read(path)?;
        }
        Ok(Setup {
            access: self.access.load(client_ca_pem)?,
            admission,
            served: self.runtime_config.clone().unwrap_or_default(),
            gates: self.feature_gates.clone().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        flags: ServerFlags,
    }

    fn load(arguments: &[&str]) -> Result<Setup, String> {
        let program = Program::try_parse_from(std::iter::once(&"up").chain(arguments)).map_err(|e| e.to_string())?;
        program.flags.load("").map_err(|error| error.to_string())
    }

    #[test]
    fn what_can_be_switched_is_and_what_cannot_is_refused_before_anything_starts() {
        assert!(!Program::parse_from(["up"]).flags.is_given());
        assert!(Program::parse_from(["up", "--runtime-config=batch/v1=false"]).flags.is_given());
        let setup = load(&["--feature-gates=WatchList=false", "--runtime-config=batch/v1=false"]).unwrap();
        assert!(!setup.gates.watch_list && setup.served != Served::default());
        for (arguments, why) in [
            (&["--feature-gates=Magic=true"][..], "unrecognized feature gate: Magic"),
            (&["--feature-gates=JobPodReplacementPolicy=false"], "cannot be switched here"),
            (&["--runtime-config=api/alpha=true"], "alpha versions are not served here"),
            (&["--runtime-config=v1=false"], "cannot be switched off"),
            (&["--enable-admission-plugins=Magic"], "\"Magic\" is unknown"),
            (&["--enable-admission-plugins=ImagePolicyWebhook"], "not built here"),
            (&["--disable-admission-plugins=limitranger"], "\"limitranger\" is unknown"),
            (&["--admission-control-config-file=/nowhere"], "--admission-control-config-file: /nowhere"),
        ] {
            let error = load(arguments).err().unwrap_or_else(|| panic!("{arguments:?} is taken"));
            assert!(error.contains(why), "{arguments:?}: {error}");
        }
    }
}
