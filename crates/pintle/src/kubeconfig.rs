//! The administrator's kubeconfig: written by the server, found by the commands that ask it.

use crate::credential::{self, ADMINISTRATOR};
use crate::data_dir;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use pintle_apiserver::authn::MASTERS;
use pintle_apiserver::pki::{Identity, Pki, PkiError, write_private};
use pintle_meta::Clock;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which cluster a command asks.
#[derive(clap::Args)]
pub(crate) struct ClusterFlags {
    /// How to reach the server [default: $KUBECONFIG, then DIR/admin.kubeconfig, then ~/.kube/config].
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// Where the cluster is kept [default: $XDG_DATA_HOME/pintle or ~/.local/share/pintle].
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "no usable kubeconfig found: {0}; name a kubeconfig with --kubeconfig, or the cluster's directory with --data-dir"
)]
pub(crate) struct NoWay(#[from] KubeconfigError);

impl ClusterFlags {
    pub(crate) async fn config(&self) -> Result<Config, NoWay> {
        Ok(Config::from_custom_kubeconfig(self.find()?, &KubeConfigOptions::default()).await?)
    }

    fn find(&self) -> Result<Kubeconfig, KubeconfigError> {
        if let Some(file) = &self.kubeconfig {
            return Kubeconfig::read_from(file);
        }
        if self.data_dir.is_none()
            && let Some(config) = Kubeconfig::from_env()?
        {
            return Ok(config);
        }
        let of_directory = data_dir::resolve(self.data_dir.as_ref()).map(|d| d.join("admin.kubeconfig"));
        match of_directory.filter(|file| file.exists() || self.data_dir.is_some()) {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        }
    }
}

/// What the administrator's kubeconfig is and where it is written.
#[derive(clap::Args, Clone)]
pub(crate) struct WriteFlags {
    /// Where the administrator's kubeconfig is written [default: DIR/admin.kubeconfig].
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// What it has for a credential: a certificate for a year, or the command `pintle credential`, which makes a certificate for an
    /// hour whenever the last one has expired.
    #[arg(long, value_enum, value_name = "KIND", default_value = "certificate")]
    kubeconfig_credentials: Credentials,
    /// For how long the certificates of that command count [default: 1h].
    #[arg(long, value_name = "TIME", value_parser = credential::ttl)]
    credential_ttl: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Credentials {
    Certificate,
    Exec,
}

/// Why it cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unwritten {
    #[error("--kubeconfig-credentials exec needs keys that are kept: with --ephemeral, name a directory with --pki")]
    NoKeys,
    #[error("--credential-ttl has no effect without --kubeconfig-credentials exec")]
    NoCommand,
    #[error("the path of this program is not known: {0}")]
    Program(io::Error),
    #[error("{0}")]
    Pki(#[from] PkiError),
}

/// Whose kubeconfig it is, and where its parts are.
pub(crate) struct Written<'a> {
    /// The directory in which it is if no file was named.
    pub(crate) directory: &'a Path,
    /// Where the authority's keys are kept, if they are.
    pub(crate) keys: Option<&'a Path>,
    pub(crate) url: &'a str,
    pub(crate) pki: &'a Pki,
}

impl WriteFlags {
    pub(crate) fn check(&self, are_keys_kept: bool) -> Result<(), Unwritten> {
        match (self.kubeconfig_credentials, are_keys_kept, &self.credential_ttl) {
            (Credentials::Exec, false, _) => Err(Unwritten::NoKeys),
            (Credentials::Certificate, _, Some(_)) => Err(Unwritten::NoCommand),
            _ => Ok(()),
        }
    }

    /// Writes it and answers where.
    pub(crate) fn write(&self, of: &Written<'_>, clock: &Clock) -> Result<PathBuf, Unwritten> {
        let path = self.write_kubeconfig.clone().unwrap_or_else(|| of.directory.join("admin.kubeconfig"));
        let text = match self.kubeconfig_credentials {
            Credentials::Certificate => {
                let admin = of.pki.client(ADMINISTRATOR, MASTERS, clock.now())?;
                render(of.url, &of.pki.ca_pem, &Login::Identity(&admin))
            }
            Credentials::Exec => {
                let keys = std::path::absolute(of.keys.ok_or(Unwritten::NoKeys)?).map_err(Unwritten::Program)?;
                let program = std::env::current_exe().map_err(Unwritten::Program)?;
                let mut arguments = vec!["credential".to_owned(), format!("--pki={}", keys.display())];
                arguments.extend(self.credential_ttl.map(|ttl| format!("--ttl={}s", ttl.as_secs())));
                render(of.url, &of.pki.ca_pem, &Login::Plugin { program: &program, arguments: &arguments })
            }
        };
        write_private(&path, &text)?;
        Ok(path)
    }
}

/// How the administrator proves who they are.
pub(crate) enum Login<'a> {
    /// A certificate and its key, in the file.
    Identity(&'a Identity),
    /// A command that is asked for a credential whenever the last one has expired.
    Plugin { program: &'a Path, arguments: &'a [String] },
}

impl Login<'_> {
    fn user(&self) -> Value {
        match self {
            Login::Identity(identity) => json!({
                "client-certificate-data": base64(&identity.certificate_pem),
                "client-key-data": base64(&identity.key_pem),
            }),
            Login::Plugin { program, arguments } => json!({"exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": program,
                "args": arguments,
                "interactiveMode": "Never",
                "installHint": "the credentials of this cluster come from pintle, on the machine where the cluster runs",
            }}),
        }
    }
}

/// As JSON, which is YAML too.
pub(crate) fn render(server: &str, ca_pem: &str, admin: &Login<'_>) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pintle",
        "clusters": [{"name": "pintle", "cluster": {"server": server, "certificate-authority-data": base64(ca_pem)}}],
        "users": [{"name": "admin", "user": admin.user()}],
        "contexts": [{"name": "pintle", "context": {"cluster": "pintle", "user": "admin"}}],
    });
    format!("{config:#}\n")
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}
