//! A story that runs once without faults and then again under faults: the end must be the same, and then no more writes.

use crate::faults::asked::Asked;
use crate::parallel;
use crate::{Builder, Cluster, Snapshot};
use futures::future::LocalBoxFuture;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// How long nothing may be written at the end.
const SILENCE: Duration = Duration::from_secs(600);

/// Events that a loop may write in the silence before it is called a storm.
const STORM: u64 = 50;

type Part = Box<dyn Fn(Arc<Cluster>) -> LocalBoxFuture<'static, ()> + Send + Sync>;

/// What happens, to which loop, and how long its effects may take.
pub struct Scenario {
    pub(crate) agent: String,
    builder: Builder,
    setup: Part,
    steps: Part,
    patience: Duration,
    ignored: Vec<&'static str>,
}

/// How a run ended.
pub(crate) struct Outcome {
    pub(crate) snapshot: Snapshot,
    /// The writes of the loop under test since the faults were armed.
    pub(crate) writes: Vec<Asked>,
    /// What was still written at the end, by which client, and what it changed.
    pub(crate) noise: Option<String>,
    pub(crate) events: u64,
    /// Rules of nodes that the objects at the end do not make.
    pub(crate) stray: Vec<String>,
}

impl Scenario {
    /// A scenario for the loop that signs its requests with this name. Every loop of the cluster is isolated.
    pub fn of(agent: &str) -> Self {
        let nothing = || -> Part { Box::new(|_| Box::pin(async {})) };
        Scenario {
            agent: agent.to_owned(),
            builder: Builder::default(),
            setup: nothing(),
            steps: nothing(),
            patience: Duration::from_secs(30),
            ignored: Vec::new(),
        }
    }

    /// What the cluster is made of.
    #[must_use]
    pub fn on(mut self, builder: Builder) -> Self {
        self.builder = builder;
        self
    }

    /// What is there before anything goes wrong; a loop of the test's own is started here.
    #[must_use]
    pub fn setup<F>(mut self, part: impl Fn(Arc<Cluster>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        self.setup = Box::new(move |cluster| Box::pin(part(cluster)));
        self
    }

    /// What happens under faults. It must not check anything: the end is compared with that of the fault-free run.
    #[must_use]
    pub fn steps<F>(mut self, part: impl Fn(Arc<Cluster>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        self.steps = Box::new(move |cluster| Box::pin(part(cluster)));
        self
    }

    /// How much time passes between the last step and the comparison. Less than a resync, which would hide what was
    /// missed.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Leaves a field out of the comparison, named by a part of its path: one that counts what was done on the way.
    #[must_use]
    pub fn ignoring(mut self, field: &'static str) -> Self {
        self.ignored.push(field);
        self
    }

    /// Tells the story once. `arm` plans the faults.
    pub(crate) fn run(&self, seed: u64, arm: impl FnOnce(&Cluster)) -> Result<Outcome, String> {
        parallel::alone(async {
            let cluster = Arc::new(self.builder.clone().isolated().seed(seed).start().await);
            (self.setup)(cluster.clone()).await;
            cluster.settle().await;
            let before = cluster.faults.written();
            arm(&cluster);
            (self.steps)(cluster.clone()).await;
            cluster.settle().await;
            cluster.faults.lift();
            cluster.revive();
            cluster.settle().await;
            cluster.advance(self.patience).await;
            cluster.settle().await;
            let snapshot = cluster.snapshot().await;
            let stray = cluster.stray_rules().await;
            let writes = self.writes_since(&cluster, before);
            let (written, events) = (cluster.writes(), cluster.activity.events());
            cluster.activity.cool();
            cluster.advance(SILENCE).await;
            let noise = if cluster.writes() == written { None } else { Some(cluster.unrest()) };
            Outcome { snapshot, writes, noise, events: cluster.activity.events() - events, stray }
        })
    }

    fn writes_since(&self, cluster: &Cluster, before: u64) -> Vec<Asked> {
        let (all, written) = (cluster.faults.writes(), cluster.faults.written());
        let new = usize::try_from(written - before).unwrap_or(usize::MAX).min(all.len());
        all[all.len() - new..].iter().filter(|asked| asked.agent == self.agent).cloned().collect()
    }

    /// The story without faults: what every other run is compared with.
    pub(crate) fn in_peace(&self) -> Result<Outcome, String> {
        let clean = self.run(1, |_| ()).map_err(|error| format!("{}: fails without any fault: {error}", self.agent))?;
        match self.complaint(&clean, &clean) {
            Some(complaint) => Err(format!("{}: not even without a fault: {complaint}", self.agent)),
            None => Ok(clean),
        }
    }

    /// What is wrong with an end, if anything is.
    pub(crate) fn complaint(&self, clean: &Outcome, outcome: &Outcome) -> Option<String> {
        let mut complaint = String::new();
        let differences = clean.snapshot.differences(&outcome.snapshot);
        let real = differences.iter().filter(|line| !self.ignored.iter().any(|field| line.contains(field)));
        for line in real {
            let _ = write!(complaint, "\n  {line}");
        }
        for line in &outcome.stray {
            let _ = write!(complaint, "\n  {line}");
        }
        if let Some(noise) = &outcome.noise {
            let _ = write!(complaint, "\n  no silence in the ten minutes after: {noise}");
        }
        if outcome.events > STORM {
            let _ = write!(complaint, "\n  no silence: {} events in the ten minutes after", outcome.events);
        }
        (!complaint.is_empty()).then_some(complaint)
    }
}
