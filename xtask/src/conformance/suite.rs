//! Runs of `e2e.test`: which specs it has, and what its report says of those that it was given.

use super::network;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::process::Command;

/// What a run needs beside its specs: to start, to look at the cluster, and to clean up after an interrupted spec.
const OVERHEAD: Duration = Duration::from_secs(120);

pub(super) struct Suite {
    program: PathBuf,
    kubectl: PathBuf,
    /// Reports and logs of all runs.
    directory: PathBuf,
    pub(super) kubeconfig: PathBuf,
    /// The network namespace of the cluster, if it has one of its own.
    pub(super) network: Option<String>,
    runs: AtomicUsize,
}

#[derive(Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) serial: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    Passed,
    Failed,
    /// By the spec's own decision.
    Skipped,
    /// The suite did not come to it.
    NotRun,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            State::Passed => "passed",
            State::Failed => "failed",
            State::Skipped => "skipped",
            State::NotRun => "not run",
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) seconds: f64,
    pub(super) failure: String,
}

impl Suite {
    pub(super) fn new(program: &Path, kubectl: PathBuf, directory: &Path) -> Result<Suite> {
        let program = fs::canonicalize(program).with_context(|| program.display().to_string())?;
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let directory = directory.to_owned();
        let (kubeconfig, network, runs) = (PathBuf::new(), None, AtomicUsize::new(0));
        Ok(Suite { program, kubectl, directory, kubeconfig, network, runs })
    }

    /// The conformance specs whose name matches.
    pub(super) async fn specs(&self, focus: Option<&str>) -> Result<Vec<Spec>> {
        let report = self.directory.join("specs.json");
        let mut command = Command::new(&self.program);
        command.arg("--ginkgo.dry-run").arg("--ginkgo.label-filter=Conformance");
        command.arg(format!("--ginkgo.json-report={}", report.display()));
        command.args(focus.map(|focus| format!("--ginkgo.focus={focus}")));
        let output =
            command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("the suite cannot be started")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        specs(&fs::read(&report).with_context(|| report.display().to_string())?)
    }

    /// Runs some specs, one after the other. There is an outcome for each, whatever becomes of the suite.
    pub(super) async fn run(&self, names: &[String], timeout: Duration) -> Vec<Outcome> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let (report, log) =
            (self.directory.join(format!("{number}.json")), self.directory.join(format!("{number}.log")));
        let told = self.call(names, timeout, &report, &log).await;
        let text = fs::read(&report).unwrap_or_default();
        let _ = fs::remove_file(&report);
        let missing = match told {
            Ok(()) => format!("the suite did not run it; {}", log.display()),
            Err(error) => format!("{error:#}; {}", log.display()),
        };
        outcomes(&text, names, &missing)
    }

    async fn call(&self, names: &[String], timeout: Duration, report: &Path, log: &Path) -> Result<()> {
        let limit = timeout * u32::try_from(names.len())?;
        let mut command = network::command(&self.program, self.network.as_deref());
        command
            .args(["--provider=skeleton", "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.label-filter=Conformance"])
            .args(["--disable-log-dump", "--dump-logs-on-failure=false"])
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--kubectl-path={}", self.kubectl.display()))
            .arg(format!("--ginkgo.timeout={}s", limit.as_secs()))
            .arg(format!("--ginkgo.json-report={}", report.display()))
            .args(names.iter().map(|name| format!("--ginkgo.focus= {}$", escaped(name))));
        let log = File::create(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().context("the suite cannot be started")?;
        let ended = tokio::time::timeout(limit + OVERHEAD, child.wait()).await;
        if ended.is_err() {
            child.kill().await?;
        }
        // Its exit code says that some spec failed, which its report says better.
        ended.map(|_| ()).context("the suite did not end and was killed")
    }
}

/// A name as a regular expression that matches nothing else.
fn escaped(name: &str) -> String {
    let escape = |c: char| if r"\.+*?()|[]{}^$".contains(c) { vec!['\\', c] } else { vec![c] };
    name.chars().flat_map(escape).collect()
}

/// The part of Ginkgo's JSON report that is used.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    #[serde(default)]
    spec_reports: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    #[serde(default)]
    leaf_node_text: String,
    leaf_node_type: String,
    state: String,
    #[serde(default)]
    run_time: u64,
    #[serde(default)]
    num_attempts: u32,
    #[serde(default)]
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

impl Entry {
    fn is_spec(&self) -> bool {
        self.leaf_node_type == "It"
    }

    fn name(&self) -> String {
        let containers = self.container_hierarchy_texts.iter().flatten().map(String::as_str);
        let words: Vec<&str> =
            containers.chain([self.leaf_node_text.as_str()]).filter(|text| !text.is_empty()).collect();
        words.join(" ")
    }

    /// Kubernetes says it in the name, not to Ginkgo.
    fn is_serial(&self) -> bool {
        self.name().contains("[Serial]")
    }

    fn message(&self) -> String {
        self.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default()
    }

    /// A spec that was never tried is skipped in Ginkgo's words too.
    fn state(&self) -> State {
        match self.state.as_str() {
            "passed" => State::Passed,
            "skipped" if self.num_attempts > 0 => State::Skipped,
            "skipped" | "pending" | "" => State::NotRun,
            _ => State::Failed,
        }
    }
}

fn entries(report: &[u8]) -> Result<Vec<Entry>> {
    let reports: Vec<Report> = serde_json::from_slice(report).context("the suite's report")?;
    Ok(reports.into_iter().filter_map(|report| report.spec_reports).flatten().collect())
}

/// The specs that a dry run would have run.
fn specs(report: &[u8]) -> Result<Vec<Spec>> {
    let chosen = entries(report)?.into_iter().filter(|entry| entry.is_spec() && entry.state == "passed");
    let mut specs: Vec<Spec> = chosen.map(|entry| Spec { serial: entry.is_serial(), name: entry.name() }).collect();
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(specs)
}

/// What became of each of these specs; `missing` is why there is no word of one.
fn outcomes(report: &[u8], names: &[String], missing: &str) -> Vec<Outcome> {
    let entries = entries(report).unwrap_or_default();
    // When the suite's own preparation fails, no spec is run.
    let broken = entries.iter().find(|entry| !entry.is_spec() && entry.state() == State::Failed);
    let missing =
        broken.map_or_else(|| missing.to_owned(), |node| format!("{}: {}", node.leaf_node_type, node.message()));
    let mut found: HashMap<String, &Entry> =
        entries.iter().filter(|entry| entry.is_spec()).map(|entry| (entry.name(), entry)).collect();
    let outcome = |name: &String| match found.remove(name) {
        Some(entry) if entry.state() != State::NotRun => Outcome {
            name: name.clone(),
            state: entry.state(),
            seconds: Duration::from_nanos(entry.run_time).as_secs_f64(),
            failure: entry.message(),
        },
        _ => Outcome { name: name.clone(), state: State::NotRun, seconds: 0.0, failure: missing.clone() },
    };
    names.iter().map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Ginkgo writes it, shortened.
    const REPORT: &str = r#"[{"SuitePath": "/e2e", "SpecReports": [
        {"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedBeforeSuite", "LeafNodeText": "", "State": "passed"},
        {"ContainerHierarchyTexts": ["[sig-node] Pods", "[Slow]"], "LeafNodeType": "It", "LeafNodeText": "run [Conformance]",
         "State": "passed", "RunTime": 1500000000, "NumAttempts": 1},
        {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "end [Serial] [Conformance]",
         "State": "timedout", "RunTime": 2000000000, "NumAttempts": 1, "Failure": {"Message": "too late"}},
        {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "hide [Conformance]",
         "State": "skipped", "NumAttempts": 1, "Failure": {"Message": "needs two nodes"}},
        {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "wait [Conformance]",
         "State": "skipped", "NumAttempts": 0}]}]"#;

    fn states(report: &str, names: &[&str]) -> Vec<(State, f64, String)> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let outcomes = outcomes(report.as_bytes(), &names, "killed");
        outcomes.into_iter().map(|outcome| (outcome.state, outcome.seconds, outcome.failure)).collect()
    }

    #[test]
    fn each_spec_that_was_asked_for_has_an_outcome() {
        let names = [
            "[sig-node] Pods [Slow] run [Conformance]",
            "[sig-node] Pods end [Serial] [Conformance]",
            "[sig-node] Pods hide [Conformance]",
            "[sig-node] Pods wait [Conformance]",
            "[sig-node] Pods vanish [Conformance]",
        ];
        let expected = [
            (State::Passed, 1.5, String::new()),
            (State::Failed, 2.0, "too late".to_owned()),
            (State::Skipped, 0.0, "needs two nodes".to_owned()),
            (State::NotRun, 0.0, "killed".to_owned()),
            (State::NotRun, 0.0, "killed".to_owned()),
        ];
        assert_eq!(states(REPORT, &names), expected);
    }

    #[test]
    fn a_suite_that_was_killed_or_could_not_prepare_says_why_nothing_ran() {
        assert_eq!(states("", &["a"]), [(State::NotRun, 0.0, "killed".to_owned())]);
        let broken = r#"[{"SpecReports": [{"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed",
            "Failure": {"Message": "no node is ready"}}]}]"#;
        let expected = [(State::NotRun, 0.0, "SynchronizedBeforeSuite: no node is ready".to_owned())];
        assert_eq!(states(broken, &["a"]), expected);
    }

    #[test]
    fn a_dry_run_lists_what_would_run_and_what_must_run_alone() {
        let report = REPORT.replace("timedout", "passed");
        let listed: Vec<(String, bool)> =
            specs(report.as_bytes()).unwrap().into_iter().map(|spec| (spec.name, spec.serial)).collect();
        let expected =
            [("[sig-node] Pods [Slow] run [Conformance]", false), ("[sig-node] Pods end [Serial] [Conformance]", true)];
        assert_eq!(listed, expected.map(|(name, serial)| (name.to_owned(), serial)));
    }

    #[test]
    fn a_name_matches_itself_alone() {
        assert_eq!(escaped("[a] b.c (d|e)* {f} $1+?^\\"), r"\[a\] b\.c \(d\|e\)\* \{f\} \$1\+\?\^\\");
    }
}
