//! The operator as a program: connects with the kubeconfig or the Pod's own account, and runs until Ctrl-C.

use pintle_runtime::{Clock, Context, Random, Shutdown};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let client = kube::Client::try_default().await?;
    let (stop, shutdown) = Shutdown::new();
    let operator =
        tokio::spawn(at_operator::reconcile::run(Context::new(client, Clock::system(), Random::system(), shutdown)));
    tokio::signal::ctrl_c().await?;
    stop.fire();
    operator.await?;
    Ok(())
}
