//! How the scheduler is set up, from the file that `--scheduler-config` names.

mod dial;

use crate::say::say;
use pintle_scheduler::{Prepared, Setup};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("--scheduler-config {0}: {1}")]
pub(crate) struct WrongSetup(PathBuf, String);

/// Reads the file; without one the scheduler is as it always is.
pub(crate) fn read(file: Option<&Path>) -> Result<Setup, WrongSetup> {
    let Some(file) = file else { return Ok(Setup::default()) };
    let wrong = |why: String| WrongSetup(file.to_owned(), why);
    let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let config = pintle_apiserver::parse::yaml(&text).map_err(wrong)?;
    Setup::from_value(&config.value).map_err(wrong)
}

/// The same with extenders that can be asked. Says what has no effect.
pub(crate) async fn prepare(file: Option<&Path>) -> Result<Prepared, WrongSetup> {
    let setup = read(file)?;
    for remark in &setup.remarks {
        say!("scheduler  {remark}");
    }
    let named = || file.unwrap_or(Path::new("")).to_owned();
    Prepared::of(setup, dial::dial).await.map_err(|why| WrongSetup(named(), why))
}
