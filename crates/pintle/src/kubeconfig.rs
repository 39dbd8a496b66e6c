//! The administrator's kubeconfig: written by the server, found by the commands that ask it.

use crate::data_dir;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use pintle_apiserver::pki::Identity;
use serde_json::json;
use std::path::PathBuf;

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
#[error("no way to the server: {0}; name a kubeconfig with --kubeconfig, or the cluster's directory with --data-dir")]
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

/// As JSON, which is YAML too.
pub(crate) fn render(server: &str, ca_pem: &str, admin: &Identity) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pintle",
        "clusters": [{"name": "pintle", "cluster": {"server": server, "certificate-authority-data": base64(ca_pem)}}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": base64(&admin.certificate_pem), "client-key-data": base64(&admin.key_pem)}}],
        "contexts": [{"name": "pintle", "context": {"cluster": "pintle", "user": "admin"}}],
    });
    format!("{config:#}\n")
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}
