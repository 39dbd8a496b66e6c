//! Images as archives, in the form of `docker save`: made of programs, taken apart, put together again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::error::Error;

const BLOCK: usize = 512;
/// What the name of a file, and the directories before it, may have in an archive.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// A file of an archive, or a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Without a slash at its beginning.
    path: String,
    mode: u32,
    /// Nothing for a directory.
    content: Option<Bytes>,
}

impl Entry {
    pub fn file(path: impl Into<String>, mode: u32, content: impl Into<Bytes>) -> Self {
        Entry { path: path.into(), mode, content: Some(content.into()) }
    }

    pub fn directory(path: impl Into<String>, mode: u32) -> Self {
        Entry { path: path.into(), mode, content: None }
    }
}

/// An image as it was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    pub name: String,
    /// What the image says of itself. Which layers it has is written into it.
    pub config: Value,
    /// Each an archive, packed or not.
    pub layers: Vec<Bytes>,
}

impl Saved {
    /// The image of this name out of an archive.
    pub fn read(archive: &[u8], name: &str) -> Result<Saved, Error> {
        let wrong = |what: &str| Error::Failed(format!("the archive of {name} cannot be read: {what}"));
        let files = entries(archive);
        let parsed = |path: &str| files.get(path).and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let manifest = parsed("manifest.json").ok_or_else(|| wrong("there is no manifest.json"))?;
        let image = manifest.get(0).ok_or_else(|| wrong("there is no image in it"))?;
        let config = image["Config"].as_str().and_then(parsed).ok_or_else(|| wrong("its configuration is missing"))?;
        let layer = |path: &Value| Some(Bytes::copy_from_slice(files.get(path.as_str()?)?));
        let layers: Option<Vec<Bytes>> = image["Layers"].as_array().into_iter().flatten().map(layer).collect();
        let layers = layers.ok_or_else(|| wrong("a layer is missing"))?;
        Ok(Saved { name: name.to_owned(), config, layers })
    }

    /// The same image with one layer more.
    pub fn with_layer(mut self, files: &[Entry]) -> Result<Saved, Error> {
        let layer = tar(files)?;
        let mut known: Vec<Value> = self.config["rootfs"]["diff_ids"].as_array().cloned().unwrap_or_default();
        known.push(format!("sha256:{}", hex(&layer)).into());
        self.config["rootfs"] = json!({"type": "layers", "diff_ids": known});
        // What is said of earlier steps would not fit the layers any more.
        if let Some(config) = self.config.as_object_mut() {
            config.remove("history");
        }
        self.layers.push(layer.into());
        Ok(self)
    }

    pub fn written(mut self) -> Result<Vec<u8>, Error> {
        if self.config["rootfs"].is_null() {
            let all: Vec<Value> = self.layers.iter().map(|layer| format!("sha256:{}", hex(layer)).into()).collect();
            self.config["rootfs"] = json!({"type": "layers", "diff_ids": all});
        }
        let config = self.config.to_string();
        let config_name = format!("{}.json", hex(config.as_bytes()));
        let names: Vec<String> = (0..self.layers.len()).map(|number| format!("layer-{number}.tar")).collect();
        let manifest = json!([{"Config": config_name, "RepoTags": [self.name], "Layers": names}]).to_string();
        let mut files = vec![Entry::file(config_name, 0o644, config)];
        files.extend(names.iter().zip(self.layers).map(|(name, layer)| Entry::file(name, 0o644, layer)));
        files.push(Entry::file("manifest.json", 0o644, manifest));
        tar(&files)
    }
}

/// The archive of an image that containerd has.
pub async fn export(socket: &Path, name: &str, file: &Path) -> Result<(), Error> {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(socket).args(["--namespace", "k8s.io", "images", "export"]).arg(file).arg(name);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output
        .map_err(|error| Error::Failed(format!("ctr, which comes with containerd, cannot be started: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::Failed(format!("{name} cannot be exported: {why}")))
        }
    }
}

/// A tar archive. The same files give the same bytes.
pub fn tar(files: &[Entry]) -> Result<Vec<u8>, Error> {
    let mut archive = Vec::new();
    for Entry { path, mode, content } in files {
        let (prefix, name) =
            split(path).ok_or_else(|| Error::Failed(format!("{path:?} is too long for an archive")))?;
        let length = content.as_ref().map_or(0, Bytes::len);
        let mut header = [0u8; BLOCK];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{length:011o}"));
        put(136, "00000000000");
        // The sum counts its own place as spaces.
        put(148, "        ");
        put(156, if content.is_some() { "0" } else { "5" });
        put(257, "ustar\u{0}00");
        put(345, prefix);
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(content.as_deref().unwrap_or_default());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

/// A long path is cut at a slash, since a header has two places for it.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= NAME {
        return Some(("", path));
    }
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let at = slashes.find(|at| *at <= PREFIX && path.len() - at - 1 <= NAME)?;
    Some((&path[..at], &path[at + 1..]))
}

/// The plain files of a tar archive, by name.
fn entries(archive: &[u8]) -> BTreeMap<String, &[u8]> {
    let mut found = BTreeMap::new();
    let mut rest = archive;
    while let Some((header, after)) = rest.split_at_checked(BLOCK) {
        let text = |at: usize, length: usize| {
            let bytes = &header[at..at + length];
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let Ok(length) = usize::from_str_radix(text(124, 12).trim(), 8) else { break };
        let Some(content) = after.get(..length) else { break };
        let (name, prefix) = (text(0, NAME), text(345, PREFIX));
        if [b'0', 0].contains(&header[156]) && !name.is_empty() {
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            found.insert(path, content);
        }
        rest = after.get(length.next_multiple_of(BLOCK)..).unwrap_or_default();
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_the_same_after_it_was_written_and_read() {
        let base = Saved { name: "base:1".to_owned(), config: json!({"os": "linux"}), layers: Vec::new() };
        let base = base.with_layer(&[Entry::directory("bin", 0o755), Entry::file("bin/a", 0o755, "a")]).unwrap();
        let read = Saved::read(&base.clone().written().unwrap(), "base:1").unwrap();
        assert_eq!((&read.config, &read.layers), (&base.config, &base.layers));
        let more = read.with_layer(&[Entry::file("bin/b", 0o755, "b")]).unwrap();
        assert_eq!(more.config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
        assert_eq!(Saved::read(&more.written().unwrap(), "x").unwrap().layers.len(), 2);
        assert!(Saved::read(b"no archive", "x").is_err());
    }

    #[test]
    fn long_paths_are_kept_and_those_that_no_archive_takes_are_refused() {
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(90));
        let archive = tar(&[Entry::file(long.clone(), 0o644, "x")]).unwrap();
        assert_eq!(entries(&archive)[&long], b"x");
        assert!(tar(&[Entry::file("f".repeat(101), 0o644, "x")]).is_err());
    }
}
