//! A CNI plugin: gives each Pod a cable to the bridge, an address, ports of the node and a bandwidth.
//!
//! A runtime starts it under one of two names, with what to do in its environment and the configuration on its input:
//! `pintle-cni`, and `loopback`, which some runtimes ask for by that name.

mod add;
mod books;
mod config;
mod install;
mod ports;
mod rate;

use std::path::Path;

use serde_json::{Value, json};

pub use books::{Books, Held};
pub use config::Mapping;
pub use install::{FILE, Places};
pub use ports::Ports;

use config::{Config, Request};

/// Under which names runtimes find the plugin.
pub const NAME: &str = "pintle-cni";
pub const LOOPBACK: &str = "loopback";

/// The versions of the protocol that are spoken, the newest last.
const VERSIONS: [&str; 5] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Why a Pod has no network. The numbers are the protocol's.
#[derive(Debug, thiserror::Error)]
pub enum CniError {
    #[error("the configuration asks for version {0} of CNI; {versions} are spoken", versions = VERSIONS.join(", "))]
    Version(String),
    #[error("{0} is not set, or wrong: {1}")]
    Environment(&'static str, String),
    #[error("the configuration cannot be read: {0}")]
    Config(String),
    #[error("all addresses of {0} are taken")]
    Full(crate::Range),
    #[error("{0}")]
    Books(#[from] books::BooksError),
    #[error("{0}")]
    Tool(#[from] crate::tool::ToolError),
    #[error("the network namespace {0} cannot be entered: {1}")]
    Namespace(String, std::io::Error),
    #[error("{0} has no network: {1}")]
    Missing(String, String),
}

impl CniError {
    fn code(&self) -> u16 {
        match self {
            CniError::Version(_) => 1,
            CniError::Environment(..) => 4,
            CniError::Config(_) => 6,
            CniError::Full(_) => 11,
            CniError::Books(_) => 5,
            CniError::Tool(_) | CniError::Namespace(..) => 100,
            CniError::Missing(..) => 101,
        }
    }
}

/// Whether a program that is started under this name is meant to be the plugin.
pub fn is_meant(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == NAME || name == LOOPBACK)
}

/// Does what the environment says with the configuration on the input. What it gives back is for the output; an error is too, and
/// the program then ends with 1.
pub async fn run(environment: impl Fn(&str) -> Option<String>, input: &str) -> Result<String, String> {
    let parsed: Value = serde_json::from_str(input).unwrap_or_default();
    let version = parsed["cniVersion"].as_str().unwrap_or("0.3.1").to_owned();
    let done = carry_out(&environment, parsed, &version).await;
    let shown = |value: Value| if value.is_null() { String::new() } else { value.to_string() };
    done.map(shown).map_err(|error| {
        json!({"cniVersion": version, "code": error.code(), "msg": error.to_string(), "details": ""}).to_string()
    })
}

async fn carry_out(
    environment: &impl Fn(&str) -> Option<String>,
    input: Value,
    version: &str,
) -> Result<Value, CniError> {
    let command = environment("CNI_COMMAND").unwrap_or_default();
    if command == "VERSION" {
        return Ok(json!({"cniVersion": VERSIONS[VERSIONS.len() - 1], "supportedVersions": VERSIONS}));
    }
    if !VERSIONS.contains(&version) {
        return Err(CniError::Version(version.to_owned()));
    }
    let is_loopback = input["type"] == LOOPBACK;
    match command.as_str() {
        "ADD" if is_loopback => add::loopback(&Request::read(environment)?, version).await,
        "DEL" | "CHECK" | "STATUS" | "GC" if is_loopback => Ok(Value::Null),
        "ADD" => add::add(&Config::read(input)?, &Request::read(environment)?, version).await,
        "DEL" => add::remove(&Config::read(input)?, &Request::read_gone(environment)?).await,
        "CHECK" => add::check(&Config::read(input)?, &Request::read(environment)?).await,
        "STATUS" => Config::read(input).map(|_| Value::Null),
        "GC" => {
            let valid = input["cni.dev/valid-attachments"].clone();
            add::collect(&Config::read(input)?, &valid).await
        }
        other => Err(CniError::Environment(
            "CNI_COMMAND",
            format!("{other:?} is not ADD, DEL, CHECK, STATUS, GC or VERSION"),
        )),
    }
}
