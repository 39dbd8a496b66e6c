//! The operator as a program. `crd` prints the CustomResourceDefinition; without arguments it works until Ctrl-C, as the environment says
//! (`OPERATOR_HEALTH`, `OPERATOR_LEASE`, `OPERATOR_NAMESPACE`; `RUST_LOG` for the log).

use kube::CustomResourceExt;
use pintle_runtime::Manager;
use tracing_subscriber::EnvFilter;
use website_operator::{reconcile, types};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("crd") => {
            println!("{}", serde_saphyr::to_string(&types::Website::crd())?.trim_end());
            return Ok(());
        }
        Some(other) => anyhow::bail!("unknown argument {other:?}; there is only `crd`"),
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let manager = Manager::connect(reconcile::NAME).await?.configured()?;
    Ok(manager.run(reconcile::NAME, reconcile::run).until_signal().await?)
}
