//! `pintle new operator NAME`: writes a project that compiles, passes its tests and runs, for its author to change.
//!
//! The project is `operators/website`, a part of this workspace and tested with it; `names` checks what is asked for and
//! `files` puts the asked-for names in the place of that one's.

mod files;
mod names;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use names::{BadName, Names};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Write a working operator: types, reconciler, tests, manifests.
    Operator(Operator),
}

#[derive(clap::Args)]
struct Operator {
    /// What the project is called, such as `website-operator`.
    name: String,
    /// The API group of its kind: a domain of yours.
    #[arg(long, default_value = "example.com")]
    group: String,
    /// Its kind, such as `Website` [default: made of the name].
    #[arg(long)]
    kind: Option<String>,
    /// Where to write it: a directory that is empty or not there [default: ./NAME].
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The checkout of Pintle that it depends on [default: the one this program was built from, else its repository].
    #[arg(long, value_name = "PATH")]
    pintle: Option<PathBuf>,
}

/// Why no project was written, or not all of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Name(#[from] BadName),
    #[error("{0} is not empty; nothing was written. Choose another directory with --path")]
    NotEmpty(PathBuf),
    #[error("{0} is no checkout of Pintle: there is no {1} in it")]
    NoCheckout(PathBuf, &'static str),
    #[error("the path {0:?} is not UTF-8 and cannot stand in Cargo.toml")]
    NotText(PathBuf),
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, io::Error),
}

/// Where the project gets the framework from.
enum Source {
    Checkout(String),
    Repository(&'static str),
}

/// What tells a checkout from any other directory.
const MARK: &str = "crates/runtime/Cargo.toml";

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let What::Operator(asked) = flags.what;
    let names = Names::of(&asked.name, &asked.group, asked.kind.as_deref())?;
    let source = match &asked.pintle {
        Some(checkout) => Source::checkout(checkout)?,
        None => Source::of_this_program(),
    };
    let directory = asked.path.unwrap_or_else(|| PathBuf::from(&asked.name));
    must_be_empty(&directory)?;
    for (path, text) in files::project(&names, &source) {
        write(&directory.join(path), &text)?;
        say(&format!("wrote  {}", directory.join(path).display()));
    }
    say(&format!(
        "\n{} in {}: it keeps a Deployment for each {} ({}.{})\n\n  cd {} && cargo test\n  cargo run     # against the \
         cluster in $KUBECONFIG; the README says how",
        names.project,
        directory.display(),
        names.kind,
        names.plural,
        names.group,
        directory.display()
    ));
    Ok(())
}

impl Source {
    fn checkout(path: &Path) -> Result<Source, Failure> {
        let whole = path.canonicalize().ok().filter(|whole| whole.join(MARK).is_file());
        let whole = whole.ok_or_else(|| Failure::NoCheckout(path.to_owned(), MARK))?;
        Ok(Source::Checkout(whole.to_str().ok_or_else(|| Failure::NotText(path.to_owned()))?.to_owned()))
    }

    fn of_this_program() -> Source {
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Source::checkout(&built_from).unwrap_or(Source::Repository(env!("CARGO_PKG_REPOSITORY")))
    }

    /// What stands between the braces of a dependency. JSON writes strings as TOML reads them.
    fn of(&self, part: &str) -> String {
        let quoted = |text: String| serde_json::Value::String(text).to_string();
        match self {
            Source::Checkout(path) => format!("path = {}", quoted(format!("{path}/crates/{part}"))),
            Source::Repository(url) => format!("git = {}", quoted((*url).to_owned())),
        }
    }
}

/// Somebody's files are never touched: not even a directory of hidden ones counts as empty.
fn must_be_empty(directory: &Path) -> Result<(), Failure> {
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(Failure::NotEmpty(directory.to_owned())),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::Write(directory.to_owned(), error)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::Write(path.to_owned(), error);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    // Whoever made the file since the directory was looked at keeps it.
    let mut file = fs::File::create_new(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

/// A reader that has gone away does not keep the project from being written.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
