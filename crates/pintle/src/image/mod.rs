//! `pintle image`: the images that this machine's container runtime has, for machines without a registry.

mod build;
mod find;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pintle_container::cri::archive::{Saved, export};
use pintle_container::cri::private::import;
use pintle_container::{Cri, PullRequest, Runtime};

use build::{BuildError, SCRATCH};

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
    /// Make an image of a program, with the libraries that it needs, and bring it in.
    Build {
        /// The program, as a compiler made it.
        #[arg(value_name = "PROGRAM")]
        program: PathBuf,
        /// What the image is called.
        #[arg(short, long, value_name = "NAME:TAG")]
        tag: String,
        /// The image below it, which must have the libraries that the program needs; scratch for none.
        #[arg(long, value_name = "IMAGE", default_value = SCRATCH)]
        from: String,
    },
    /// Fetch images from their registries.
    Pull {
        #[arg(value_name = "IMAGE", required = true)]
        names: Vec<String>,
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
    #[error("there is no image {0:?}; `pintle image list` shows what there is, `pintle image pull` fetches one")]
    NoImage(String),
    #[error("several clusters run here; name one with --container-runtime-endpoint: {}", .0.join(", "))]
    Several(Vec<String>),
    #[error("{0}")]
    Build(#[from] BuildError),
    #[error("{0:?} has no tag: write NAME:TAG. With the tag latest Pods would look for it in a registry each time")]
    NoTag(String),
    #[error("cannot write below {path}: {1}", path = .0.display())]
    Write(PathBuf, io::Error),
    #[error("cannot start: {0}")]
    Start(io::Error),
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Start)?;
    runtime.block_on(work(flags))
}

async fn work(flags: Flags) -> Result<(), Failure> {
    let (socket, cri) = find::connect(&flags).await?;
    match flags.what {
        What::Build { program, tag, from } => say(&build_image(&cri, &socket, &program, &tag, &from).await?),
        What::Pull { names } => {
            for image in names {
                let request = PullRequest { image, ..PullRequest::default() };
                let pulled = cri.pull_image(request).await?;
                say(&format!("pulled {} ({} bytes)", pulled.name, pulled.size));
            }
        }
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

/// Makes the image, brings it in, and says so.
async fn build_image(cri: &Cri, socket: &Path, program: &Path, name: &str, from: &str) -> Result<String, Failure> {
    // A colon before the last slash belongs to the port of a registry.
    if !name.rsplit('/').next().is_some_and(|last| last.contains(':')) {
        return Err(Failure::NoTag(name.to_owned()));
    }
    let place = std::env::temp_dir();
    let wrong = |error| Failure::Write(place.clone(), error);
    let directory = tempfile::tempdir().map_err(wrong)?;
    let base = match from {
        SCRATCH => build::scratch(name),
        from => {
            let image = cri.image(from).await?.ok_or_else(|| Failure::NoImage(from.to_owned()))?;
            let file = directory.path().join("base.tar");
            export(socket, &image.name, &file).await?;
            Saved { name: name.to_owned(), ..Saved::read(&tokio::fs::read(&file).await.map_err(wrong)?, from)? }
        }
    };
    let (entrypoint, files) = build::files(program, from == SCRATCH).await?;
    let mut image = base.with_layer(&files)?;
    build::run(&mut image.config, &entrypoint);
    let file = directory.path().join("image.tar");
    tokio::fs::write(&file, image.written()?).await.map_err(wrong)?;
    Ok(import(socket, &file).await?)
}

/// A reader that has gone away is no reason to fail.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
