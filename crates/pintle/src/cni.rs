//! This program as a plugin of container runtimes: `pintle cni`, or under one of the plugin's own names.

use std::io::Read;
use std::process::ExitCode;

use crate::say::say;

/// The output is for the runtime, errors too.
pub(crate) fn run() -> ExitCode {
    let mut input = String::new();
    // What cannot be read is no configuration, and is refused as such.
    let _ = std::io::stdin().read_to_string(&mut input);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(pintle_network::cni::run(|name| std::env::var(name).ok(), &input)),
        Err(error) => Err(serde_json::json!({"code": 100, "msg": error.to_string()}).to_string()),
    };
    match done {
        Ok(result) => {
            if !result.is_empty() {
                say!("{result}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            say!("{error}");
            ExitCode::FAILURE
        }
    }
}
