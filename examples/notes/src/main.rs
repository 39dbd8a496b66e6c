//! A custom API server: serves notes from a directory as `notes.example.com/v1`, beside a cluster's own API server.

use anyhow::Context;
use clap::Parser;
use notes::{Directory, definition};
use pintle_apiserver::backend::{Backend, Mirror};
use pintle_apiserver::beside::{Beside, Cluster, Service};
use pintle_apiserver::listener;
use pintle_meta::{Clock, Random};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

#[derive(Parser)]
struct Flags {
    /// Where the notes are.
    directory: PathBuf,
    #[arg(long, default_value = "0.0.0.0:8443")]
    listen: SocketAddr,
    /// How the cluster is reached [default: as a Pod of it].
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The Service by which the cluster reaches this server.
    #[arg(long, default_value = "notes/notes", value_name = "NAMESPACE/NAME")]
    service: Service,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let flags = Flags::parse();
    let notes = Arc::new(Mirror::new(definition(), Directory(flags.directory)));
    let cluster = match &flags.kubeconfig {
        Some(path) => Cluster::of_kubeconfig(path)?,
        None => Cluster::of_pod()?,
    };
    let tcp = TcpListener::bind(flags.listen).await.with_context(|| format!("cannot listen at {}", flags.listen))?;
    let clock = (Clock::system(), Random::system());
    let backends: [Arc<dyn Backend>; 1] = [notes.clone()];
    let Beside { server, tls, registrations } = Beside::start(&cluster, &backends, &flags.service, clock).await?;
    tokio::spawn(listener::serve(server.clone(), tcp, tls));
    tokio::spawn({
        let server = server.clone();
        async move { notes.follow(server, Duration::from_secs(1)).await }
    });
    tokio::spawn({
        let server = server.clone();
        async move { server.run().await }
    });
    for registration in &registrations {
        cluster.register(registration).await?;
    }
    println!("notes are served at {}", flags.listen);
    tokio::signal::ctrl_c().await?;
    server.stop();
    Ok(())
}
