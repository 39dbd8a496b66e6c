//! The operator as a program.

use at_operator::cloud::Cloud;
use at_operator::{definition, reconcile};
use pintle_runtime::{Clock, Context, Random, Shutdown};

const USAGE: &str = "usage: at-operator [crd]

Runs Ats until Ctrl-C, in the cluster that the kubeconfig or the Pod's own account names.

  crd    prints the CustomResourceDefinition instead

environment:
  AT_CLOUD     the directory of the cloud service (./cloud)
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
    tracing_subscriber::fmt().init();
    let client = kube::Client::try_default().await?;
    let cloud = Cloud::in_directory(std::env::var("AT_CLOUD").unwrap_or_else(|_| "cloud".to_owned()));
    let (stop, shutdown) = Shutdown::new();
    let context = Context::new(client, Clock::system(), Random::system(), shutdown);
    let operator = tokio::spawn(reconcile::run(context, cloud));
    tokio::signal::ctrl_c().await?;
    stop.fire();
    operator.await?;
    Ok(())
}
