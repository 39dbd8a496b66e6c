//! `pintle image`: the images that this machine's container runtime has, for machines without a registry.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pintle_container::cri::private::import;
use pintle_container::{Cri, Runtime};

use crate::data_dir;
use crate::machine::CONTAINERD;

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    what: What,
    /// The socket of the runtime [default: that of the cluster's own containerd, else the machine's].
    #[arg(long, value_name = "unix:///PATH", global = true)]
    container_runtime_endpoint: Option<String>,
    /// Where the cluster is kept [default: $XDG_DATA_HOME/pintle or ~/.local/share/pintle].
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Bring in the images of an archive, as `docker save` or `buildah push oci-archive:` writes it.
    Import {
        #[arg(value_name = "FILE", required = true)]
        archives: Vec<PathBuf>,
    },
    /// List the images that are there.
    List,
    /// Remove images by name.
    Remove {
        #[arg(value_name = "IMAGE", required = true)]
        names: Vec<String>,
    },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "no container runtime: nothing listens on {0}; start `pintle up` or `pintle node join`, or name the socket with --container-runtime-endpoint unix:///PATH"
    )]
    NoRuntime(String),
    #[error("{0}")]
    Runtime(#[from] pintle_container::Error),
    #[error("there is no image {0:?}; `pintle image list` shows what there is")]
    NoImage(String),
    #[error("cannot start: {0}")]
    Start(io::Error),
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Start)?;
    runtime.block_on(work(flags))
}

async fn work(flags: Flags) -> Result<(), Failure> {
    let socket = socket(&flags);
    if !socket.exists() {
        return Err(Failure::NoRuntime(socket.display().to_string()));
    }
    let cri = Cri::connect(&socket).await?;
    match flags.what {
        What::Import { archives } => {
            for archive in archives {
                say(&import(&socket, &archive).await?);
            }
        }
        What::List => {
            let images = cri.list_images().await?;
            let mut rows: Vec<(String, String, u64)> = images
                .into_iter()
                .flat_map(|image| {
                    let names = if image.names.is_empty() { vec![image.name.clone()] } else { image.names.clone() };
                    names.into_iter().map(move |name| (name, image.id.clone(), image.size))
                })
                .collect();
            rows.sort();
            let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0).max(4);
            say(&format!("{:<width$}  {:>10}  ID", "NAME", "BYTES"));
            for (name, id, size) in rows {
                say(&format!("{name:<width$}  {size:>10}  {id}"));
            }
        }
        What::Remove { names } => {
            for name in names {
                if cri.image(&name).await?.is_none() {
                    return Err(Failure::NoImage(name));
                }
                cri.remove_image(&name).await?;
                say(&format!("removed {name}"));
            }
        }
    }
    Ok(())
}

fn socket(flags: &Flags) -> PathBuf {
    if let Some(endpoint) = &flags.container_runtime_endpoint {
        return PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
    }
    let asked = flags.data_dir.as_ref();
    let places = [data_dir::resolve(asked), data_dir::resolve_node(asked)];
    let mut own = places.into_iter().flatten().map(|data| data.join("node/containerd/containerd.sock"));
    own.find(|socket| socket.exists()).unwrap_or_else(|| Path::new(CONTAINERD).to_owned())
}

/// A reader that has gone away is no reason to fail.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
