//! An image of a program, made without a registry, a Dockerfile or a daemon that builds.
//!
//! A program that is linked to libraries of this machine gets them along: what `cargo build` makes runs in a Pod as it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pintle_container::cri::archive::{Entry, Saved};
use serde_json::{Value, json};
use tokio::process::Command;

/// An image of nothing.
pub(super) const SCRATCH: &str = "scratch";

#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("{path} cannot be read: {1}", path = .0.display())]
    Read(PathBuf, std::io::Error),
    #[error("{} is not a program for Linux", .0.display())]
    NoProgram(PathBuf),
    #[error("{path} needs {1}, which is not on this machine", path = .0.display())]
    NoLibrary(PathBuf, String),
    #[error("which libraries {path} needs cannot be found out: {1}", path = .0.display())]
    Libraries(PathBuf, String),
    #[error("{} has no name", .0.display())]
    NoName(PathBuf),
}

/// The program as a file of the image, with what it needs if there is nothing else in it.
pub(super) async fn files(program: &Path, alone: bool) -> Result<(String, Vec<Entry>), BuildError> {
    let name =
        program.file_name().ok_or_else(|| BuildError::NoName(program.to_owned()))?.to_string_lossy().into_owned();
    let content = read(program).await?;
    let loader = loader(&content).map_err(|()| BuildError::NoProgram(program.to_owned()))?;
    let mut files = vec![Entry::file(name.clone(), 0o755, content)];
    if alone {
        files.insert(0, Entry::directory("tmp/", 0o1777));
        let mut needed = BTreeSet::new();
        if let Some(loader) = loader {
            needed = libraries(program, &loader).await?;
            needed.insert(loader);
        }
        for directory in needed.iter().flat_map(|path| Path::new(path).ancestors().skip(1)).collect::<BTreeSet<_>>() {
            let path = inside(directory);
            if !path.is_empty() {
                files.push(Entry::directory(format!("{path}/"), 0o755));
            }
        }
        for library in needed {
            let content = read(Path::new(&library)).await?;
            files.push(Entry::file(inside(Path::new(&library)), 0o755, content));
        }
    }
    Ok((format!("/{name}"), files))
}

fn inside(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

async fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    tokio::fs::read(path).await.map_err(|error| BuildError::Read(path.to_owned(), error))
}

/// What an image without another below it says of itself.
pub(super) fn scratch(name: &str) -> Saved {
    let architecture = crate::machine::architecture();
    let config = json!({"architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/"]}});
    Saved { name: name.to_owned(), config, layers: Vec::new() }
}

/// The image runs the program, whatever the one below it ran.
pub(super) fn run(config: &mut Value, program: &str) {
    if !config["config"].is_object() {
        config["config"] = json!({});
    }
    config["config"]["Entrypoint"] = json!([program]);
    if let Some(settings) = config["config"].as_object_mut() {
        settings.remove("Cmd");
    }
}

/// The program that loads the libraries of another, by the other's own words; nothing for one that needs none.
fn loader(program: &[u8]) -> Result<Option<String>, ()> {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, length: usize| {
        let bytes = program.get(at..at + length)?;
        let mut whole = [0; 8];
        whole[..length].copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(whole)).ok()
    };
    // 64 bits, the least significant byte first: what Go and Rust make for the processors that we know.
    if !program.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err(());
    }
    let (start, size, count) = (number(32, 8).ok_or(())?, number(54, 2).ok_or(())?, number(56, 2).ok_or(())?);
    for header in (0..count).map(|index| start.saturating_add(index * size)) {
        if number(header, 4) != Some(INTERPRETER as usize) {
            continue;
        }
        let (at, length) = (number(header + 8, 8).ok_or(())?, number(header + 32, 8).ok_or(())?);
        let path = program.get(at..at.saturating_add(length)).ok_or(())?;
        let path = path.strip_suffix(&[0]).unwrap_or(path);
        return String::from_utf8(path.to_vec()).map(Some).map_err(|_| ());
    }
    Ok(None)
}

/// The libraries that the loader would load. It only lists them; the program does not run.
async fn libraries(program: &Path, loader: &str) -> Result<BTreeSet<String>, BuildError> {
    let failed = |why: String| BuildError::Libraries(program.to_owned(), why);
    let output = Command::new(loader).arg("--list").arg(program).output().await;
    let output = output.map_err(|error| failed(format!("{loader}: {error}")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    listed(&String::from_utf8_lossy(&output.stdout)).map_err(|name| BuildError::NoLibrary(program.to_owned(), name))
}

/// Paths out of lines such as `libc.so.6 => /lib/libc.so.6 (0x7f…)`; the name of one that was not found.
fn listed(text: &str) -> Result<BTreeSet<String>, String> {
    let mut paths = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        let (name, place) = line.split_once("=>").unwrap_or(("", line));
        if place.contains("not found") {
            return Err(name.trim().to_owned());
        }
        let path = place.split_whitespace().next().unwrap_or_default();
        // One that the kernel itself has is no file.
        if path.starts_with('/') {
            paths.insert(path.to_owned());
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_known_and_one_that_is_missing_is_named() {
        let text = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths: Vec<String> = listed(text).unwrap().into_iter().collect();
        assert_eq!(
            paths,
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib64/ld-linux-x86-64.so.2"]
        );
        assert_eq!(listed("\tlibx.so.1 => not found\n"), Err("libx.so.1".to_owned()));
    }

    #[test]
    fn what_is_no_program_is_not_taken_for_one() {
        assert_eq!(loader(b"#!/bin/sh\n"), Err(()));
        assert_eq!(loader(&[0x7f, b'E', b'L', b'F', 2, 1]), Err(()), "it is cut off");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(loader(&own).unwrap().is_none_or(|loader| loader.starts_with('/')));
    }

    #[tokio::test]
    async fn a_program_comes_with_all_that_it_needs() {
        let own = std::env::current_exe().unwrap();
        let (entrypoint, files) = files(&own, true).await.unwrap();
        assert!(own.ends_with(entrypoint.trim_start_matches('/')));
        let loader = loader(&std::fs::read(&own).unwrap()).unwrap();
        assert!(loader.is_none() || files.len() > 4, "a loader, libraries and their directories");
        assert!(matches!(super::files(Path::new("/etc/passwd"), true).await, Err(BuildError::NoProgram(_))));
    }
}
