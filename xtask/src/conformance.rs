//! `cargo xtask conformance`: Kubernetes' own conformance suite, and whether every spec that passed before still passes.
//!
//! The suite (`e2e.test`) and the images are built elsewhere. Each worker takes a small group of specs and runs the suite on
//! it, so that one spec that hangs costs its group and no more. Specs of the list that fail among others are run again alone:
//! only what fails twice is an error.

mod cluster;
mod list;
mod network;
mod suite;

use crate::{kubectl, root};
use anyhow::{Context, Result, bail, ensure};
use cluster::Cluster;
use list::{Change, Passing};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use suite::{Outcome, Spec, State, Suite};
use tokio::time::Instant;

const HELP: &str = "cargo xtask conformance --suite PATH [flags]

  --suite PATH       the e2e.test to run
  --images DIR       archives (*.tar, as `docker save` writes them) that are imported first
  --program PATH     the pintle to start [default: a release of this tree, which is built first]
  --kubeconfig FILE  the cluster to test [default: a new one of two machines with real containers, as root]
  --focus REGEX      only the conformance specs whose name matches
  --parallel N       how many specs run at a time [6]
  --serial           run the [Serial] specs too, alone, after the others
  --timeout SECONDS  how long a spec may take [300]
  --update           add specs that pass for the first time to the list
";

/// How many specs one run of the suite is given: few, since it reports at its end; not one, since it takes seconds to start.
const GROUP: usize = 5;

#[derive(Debug, PartialEq)]
struct Options {
    suite: PathBuf,
    images: Option<PathBuf>,
    program: Option<PathBuf>,
    kubeconfig: Option<PathBuf>,
    focus: Option<String>,
    parallel: usize,
    serial: bool,
    timeout: Duration,
    update: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            suite: PathBuf::new(),
            images: None,
            program: None,
            kubeconfig: None,
            focus: None,
            parallel: 6,
            serial: false,
            timeout: Duration::from_secs(300),
            update: false,
        };
        let mut words = arguments.iter();
        while let Some(flag) = words.next() {
            let mut value = || words.next().with_context(|| format!("{flag} takes a value\n\n{HELP}"));
            match flag.as_str() {
                "--suite" => options.suite = value()?.into(),
                "--images" => options.images = Some(value()?.into()),
                "--program" => options.program = Some(value()?.into()),
                "--kubeconfig" => options.kubeconfig = Some(value()?.into()),
                "--focus" => options.focus = Some(value()?.clone()),
                "--parallel" => options.parallel = number(flag, value()?)?,
                "--timeout" => options.timeout = Duration::from_secs(number(flag, value()?)? as u64),
                "--serial" => options.serial = true,
                "--update" => options.update = true,
                _ => bail!("unknown flag {flag:?}\n\n{HELP}"),
            }
        }
        ensure!(options.suite != Path::new(""), "--suite PATH is required\n\n{HELP}");
        ensure!(
            options.images.is_none() || options.kubeconfig.is_none(),
            "--images is for a cluster that this command starts; import them into yours with `pintle image import`"
        );
        Ok(options)
    }
}

fn number(flag: &str, text: &str) -> Result<usize> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .with_context(|| format!("{flag} takes a number above 0, not {text:?}"))
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(conformance(options))
}

async fn conformance(options: Options) -> Result<()> {
    let file = root().join("xtask/conformance/passing.txt");
    let passing = Passing::read(&file)?;
    let directory = root().join("target/conformance");
    let mut suite = Suite::new(&options.suite, kubectl::ensure()?, &directory)?;
    let specs = suite.specs(options.focus.as_deref()).await.context("listing the suite's specs")?;
    ensure!(!specs.is_empty(), "no conformance spec matches");
    let cluster = match &options.kubeconfig {
        Some(kubeconfig) => Cluster::there(kubeconfig)?,
        None => Cluster::start(options.program.as_deref(), options.images.as_deref()).await?,
    };
    suite.kubeconfig = cluster.kubeconfig.clone();
    suite.network = cluster.network();
    let results = directory.join("results.tsv");
    let progress = Arc::new(Progress::new(&results)?);
    let outcomes = tokio::select! {
        outcomes = run_all(Arc::new(suite), specs, &passing, &options, &progress) => Some(outcomes),
        _ = tokio::signal::ctrl_c() => None,
    };
    let stopped = cluster.stop().await;
    let Some(outcomes) = outcomes else { bail!("interrupted; the results so far are in {}", results.display()) };
    std::fs::write(&results, list::results(&outcomes)).with_context(|| results.display().to_string())?;
    stopped?;
    judge(passing, &outcomes, &options, &file, &results)
}

/// The specs that may run side by side, then those of the list that failed, then the serial ones.
async fn run_all(
    suite: Arc<Suite>,
    specs: Vec<Spec>,
    passing: &Passing,
    options: &Options,
    progress: &Arc<Progress>,
) -> Vec<Outcome> {
    let (serial, parallel): (Vec<Spec>, Vec<Spec>) = specs.into_iter().partition(|spec| spec.serial);
    let serial = if options.serial { serial } else { Vec::new() };
    let names = |specs: Vec<Spec>| specs.into_iter().map(|spec| spec.name).collect::<Vec<_>>();
    let (serial, parallel) = (names(serial), names(parallel));
    progress.expect(parallel.len() + serial.len());
    let mut outcomes = in_groups(&suite, parallel, options.parallel, options.timeout, progress).await;

    let again = |outcome: &Outcome| outcome.state != State::Passed && passing.contains(&outcome.name);
    let failed: Vec<String> = outcomes.iter().filter(|outcome| again(outcome)).map(|o| o.name.clone()).collect();
    if !failed.is_empty() {
        println!("{} specs that passed before failed; each is run again alone", failed.len());
        progress.expect(failed.len());
        for name in failed {
            let second = in_groups(&suite, vec![name.clone()], 1, options.timeout, progress).await;
            outcomes.retain(|outcome| outcome.name != name);
            outcomes.extend(second);
        }
    }
    for name in serial {
        outcomes.extend(in_groups(&suite, vec![name], 1, options.timeout, progress).await);
    }
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    outcomes
}

/// Runs groups of specs, so many at a time. A spec that its group did not come to is run again alone.
async fn in_groups(
    suite: &Arc<Suite>,
    names: Vec<String>,
    workers: usize,
    timeout: Duration,
    progress: &Arc<Progress>,
) -> Vec<Outcome> {
    let groups: VecDeque<Vec<String>> = names.chunks(GROUP).map(<[String]>::to_vec).collect();
    let queue = Arc::new(Mutex::new(groups));
    let take = |queue: &Mutex<VecDeque<Vec<String>>>| queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..workers {
        let (suite, queue, progress) = (suite.clone(), queue.clone(), progress.clone());
        running.spawn(async move {
            let mut done = Vec::new();
            while let Some(group) = take(&queue) {
                let alone = group.len() == 1;
                for outcome in suite.run(&group, timeout).await {
                    if outcome.state == State::NotRun && !alone {
                        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                        queue.push_back(vec![outcome.name]);
                        continue;
                    }
                    progress.tell(&outcome);
                    done.push(outcome);
                }
            }
            done
        });
    }
    running.join_all().await.into_iter().flatten().collect()
}

/// How far the run is, a line for each spec. An interrupted run leaves the results that it has.
struct Progress {
    started: Instant,
    /// How many specs are done, and how many there are.
    counts: Mutex<(usize, usize)>,
    results: File,
}

impl Progress {
    fn new(file: &Path) -> Result<Progress> {
        let mut results = File::create(file).with_context(|| file.display().to_string())?;
        results.write_all(list::results(&[]).as_bytes())?;
        Ok(Progress { started: Instant::now(), counts: Mutex::new((0, 0)), results })
    }

    fn expect(&self, more: usize) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).1 += more;
    }

    fn tell(&self, outcome: &Outcome) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.0 += 1;
        let minutes = self.started.elapsed().as_secs() / 60;
        let state = outcome.state.as_str();
        println!("{} of {}, {minutes} min: {state} {:.0} s {}", counts.0, counts.1, outcome.seconds, outcome.name);
        if let Err(error) = (&self.results).write_all(list::row(outcome).as_bytes()) {
            eprintln!("the results so far cannot be written: {error}");
        }
    }
}

/// Prints what has changed since the list was written. A spec of the list that does not pass is an error.
fn judge(mut passing: Passing, outcomes: &[Outcome], options: &Options, file: &Path, results: &Path) -> Result<()> {
    let Change { lost, gained } = passing.compare(outcomes);
    let count = |state: State| outcomes.iter().filter(|outcome| outcome.state == state).count();
    println!(
        "{} specs: {} passed, {} failed, {} skipped, {} not run; {}",
        outcomes.len(),
        count(State::Passed),
        count(State::Failed),
        count(State::Skipped),
        count(State::NotRun),
        results.display()
    );
    if !gained.is_empty() {
        println!("{} pass for the first time:", gained.len());
        gained.iter().for_each(|name| println!("  {name}"));
        if options.update {
            passing.add(gained);
            passing.write(file)?;
            println!("added to {}", file.display());
        } else {
            println!("`--update` adds them to the list");
        }
    }
    for outcome in &lost {
        eprintln!("passed before: {}\n  {}: {}", outcome.name, outcome.state.as_str(), outcome.failure);
    }
    ensure!(lost.is_empty(), "{} specs that passed before do not pass now", lost.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_wrong_flag_is_answered_with_what_there_is() {
        for line in
            ["", "--suite", "--suite e --parallel none", "--suite e --parallel 0", "--suite e --fokus x", "--serial"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--siute e").unwrap_err().to_string().contains("--suite PATH"));
        assert!(parse("--suite e --kubeconfig k --images i").unwrap_err().to_string().contains("pintle image import"));
    }

    #[test]
    fn every_flag_is_taken() {
        let line = "--suite e --images i --program p --focus Pods --parallel 2 --serial --timeout 9 --update";
        let expected = Options {
            suite: "e".into(),
            images: Some("i".into()),
            program: Some("p".into()),
            kubeconfig: None,
            focus: Some("Pods".into()),
            parallel: 2,
            serial: true,
            timeout: Duration::from_secs(9),
            update: true,
        };
        assert_eq!(parse(line).unwrap(), expected);
    }
}
