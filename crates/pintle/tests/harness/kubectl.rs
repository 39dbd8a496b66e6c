//! kubectl as a child process, its commands written as one would type them.

use super::{PATIENCE, eventually};
use std::fmt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use tokio::process::Command;

/// A kubectl with a kubeconfig and a home of its own.
#[derive(Clone)]
pub struct Kubectl {
    /// The program, and before it what puts it where it belongs.
    pub program: Vec<String>,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Answer {
    pub line: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    pub fn new(program: Vec<String>, kubeconfig: PathBuf, home: PathBuf) -> Kubectl {
        Kubectl { program, kubeconfig, home }
    }

    /// A command, ready to be started. Words with blanks stand in single quotes.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program[0]);
        command
            .args(&self.program[1..])
            .args(words(line))
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    pub async fn run(&self, line: &str) -> Answer {
        self.finish(line, self.command(line).output()).await
    }

    /// Runs a command that must succeed; what it printed.
    pub async fn ok(&self, line: &str) -> String {
        let answer = self.run(line).await;
        assert_eq!(answer.code, Some(0), "{answer}");
        answer.stdout
    }

    /// Runs a command until what it prints is as it should be.
    pub async fn until(&self, line: &str, fits: impl Fn(&str) -> bool) -> String {
        eventually(&format!("`kubectl {line}` is as it should be"), async || {
            let answer = self.run(line).await;
            if answer.code == Some(0) && fits(&answer.stdout) { Ok(answer.stdout) } else { Err(answer.to_string()) }
        })
        .await
    }

    /// Awaits a started command and reads what it left.
    pub async fn finish(&self, line: &str, output: impl Future<Output = std::io::Result<Output>>) -> Answer {
        let output = tokio::time::timeout(2 * PATIENCE, output)
            .await
            .unwrap_or_else(|_| panic!("`kubectl {line}` does not end"))
            .unwrap_or_else(|why| panic!("no kubectl ({why}): run `cargo xtask test`, which brings a kubectl"));
        Answer {
            line: line.to_owned(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ kubectl {}", self.line)?;
        write!(f, "{}{}", self.stdout, self.stderr)?;
        write!(f, "[ended with {:?}]", self.code)
    }
}

/// `patch cm x -p '{"a": 1}'` is five words.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
