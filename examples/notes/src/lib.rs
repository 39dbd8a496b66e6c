//! Notes: a kind whose objects are files in a directory, `NAMESPACE/NAME.json`. People may edit them there too.
//!
//! # Layout
//!
//! - [`definition`]: the kind; [`Directory`]: where its objects are
//! - `main.rs`: the server around both

use futures::future::BoxFuture;
use pintle_apiserver::backend::Place;
use pintle_meta::{Status, object};
use serde_json::{Value, json};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tokio::fs;

pub const GROUP: &str = "notes.example.com";

/// The kind, as a CustomResourceDefinition would describe it.
pub fn definition() -> Value {
    json!({"spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "notes", "singular": "note", "kind": "Note", "shortNames": ["nt"], "categories": ["all"]},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "additionalPrinterColumns": [
                {"name": "Title", "type": "string", "jsonPath": ".spec.title", "description": "What the note is about"},
                {"name": "Pinned", "type": "boolean", "jsonPath": ".spec.pinned", "description": "Whether it stays on top"}],
            "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
                "description": "A note that is kept in a file.",
                "properties": {"spec": {"type": "object", "required": ["title"], "properties": {
                    "title": {"type": "string", "maxLength": 80, "description": "What the note is about"},
                    "text": {"type": "string"},
                    "pinned": {"type": "boolean", "default": false}}}}}}}],
    }})
}

/// A directory with a directory for each namespace.
pub struct Directory(pub PathBuf);

impl Directory {
    fn file(&self, namespace: &str, name: &str) -> PathBuf {
        self.0.join(namespace).join(format!("{name}.json"))
    }

    async fn all(&self) -> io::Result<Vec<Value>> {
        let mut notes = Vec::new();
        let mut namespaces = fs::read_dir(&self.0).await?;
        while let Some(namespace) = namespaces.next_entry().await? {
            if !namespace.file_type().await?.is_dir() {
                continue;
            }
            let mut files = fs::read_dir(namespace.path()).await?;
            while let Some(file) = files.next_entry().await? {
                notes.extend(note(&namespace.file_name().to_string_lossy(), &file.path()).await?);
            }
        }
        Ok(notes)
    }
}

/// The note of a file; none if it is another file, or gone meanwhile. What is no JSON is a note that says nothing.
async fn note(namespace: &str, file: &Path) -> io::Result<Option<Value>> {
    let (Some(name), Some("json")) = (file.file_stem(), file.extension().and_then(|end| end.to_str())) else {
        return Ok(None);
    };
    let text = match fs::read(file).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let parsed: Value = serde_json::from_slice(&text).unwrap_or_default();
    let mut note = if parsed.is_object() { parsed } else { json!({}) };
    object::set(&mut note, &["metadata", "namespace"], namespace);
    object::set(&mut note, &["metadata", "name"], name.to_string_lossy().as_ref());
    Ok(Some(note))
}

async fn replace(file: &Path, note: &Value) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).await?;
    let new = file.with_extension("new");
    fs::write(&new, format!("{note:#}\n")).await?;
    fs::rename(&new, file).await
}

fn failed(error: io::Error) -> Status {
    Status::unavailable(format!("the notes cannot be reached: {error}"))
}

impl Place for Directory {
    fn read(&self) -> BoxFuture<'_, Result<Vec<Value>, Status>> {
        Box::pin(async { self.all().await.map_err(failed) })
    }

    fn write<'a>(&'a self, note: &'a Value) -> BoxFuture<'a, Result<(), Status>> {
        let file = self.file(object::namespace(note), object::name(note));
        Box::pin(async move { replace(&file, note).await.map_err(failed) })
    }

    fn remove<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match fs::remove_file(self.file(namespace, name)).await {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            }
        })
    }
}
