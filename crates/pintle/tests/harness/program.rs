//! `pintle` as a child process: started, waited for until it is ready, stopped by signal, killed when dropped.

use super::eventually;
use super::kubectl::Kubectl;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A directory that is the home of everything a test starts, so that no cache and no file is shared.
pub struct Place {
    directory: TempDir,
    /// The network namespace in which everything runs, if it is not the machine's own.
    pub network: Option<String>,
    /// What the program finds in its environment beside the usual.
    pub variables: Vec<(&'static str, OsString)>,
}

/// In place of a flag: let the program decide whether this machine is a node.
pub const REAL: &str = "(this machine)";

impl Place {
    pub fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a temporary directory"), network: None, variables: Vec::new() }
    }

    /// A program and the words before it.
    pub fn words(&self, program: &str) -> Vec<String> {
        let enter = |name: &String| vec!["nsenter".to_owned(), format!("--net=/run/netns/{name}")];
        let mut words = self.network.as_ref().map(enter).unwrap_or_default();
        words.push(program.to_owned());
        words
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn kubectl(&self) -> Kubectl {
        let kubectl = std::env::var("PINTLE_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
        Kubectl::new(self.words(&kubectl), self.path("kubeconfig"), self.directory.path().to_owned())
    }

    /// Starts a cluster on a free port and waits until it is ready.
    pub async fn up(&self, flags: &[&str]) -> Program {
        let kubeconfig = self.path("kubeconfig");
        let mut arguments = vec!["up", "--write-kubeconfig"];
        arguments.push(kubeconfig.to_str().expect("a path in UTF-8"));
        arguments.extend(flags);
        let said = |flag: &&str| flags.iter().any(|given| given.starts_with(flag));
        if !said(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        // Most tests are not about containers: what runs them must not depend on the machine.
        if !["--nodes", "--container-runtime-endpoint", REAL].iter().any(said) {
            arguments.extend(["--nodes", "1"]);
        }
        arguments.retain(|argument| *argument != REAL);
        let mut program = self.start(&arguments);
        eventually("pintle says that it is ready", async || {
            if let Some(status) = program.child.try_wait().expect("the state of a child") {
                panic!("pintle ended with {status}:\n{}{}", program.stdout(), program.stderr());
            }
            let said = program.stdout();
            if kubeconfig.exists() && said.contains("ready") { Ok(()) } else { Err(said) }
        })
        .await;
        self.kubectl().until("get --raw /readyz", |said| said == "ok").await;
        program
    }

    /// Starts the program and waits for nothing.
    pub fn start(&self, arguments: &[&str]) -> Program {
        // A second program in the same place has its own files.
        let number = fs::read_dir(self.directory.path()).expect("the test's directory").count();
        let (stdout, stderr) = (self.path(&format!("{number}.stdout")), self.path(&format!("{number}.stderr")));
        let words = self.words(env!("CARGO_BIN_EXE_pintle"));
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args(arguments)
            .env("HOME", self.directory.path())
            .env("TMPDIR", self.directory.path())
            .env_remove("XDG_DATA_HOME")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(&stdout).expect("a file for stdout"))
            .stderr(File::create(&stderr).expect("a file for stderr"))
            .kill_on_drop(true)
            .spawn()
            .expect("pintle starts");
        Program { child, stdout, stderr }
    }
}

/// One run of `pintle`.
pub struct Program {
    pub child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Program {
    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let said = self.stderr();
        if std::thread::panicking() {
            eprintln!("pintle said:\n{}{said}", self.stdout());
        } else {
            assert!(!said.contains("panicked at"), "something in pintle panicked:\n{said}");
        }
    }
}
