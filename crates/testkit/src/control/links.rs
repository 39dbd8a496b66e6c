//! The connections of a served cluster: who asks over each, what is under way, and how all of one client's are cut.

use crate::faults::asked::Asked;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Agents that a report names.
const SHOWN: usize = 5;

/// Every open connection. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Links(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    issued: u64,
    open: BTreeMap<u64, Open>,
    /// Requests that show a client at work, in all and by agent.
    asked: u64,
    by_agent: BTreeMap<String, u64>,
}

struct Open {
    agents: BTreeSet<String>,
    cut: Arc<Notify>,
}

/// One connection; dropping this forgets it.
pub(super) struct Link {
    id: u64,
    links: Links,
    cut: Arc<Notify>,
}

impl Links {
    pub(super) fn open(&self) -> Link {
        let mut state = self.state();
        state.issued += 1;
        let (id, cut) = (state.issued, Arc::new(Notify::new()));
        state.open.insert(id, Open { agents: BTreeSet::new(), cut: cut.clone() });
        Link { id, links: self.clone(), cut }
    }

    /// Closes every connection over which this agent has asked.
    pub(super) fn sever(&self, agent: &str) {
        let state = self.state();
        state.open.values().filter(|open| open.agents.contains(agent)).for_each(|open| open.cut.notify_one());
    }

    /// How many requests there were that show a client at work: no watches, nothing about Leases and Events.
    pub(super) fn asked(&self) -> u64 {
        self.state().asked
    }

    /// Who has asked most, as the end of a report; empty if nobody has.
    pub(super) fn report(&self) -> String {
        let mut agents: Vec<(String, u64)> = self.state().by_agent.clone().into_iter().collect();
        agents.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut report = String::new();
        for (agent, count) in agents.into_iter().take(SHOWN) {
            let _ = write!(report, "\n  {agent} has sent {count} requests over its connections");
        }
        report
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Notes who asks what over this connection.
    pub(super) fn note(&self, asked: &Asked) {
        let mut state = self.links.state();
        if let Some(open) = state.open.get_mut(&self.id)
            && !open.agents.contains(&asked.agent)
        {
            open.agents.insert(asked.agent.clone());
        }
        if !asked.watches && !asked.resource.is_empty() && !asked.is_restless() {
            state.asked += 1;
            *state.by_agent.entry(asked.agent.clone()).or_default() += 1;
        }
    }

    pub(super) async fn cut(&self) {
        self.cut.notified().await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.links.state().open.remove(&self.id);
    }
}
