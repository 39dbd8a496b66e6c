//! `pintle node`: machines as nodes of a cluster elsewhere.

mod drain;
mod identity;
mod join;
mod line;

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make this machine a node of a cluster and run its Pods until Ctrl-C.
    Join(Box<join::Flags>),
    /// Send the Pods of a node elsewhere and let no more come; `kubectl uncordon` opens it again.
    Drain(drain::Flags),
}

/// What went wrong, and the code with which the program ends.
pub(crate) fn run(flags: Flags) -> Result<(), (String, u8)> {
    match flags.what {
        What::Join(flags) => join::run(*flags).map_err(|failure| (failure.to_string(), failure.code())),
        What::Drain(flags) => drain::run(flags).map_err(|failure| (failure.to_string(), 2)),
    }
}
