//! Pintle: Kubernetes' control plane, node agent and controller framework as one program.

#![warn(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody reads; `say` does not")]

mod access;
mod cni;
mod control;
mod credential;
mod data_dir;
mod image;
mod kubeconfig;
mod loops;
mod machine;
mod network;
mod new;
mod node;
mod plane;
mod reach;
mod reset;
mod say;
mod scheduling;
mod scratch;
mod settings;
mod signals;
mod snapshot;
mod store;
mod token;
mod up;
mod why;

use clap::{Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is said if `PINTLE_LOG` says nothing. The client library's own complaints reach us as errors, and are said in our words.
const DEFAULT_LOG: &str = "warn,kube_client=off";

/// Kubernetes' control plane, node agent and controller framework as one program.
#[derive(Parser)]
#[command(name = "pintle", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster: API server, control loops, scheduler and this machine as its node.
    Up(Box<up::Flags>),
    /// Save, restore and look into copies of the store.
    Snapshot(snapshot::Flags),
    /// Tell how an object came to be as it is: who wrote it, and why.
    Why(why::Flags),
    /// Show the loops: what they have to do, what fails, and who never rests.
    Loops(loops::table::Flags),
    /// Make, list and take back the tokens with which machines join.
    Token(token::Flags),
    /// Answer kubectl with a client certificate that expires soon: an exec credential plugin (client.authentication.k8s.io).
    Credential(credential::Flags),
    /// Make this machine a node of a cluster elsewhere, or empty a node.
    Node(node::Flags),
    /// Bring images to this machine's container runtime, list and remove them.
    Image(image::Flags),
    /// Explain what a node does with packets to Services.
    Network(network::Flags),
    /// Give a Pod its network, as container runtimes ask their plugins to (CNI): what to do is in the environment and on the input.
    Cni,
    /// Remove a cluster, or a node of one, from this machine, whole.
    Reset(reset::Flags),
    /// Write a project to begin with.
    New(new::Flags),
}

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|program| pintle_network::cni::is_meant(program.as_ref())) {
        return cni::run();
    }
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("PINTLE_LOG").unwrap_or_else(|_| DEFAULT_LOG.into());
    let colors = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colors).with_writer(|| say::Log).init();
    let result = match arguments.command {
        Command::Up(flags) => up::run(*flags).map_err(|failure| (failure.to_string(), failure.code())),
        Command::Snapshot(flags) => snapshot::run(flags).map_err(|failure| (failure.to_string(), 2)),
        Command::Why(flags) => why::run(flags).map_err(|failure| (failure.to_string(), 2)),
        Command::Loops(flags) => loops::table::run(&flags).map_err(|failure| (failure.to_string(), 2)),
        Command::Image(flags) => image::run(flags).map_err(|failure| (failure.to_string(), 2)),
        Command::Token(flags) => token::run(flags).map_err(|failure| (failure.to_string(), 2)),
        Command::Credential(flags) => credential::run(&flags).map_err(|failure| (failure.to_string(), 2)),
        Command::Node(flags) => node::run(flags),
        Command::Network(flags) => network::run(flags).map_err(|failure| (failure.to_string(), 2)),
        Command::Reset(flags) => reset::run(&flags).map_err(|failure| (failure.to_string(), failure.code())),
        Command::Cni => return cni::run(),
        Command::New(flags) => new::run(flags).map_err(|failure| (failure.to_string(), 2)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err((failure, code)) => {
            say::complain!("pintle: {failure}");
            ExitCode::from(code)
        }
    }
}
