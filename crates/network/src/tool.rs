//! Runs the programs that talk to the kernel, `ip`, `tc` and `nft`, each with a deadline.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The longest of them, a ruleset for ten thousand Services, takes seconds.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("{program}, from the package {package}, cannot be started: {source}", package = package(.program))]
    Missing { program: &'static str, source: std::io::Error },
    #[error("{0} does not end; it was killed")]
    Hangs(&'static str),
    #[error("{0}")]
    Failed(String),
}

fn package(program: &str) -> &str {
    if program == "nft" { "nftables" } else { "iproute2" }
}

/// Runs a program to its end, in the network namespace of the calling thread, and gives back what it printed.
pub async fn run(program: &'static str, arguments: &[&str], input: &str) -> Result<String, ToolError> {
    let mut command = Command::new(find(program));
    command.args(arguments);
    complete(program, command, input).await
}

/// Runs lines of `ip` or `tc` in one process; the first that fails ends it.
pub async fn batch(program: &'static str, lines: &[String]) -> Result<(), ToolError> {
    if lines.is_empty() {
        return Ok(());
    }
    run(program, &["-batch", "-"], &(lines.join("\n") + "\n")).await.map(|_| ())
}

/// Runs a command that is put together elsewhere.
pub(crate) async fn complete(program: &'static str, mut command: Command, input: &str) -> Result<String, ToolError> {
    let missing = |source| ToolError::Missing { program, source };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(missing)?;
    let stdin = child.stdin.take();
    let ended = async {
        // It reads to the end before it says anything. One that ends early says why.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(DEADLINE, ended).await.map_err(|_| ToolError::Hangs(program))?;
    let output = output.map_err(missing)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(ToolError::Failed(first_lines(&String::from_utf8_lossy(&output.stderr)))),
    }
}

/// Root's search path does not always have it.
pub(crate) fn find(program: &'static str) -> String {
    let usual = ["/usr/sbin", "/sbin"].map(|directory| format!("{directory}/{program}"));
    usual.into_iter().find(|file| Path::new(file).is_file()).unwrap_or_else(|| program.to_owned())
}

/// A line of input is repeated for each complaint; a few say enough.
fn first_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().take(3).map(|line| line.chars().take(300).collect()).collect();
    lines.join(" / ")
}
