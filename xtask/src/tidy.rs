//! What the compiler does not check: module docs, who depends on whom, and what is absent on purpose.

use crate::root;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this has two jobs.
const LONGEST_FILE: usize = 600;

/// Who may not depend on what: loops reach the cluster only through its API.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("meta", &["pintle-"]),
    ("rules", &["pintle-schema", "pintle-store", "pintle-apiserver", "pintle-runtime"]),
    ("schema", &["pintle-store", "pintle-apiserver", "pintle-runtime"]),
    ("store", &["pintle-"]),
    ("kinds", &["pintle-runtime", "pintle-store", "pintle-apiserver", "pintle-schema"]),
    ("apiserver", &["pintle-runtime", "pintle-controllers", "pintle-scheduler", "pintle-kubelet"]),
    ("runtime", &["pintle-apiserver", "pintle-store", "pintle-schema"]),
    ("controllers", &["pintle-apiserver", "pintle-store", "pintle-schema"]),
    ("scheduler", &["pintle-apiserver", "pintle-store", "pintle-schema", "pintle-controllers"]),
    ("kubelet", &["pintle-apiserver", "pintle-store", "pintle-schema", "pintle-controllers"]),
    ("container", &["pintle-apiserver", "pintle-store", "pintle-runtime", "pintle-kubelet"]),
    ("network", &["pintle-apiserver", "pintle-store", "pintle-schema", "pintle-controllers", "pintle-kubelet"]),
];

/// Words that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "utils", "util", "helpers", "helper", "misc"];

/// What a pure module does not mention.
const IO: &[&str] = &["kube::Api", "kube::Client", ".await", "async fn", "tokio::", "std::fs", "std::net"];

pub(crate) fn run() -> Result<()> {
    let mut complaints = Vec::new();
    let files = sources()?;
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        check_file(file, &text, &mut complaints);
    }
    check_dependencies(&mut complaints)?;
    check_dependency_table(&mut complaints)?;
    if complaints.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    for complaint in &complaints {
        eprintln!("tidy: {complaint}");
    }
    bail!("{} complaints", complaints.len())
}

fn sources() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for top in ["crates", "operators", "examples", "xtask"] {
        walk(&root().join(top), &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn check_file(path: &Path, text: &str, complaints: &mut Vec<String>) {
    let shown = path.strip_prefix(root()).unwrap_or(path).display().to_string();
    let mut complain = |what: &str| complaints.push(format!("{shown}: {what}"));
    if !text.starts_with("//! ") {
        complain("does not open with a //! sentence that says its job");
    }
    if path.ends_with("src/lib.rs") && !text.contains("//! # Layout") {
        complain("has no # Layout section");
    }
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        complain(&format!("has {lines} lines; {LONGEST_FILE} is a sign of two jobs"));
    }
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let folder = path.parent().and_then(|p| p.file_name()).and_then(|s| s.to_str()).unwrap_or_default();
    if EMPTY_NAMES.contains(&stem) || EMPTY_NAMES.contains(&folder) {
        complain("has a name that says nothing");
    }
    let is_tidy = stem == "tidy";
    if !is_tidy && (text.contains("#[allow(") || text.contains("#![allow(")) {
        complain("allows a lint; expect it, with a reason");
    }
    let pure = (stem == "plan" || path.components().any(|c| c.as_os_str() == "plan")) && stem != "tests";
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    if pure && shown.starts_with("crates/") {
        for word in IO.iter().filter(|word| mentions(code, word)) {
            complain(&format!("is a plan and does I/O ({word})"));
        }
    }
}

/// Whether the word stands there, and not as the beginning of a longer one.
fn mentions(code: &str, word: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    code.match_indices(word).any(|(at, _)| word.ends_with("::") || !goes_on(&code[at + word.len()..]))
}

fn check_dependencies(complaints: &mut Vec<String>) -> Result<()> {
    for (krate, banned) in FORBIDDEN {
        let path = root().join("crates").join(krate).join("Cargo.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for line in text.lines().skip_while(|l| *l != "[dependencies]").take_while(|l| *l != "[dev-dependencies]") {
            for name in banned.iter().filter(|b| line.starts_with(**b)) {
                complaints
                    .push(format!("crates/{krate} depends on {name}: see ARCHITECTURE.md, what is absent on purpose"));
            }
        }
    }
    Ok(())
}

/// Every dependency of the workspace stands in the table with its reason.
fn check_dependency_table(complaints: &mut Vec<String>) -> Result<()> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let table = fs::read_to_string(root().join("docs/dependencies.md"))?;
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    for line in section.lines().take_while(|l| !l.starts_with('[')) {
        let Some((name, _)) = line.split_once(" =") else { continue };
        if !name.starts_with("pintle-") && !table.contains(&format!("`{name}`")) {
            complaints.push(format!("docs/dependencies.md does not say why `{name}`"));
        }
    }
    Ok(())
}
