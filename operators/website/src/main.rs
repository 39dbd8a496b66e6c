//! The operator as a program.

use anyhow::Context as _;
use kube::CustomResourceExt;
use pintle_runtime::{LeaderConfig, Manager};
use tracing_subscriber::EnvFilter;
use website_operator::{reconcile, types};

const USAGE: &str = "usage: website-operator [crd]

Works until Ctrl-C, in the cluster that the kubeconfig or the Pod's own account names.

  crd    prints the CustomResourceDefinition instead

environment:
  OPERATOR_HEALTH    where /healthz, /readyz and /metrics are shown, such as 127.0.0.1:8081 (nowhere)
  OPERATOR_LEASE     NAMESPACE/NAME of the Lease by which one of several processes leads (none: this is the only one)
  OPERATOR_IDENTITY  who competes for it; no other process may have the same
  RUST_LOG           what is logged (info)";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        None => run().await,
        Some("crd") => {
            println!("{}", serde_saphyr::to_string(&types::Website::crd())?.trim_end());
            Ok(())
        }
        Some("-h" | "--help") => {
            println!("{USAGE}");
            Ok(())
        }
        Some(other) => anyhow::bail!("unknown argument {other:?}\n\n{USAGE}"),
    }
}

async fn run() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let variable = |name: &str| std::env::var(name).ok();
    let mut manager = Manager::connect(reconcile::NAME).await?.run(reconcile::NAME, reconcile::run);
    if let Some(address) = variable("OPERATOR_HEALTH") {
        let address = address.parse().with_context(|| format!("OPERATOR_HEALTH={address} is not an address"))?;
        manager = manager.serve(address);
    }
    if let Some(lease) = variable("OPERATOR_LEASE") {
        let (namespace, name) = lease.split_once('/').context("OPERATOR_LEASE is not NAMESPACE/NAME")?;
        let identity = variable("OPERATOR_IDENTITY").context("OPERATOR_LEASE needs OPERATOR_IDENTITY beside it")?;
        manager = manager.elect(LeaderConfig { namespace: namespace.to_owned(), ..LeaderConfig::new(name, identity) });
    }
    Ok(manager.until_signal().await?)
}
