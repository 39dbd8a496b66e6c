//! Asks one plugin: a program that is told the image on its input and answers on its output.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::providers::Provider;

/// A plugin that has not answered by then does not.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than any answer needs.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    api_version: String,
    kind: String,
    pub(super) cache_key_type: String,
    #[serde(default)]
    pub(super) cache_duration: Option<String>,
    #[serde(default)]
    pub(super) auth: Map<String, Value>,
}

pub(super) async fn ask(directory: &Path, provider: &Provider, image: &str) -> Result<Answer, String> {
    let request = json!({"apiVersion": provider.api_version, "kind": "CredentialProviderRequest", "image": image});
    let mut command = Command::new(directory.join(&provider.name));
    command.args(&provider.args).envs(provider.env.iter().map(|variable| (&variable.name, &variable.value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
    let (Some(mut input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("it has no streams".to_owned());
    };
    let work = async {
        let (mut said, mut complained) = (Vec::new(), Vec::new());
        let tell = async {
            // One that answers without reading closes its input early.
            let _ = input.write_all(request.to_string().as_bytes()).await;
            drop(input);
        };
        let (mut output, mut errors) = (output.take(LONGEST), errors.take(LONGEST));
        let (_, said_it, complained_it) =
            tokio::join!(tell, output.read_to_end(&mut said), errors.read_to_end(&mut complained));
        said_it.and(complained_it).map_err(|error| error.to_string())?;
        let status = child.wait().await.map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("it ended with {status}: {}", String::from_utf8_lossy(&complained).trim()));
        }
        Ok(said)
    };
    let said = tokio::time::timeout(PATIENCE, work).await.map_err(|_| format!("no answer in {PATIENCE:?}"))??;
    // What is wrong with it is said without its words, which may hold a password.
    let answer: Answer = serde_json::from_slice(&said)
        .map_err(|error| format!("its answer is not understood at line {} column {}", error.line(), error.column()))?;
    if answer.kind != "CredentialProviderResponse" || answer.api_version != provider.api_version {
        let (kind, version) = (&answer.kind, &answer.api_version);
        return Err(format!("it answered with {kind} of {version}, not as asked in {}", provider.api_version));
    }
    Ok(answer)
}
