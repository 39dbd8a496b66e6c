//! Who has which devices, on the disk: an agent that starts again gives nothing away twice.
//!
//! The first line is the checksum of the rest. The file is replaced as a whole.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde::{Deserialize, Serialize};

use super::books::{Books, Held, Holding};
use super::messages::ContainerAllocateResponse;

#[derive(Serialize, Deserialize)]
struct Content {
    allotted: Vec<Entry>,
    /// Resources that the Node names because of a plugin.
    registered: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    pod: String,
    container: String,
    resource: String,
    devices: BTreeSet<String>,
    /// What the plugin answered, as it came.
    answer: String,
}

/// Everything that is to be remembered, as it is written.
pub(super) fn text(books: &Books) -> String {
    let mut allotted = Vec::new();
    for (pod, of_pod) in books.held() {
        for (container, of) in of_pod {
            allotted.extend(of.iter().map(|(resource, holding)| Entry {
                pod: pod.clone(),
                container: container.clone(),
                resource: resource.clone(),
                devices: holding.devices.clone(),
                answer: STANDARD.encode(holding.answer.encode_to_vec()),
            }));
        }
    }
    let content = Content { allotted, registered: books.registered() };
    // Only maps whose keys are no texts cannot be written, and there are none.
    let body = serde_json::to_string(&content).unwrap_or_default();
    format!("{}\n{body}\n", checksum(&body))
}

/// Nothing if there is no file. An error says what is wrong with the file.
pub(super) fn read(path: &Path) -> Result<Option<(Held, BTreeSet<String>)>, String> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The old content or the new: a crash leaves one of them.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn parse(text: &str) -> Result<(Held, BTreeSet<String>), String> {
    let (sum, body) = text.split_once('\n').ok_or("it has no checksum")?;
    let body = body.strip_suffix('\n').ok_or("its end is missing")?;
    if checksum(body) != sum {
        return Err("its checksum does not match".to_owned());
    }
    let content: Content = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let mut held = Held::new();
    for entry in content.allotted {
        let answer = STANDARD.decode(&entry.answer).map_err(|error| error.to_string())?;
        let answer = ContainerAllocateResponse::decode(answer.as_slice()).map_err(|error| error.to_string())?;
        let of_container = held.entry(entry.pod).or_default().entry(entry.container).or_default();
        of_container.insert(entry.resource, Holding { devices: entry.devices, answer });
    }
    Ok((held, content.registered))
}

fn checksum(body: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn books() -> Books {
        let mut books = Books::default();
        books.register("example.com/lamp", 1);
        let answer =
            ContainerAllocateResponse { envs: [("LAMP".to_owned(), "a".to_owned())].into(), ..Default::default() };
        books.give("7f0c", "web", "example.com/lamp", Holding { devices: ["a".to_owned()].into(), answer });
        books
    }

    #[test]
    fn a_restarted_agent_knows_who_has_what() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("devices.checkpoint");
        assert_eq!(read(&path), Ok(None));
        write(&path, "something older and longer than what comes next, which is not to shine through").unwrap();
        let books = books();
        write(&path, &text(&books)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path), Ok(Some((books.held().clone(), books.registered()))));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_noticed_wherever_it_is_damaged() {
        let whole = text(&books());
        assert!(parse(&whole).is_ok());
        for index in 0..whole.len() {
            assert!(parse(&whole[..index]).is_err(), "cut at {index}");
            let mut flipped = whole.clone().into_bytes();
            flipped[index] ^= 1;
            assert!(parse(&String::from_utf8(flipped).unwrap()).is_err(), "flipped at {index}");
        }
    }
}
