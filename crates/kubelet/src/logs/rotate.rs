//! A log that has grown large is moved away, and the oldest of those that were are removed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pintle_container::Runtime;
use pintle_meta::Clock;

use super::place;

/// How often all logs are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// How much is kept of a container's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRotation {
    /// Above this size a log is moved away.
    pub max_size: u64,
    /// So many files at most, the one that is written included.
    pub max_files: usize,
}

impl Default for LogRotation {
    fn default() -> Self {
        LogRotation { max_size: 10 * 1024 * 1024, max_files: 5 }
    }
}

/// Keeps the logs of a node small. Runs until dropped.
pub(crate) async fn keep(rotation: LogRotation, logs: &Path, runtime: &dyn Runtime, clock: &Clock) {
    loop {
        tokio::time::sleep(LOOK).await;
        let containers = match runtime.list_containers(None).await {
            Ok(containers) => containers,
            Err(error) => {
                tracing::warn!(%error, "logs are not rotated: the runtime does not say what it runs");
                continue;
            }
        };
        for container in containers.iter().filter(|container| container.is_running()) {
            let log = place::file(logs, &container.pod, &container.name, container.attempt);
            if let Err(error) = rotation.apply(&log, clock.now(), runtime.reopen_log(&container.id)).await {
                tracing::warn!(container = %container.id, %error, "a log could not be rotated; it is tried again");
            }
        }
    }
}

impl LogRotation {
    /// Moves a log away if it is too large, and makes the runtime open it anew.
    pub(crate) async fn apply(
        &self,
        log: &Path,
        now: Timestamp,
        reopen: impl Future<Output = Result<(), pintle_container::Error>>,
    ) -> Result<(), RotateError> {
        match tokio::fs::metadata(log).await {
            Ok(metadata) if metadata.len() > self.max_size => {}
            Ok(_) => return Ok(()),
            // It has not written yet, or its log goes elsewhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let rotated = place::rotated(log).await?;
        // There will be one more of them, and the one that is written.
        let kept = self.max_files.saturating_sub(2);
        for old in rotated.iter().take(rotated.len().saturating_sub(kept)) {
            tokio::fs::remove_file(old).await?;
        }
        let mut away = log.as_os_str().to_owned();
        away.push(now.to_zoned(TimeZone::UTC).strftime(".%Y%m%d-%H%M%S").to_string());
        let away = PathBuf::from(away);
        if tokio::fs::try_exists(&away).await? {
            // Two in one second: the next look is early enough.
            return Ok(());
        }
        tokio::fs::rename(log, &away).await?;
        if let Err(error) = reopen.await {
            // The runtime writes on to the file under its new name: it gets the old name back, and nothing is lost.
            tokio::fs::rename(&away, log).await?;
            return Err(RotateError::Reopen(error));
        }
        Ok(())
    }
}

/// Why a log could not be moved away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotateError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Reopen(pintle_container::Error),
}
