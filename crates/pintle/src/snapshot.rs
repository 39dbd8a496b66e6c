//! `pintle snapshot`: the store in one file, to keep elsewhere and to start again from.

use crate::data_dir;
use crate::say::say;
use crate::store::{StoreError, StoreFlags};
use pintle_store::file::backup::{self, BackupError, Summary};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Save the store to a new file, also while pintle runs.
    ///
    /// The file holds all objects, Secrets too, and is readable by you alone. It does not hold the cluster's keys
    /// and certificates: keep a copy of DIR/pki with it if tokens and kubeconfigs are to go on.
    Save {
        file: PathBuf,
        /// Where the cluster is kept [default: $XDG_DATA_HOME/pintle or ~/.local/share/pintle].
        #[arg(long, value_name = "DIR", conflicts_with = "store")]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        from: StoreFlags,
    },
    /// Make a store of a saved file, in a directory that has none.
    ///
    /// It goes on a billion revisions later, so that clients of the old store list again.
    Restore {
        file: PathBuf,
        /// Where the cluster is to be kept [default: $XDG_DATA_HOME/pintle or ~/.local/share/pintle].
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Check a saved file and say what is in it.
    Inspect { file: PathBuf },
}

/// Why a snapshot could not be saved, restored or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no data directory: set --data-dir, or HOME")]
    NoDirectory,
    #[error("{0}")]
    Backup(#[from] BackupError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let store = |asked: Option<PathBuf>| {
        data_dir::resolve(asked.as_ref()).map(|directory| directory.join("store")).ok_or(Failure::NoDirectory)
    };
    match flags.action {
        Action::Save { file, data_dir, from } => {
            let saved = match from.etcd() {
                None => backup::save(&store(data_dir)?, &file)?,
                Some(_) => save_etcd(&from, &file)?,
            };
            say!("saved      {} keys at revision {} to {}", saved.keys, saved.revision, file.display());
        }
        Action::Restore { file, data_dir } => {
            let directory = store(data_dir)?;
            let restored = backup::restore(&file, &directory)?;
            let place = directory.display();
            say!("restored   {} keys into {place}; it goes on at revision {}", restored.keys, restored.revision);
        }
        Action::Inspect { file } => print(&backup::inspect(&file)?),
    }
    Ok(())
}

fn save_etcd(from: &StoreFlags, file: &Path) -> Result<Summary, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(async {
        let store = from.open(None).await?;
        let saved = backup::save_from(&*store, file).await;
        store.close().await;
        Ok(saved?)
    })
}

fn print(summary: &Summary) {
    say!("revision   {}", summary.revision);
    say!("keys       {}", summary.keys);
    say!("bytes      {}", summary.bytes);
    say!();
    let width = summary.by_resource.keys().map(String::len).max().unwrap_or(0).max("RESOURCE".len());
    say!("{:width$}  {:>8}  {:>12}", "RESOURCE", "KEYS", "BYTES");
    for (resource, (keys, bytes)) in &summary.by_resource {
        say!("{resource:width$}  {keys:>8}  {bytes:>12}");
    }
}
