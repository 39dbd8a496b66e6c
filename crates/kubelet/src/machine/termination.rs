//! The last words of containers: what they wrote to their termination log, or else the end of their log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use k8s_openapi::api::core::v1::PodSpec;
use pintle_container::{Container, State};

use super::keep::message_file;
use crate::make::container::log_path;
use crate::make::containers;

/// Bytes that one container may say, and all containers of a Pod together.
const LONGEST: u64 = 4096;
const LONGEST_OF_POD: usize = 12 * 1024;

/// What is taken of a log.
const LOG_BYTES: usize = 2048;
const LOG_LINES: usize = 80;

/// What is read of a log to find that: each line begins with its time and stream.
const LOG_WINDOW: u64 = 64 * 1024;

/// Adds its last words to the end of each container.
pub(super) fn tell(spec: &PodSpec, pod_directory: &Path, logs: &Path, ended: &mut [Container]) {
    let count = containers(spec).count() + spec.ephemeral_containers.as_ref().map_or(0, Vec::len);
    let longest = LONGEST_OF_POD / count.max(1);
    for container in ended {
        let State::Exited { exit_code, message, .. } = &mut container.state else { continue };
        let policy = containers(spec)
            .find(|spec| spec.name == container.name)
            .and_then(|spec| spec.termination_message_policy.as_deref());
        let from_log = policy == Some("FallbackToLogsOnError") && *exit_code != 0;
        let file = message_file(pod_directory, &container.name, container.attempt);
        let log = logs.join(log_path(&container.name, container.attempt));
        let words = termination_message(&file, from_log.then_some(log.as_path()));
        if !words.is_empty() {
            *message = if message.is_empty() { words } else { format!("{message}: {words}") };
        }
        cut(message, longest);
    }
}

/// What is in the file; the end of the log if there is nothing and a log is given.
fn termination_message(file: &Path, log: Option<&Path>) -> String {
    let words = match end_of(file, LONGEST) {
        Ok((words, _)) => words,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return format!("Error on reading termination log {}: {error}", file.display()),
    };
    match log {
        Some(log) if words.is_empty() => end_of_log(log),
        _ => String::from_utf8_lossy(&words).into_owned(),
    }
}

fn end_of_log(log: &Path) -> String {
    match end_of(log, LOG_WINDOW) {
        Ok((window, is_whole)) => {
            let said = said(&window, is_whole);
            String::from_utf8_lossy(&said[said.len().saturating_sub(LOG_BYTES)..]).into_owned()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => format!("Error on reading termination message from logs: {error}"),
    }
}

/// What the last lines of a log say, without time and stream: `2026-11-16T08:00:00Z stdout F ready`.
///
/// A line with `P` goes on in the next one.
fn said(window: &[u8], is_whole: bool) -> Vec<u8> {
    let window = window.strip_suffix(b"\n").unwrap_or(window);
    let mut lines: Vec<&[u8]> = window.split(|byte| *byte == b'\n').collect();
    if !is_whole && !lines.is_empty() {
        // The first one has lost its beginning.
        lines.remove(0);
    }
    let mut said = Vec::new();
    for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (tag, text) = (parts.nth(2), parts.next());
        if let (Some(tag), Some(text)) = (tag, text) {
            said.extend_from_slice(text);
            if tag.first() != Some(&b'P') {
                said.push(b'\n');
            }
        }
    }
    said
}

/// The last bytes of a file, and whether they are all of it.
fn end_of(path: &Path, longest: u64) -> io::Result<(Vec<u8>, bool)> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    if length > longest {
        file.seek(SeekFrom::Start(length - longest))?;
    }
    let mut bytes = Vec::new();
    file.take(longest).read_to_end(&mut bytes)?;
    Ok((bytes, length <= longest))
}

/// A container may have had the file in its hands: nothing that it leads to is read, and nothing is waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn cut(message: &mut String, longest: usize) {
    if message.len() > longest {
        let end = (0..=longest).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jiff::Timestamp;
    use pintle_container::{ContainerId, PodRef, SandboxId};
    use serde_json::{Value, json};

    use super::*;
    use crate::make::testing;

    fn ended(exit_code: i32, message: &str) -> Container {
        let (started_at, finished_at) = (None, Timestamp::UNIX_EPOCH);
        Container {
            id: ContainerId("c-1".into()),
            sandbox: SandboxId("s".into()),
            pod: PodRef::default(),
            name: "c".into(),
            attempt: 1,
            image: String::new(),
            image_id: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
            state: State::Exited { started_at, finished_at, exit_code, reason: String::new(), message: message.into() },
            asked_image: None,
            stopping: false,
        }
    }

    fn told(policy: &str, others: usize, exit_code: i32, message: &str, file: Option<&str>, log: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let (pods, logs) = (directory.path().join("pod"), directory.path().join("logs"));
        fs::create_dir_all(pods.join("containers/c")).unwrap();
        fs::create_dir_all(logs.join("c")).unwrap();
        if let Some(file) = file {
            fs::write(pods.join("containers/c/1"), file).unwrap();
        }
        fs::write(logs.join("c/1.log"), log).unwrap();
        let mut containers = vec![json!({"name": "c", "terminationMessagePolicy": policy})];
        containers.extend((0..others).map(|index| json!({"name": format!("other-{index}")})));
        let pod = testing::pod(json!({"containers": Value::Array(containers)}));
        let mut all = [ended(exit_code, message)];
        tell(pod.spec.as_ref().unwrap(), &pods, &logs, &mut all);
        let State::Exited { message, .. } = &all[0].state else { panic!("it has ended") };
        message.clone()
    }

    const LOG: &str =
        "2026-11-16T08:00:00Z stdout F one\n2026-11-16T08:00:01Z stderr P tw\n2026-11-16T08:00:01Z stderr F o\n";

    #[test]
    fn the_last_words_of_a_container_are_kept() {
        assert_eq!(told("File", 0, 1, "", Some("broken"), LOG), "broken");
        assert_eq!(told("File", 0, 1, "killed", Some("broken"), LOG), "killed: broken");
        assert_eq!(told("File", 0, 1, "", Some(""), LOG), "");
        assert_eq!(told("File", 0, 1, "", None, LOG), "");
        assert_eq!(told("FallbackToLogsOnError", 0, 1, "", Some("broken"), LOG), "broken");
        assert_eq!(told("FallbackToLogsOnError", 0, 1, "", None, LOG), "one\ntwo\n");
        assert_eq!(told("FallbackToLogsOnError", 0, 0, "", Some(""), LOG), "");
    }

    #[test]
    fn long_words_are_cut_where_upstream_cuts_them() {
        let long = format!("{}{}", "a".repeat(5000), "b".repeat(4000));
        assert_eq!(told("File", 0, 1, "", Some(&long), ""), format!("{}{}", "a".repeat(96), "b".repeat(4000)));
        assert_eq!(told("File", 5, 1, "", Some(&long), "").len(), 2048);
        let lines = |count: usize, text: &str| -> String {
            (0..count).map(|index| format!("2026-11-16T08:00:00Z stdout F {text}{index}\n")).collect()
        };
        let of_lines = told("FallbackToLogsOnError", 0, 1, "", None, &lines(5000, ""));
        assert!(of_lines.starts_with("4920\n") && of_lines.ends_with("4999\n"), "{of_lines}");
        let of_bytes = told("FallbackToLogsOnError", 0, 1, "", None, &lines(50, &"x".repeat(100)));
        assert_eq!(of_bytes.len(), 2048);
        assert!(of_bytes.ends_with("x49\n"));
    }

    #[test]
    fn nothing_else_is_read_in_the_place_of_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let (secret, link) = (directory.path().join("secret"), directory.path().join("link"));
        fs::write(&secret, "not yours").unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(!termination_message(&link, None).contains("not yours"));
    }
}
