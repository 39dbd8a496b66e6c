//! The operator as a program.

use anyhow::Context as _;
use at_operator::cloud::Cloud;
use at_operator::{definition, reconcile, webhooks};
use pintle_runtime::webhook::WebhookConfig;
use pintle_runtime::{Context, LeaderConfig, Manager};
use tracing_subscriber::EnvFilter;

const USAGE: &str = "usage: at-operator [crd]

Runs Ats until Ctrl-C, in the cluster that the kubeconfig or the Pod's own account names.

  crd    prints the CustomResourceDefinition instead

environment:
  AT_CLOUD     the directory of the cloud service (./cloud)
  AT_HEALTH    where /healthz, /readyz and /metrics are shown, such as 127.0.0.1:8081 (nowhere)
  AT_LEASE     NAMESPACE/NAME of the Lease by which one of several processes leads (none: this is the only one)
  AT_IDENTITY  who competes for it; no other process may have the same
  AT_WEBHOOK   where the API server's questions are answered, such as 0.0.0.0:9443 (nowhere)
  AT_WEBHOOK_URL  how the API server reaches it, such as https://127.0.0.1:9443 (by the Service at-operator of its namespace)
  RUST_LOG     what is logged (info)";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        None => run().await,
        Some("crd") => {
            println!("{}", serde_saphyr::to_string(&definition::definition()?)?.trim_end());
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
    let cloud = Cloud::in_directory(variable("AT_CLOUD").unwrap_or_else(|| "cloud".to_owned()));
    let mut manager = Manager::connect("at-operator")
        .await?
        .run("at-operator", move |context| reconcile::run(context, cloud.clone()));
    if let Some(address) = variable("AT_HEALTH") {
        manager = manager.serve(address.parse().with_context(|| format!("AT_HEALTH={address} is not an address"))?);
    }
    if let Some(address) = variable("AT_WEBHOOK") {
        let mut config = WebhookConfig::new("at-operator", "at-operator", "at-operator-tls");
        config.address = address.parse().with_context(|| format!("AT_WEBHOOK={address} is not an address"))?;
        config.url = variable("AT_WEBHOOK_URL");
        // Every process answers, also those that do not lead.
        manager = manager.always("webhooks", move |context| answer(context, config.clone()));
    }
    if let Some(lease) = variable("AT_LEASE") {
        let (namespace, name) = lease.split_once('/').context("AT_LEASE is not NAMESPACE/NAME")?;
        let identity = variable("AT_IDENTITY").context("AT_LEASE needs AT_IDENTITY, which no other process has")?;
        manager = manager.elect(LeaderConfig { namespace: namespace.to_owned(), ..LeaderConfig::new(name, identity) });
    }
    Ok(manager.until_signal().await?)
}

/// Returns early only if it cannot go on; the manager then ends the process.
async fn answer(context: Context, config: WebhookConfig) {
    if let Err(error) = webhooks::server(&context, config).serve().await {
        tracing::error!(%error, "the webhook server has ended");
    }
}
