//! The back end that follows a script in the Pod's annotations.
//!
//! One [`Simulated`] carries any number of nodes; [`Simulated::node`] gives the runtime of one. There is no task and no
//! timer of its own: states follow from the script and the clock when they are asked for, and whoever waits in
//! `changes` waits for the next moment at which one of the node's containers changes. A Pod costs nothing while
//! nothing happens to it.
//!
//! Each annotation begins with `simulated.pintle.dev/`. With `.<container>` at its end it holds for that container and
//! is stronger than the one without, as in `simulated.pintle.dev/run-for.migrate: 5s`. Durations are written `250ms`,
//! `5s`, `2m`, `1h`, `1m30s`.
//!
//! | annotation             | value    | default | what it does                                                        |
//! |------------------------|----------|---------|---------------------------------------------------------------------|
//! | `sandbox-delay`        | duration | 0       | the Pod's sandbox takes this long to be made                        |
//! | `sandbox-fails`        | `true`, integer |  | the sandbox cannot be made, or not the first so many times           |
//! | `pull-delay`           | duration | 0       | a pull takes this long (an image that is there is not pulled again) |
//! | `pull-fails`           | `true`, integer |  | every pull fails, or the first so many pulls of the image           |
//! | `create-fails`         | `true`, integer |  | the container cannot be created, or not the first so many times      |
//! | `start-fails`          | `true`, integer |  | no run can be started, or not the first so many runs                 |
//! | `start-delay`          | duration | 0       | time between the start and the process running                      |
//! | `run-for`              | duration | forever | the process ends by itself after this time                          |
//! | `exit-code`            | integer  | 0       | with which code; alone, a code other than 0 ends the run at once    |
//! | `fail-times`           | integer  | 0       | so many runs fail (with `exit-code`, or 1); later ones end with 0 after `run-for`, or run for ever |
//! | `started-after`        | duration | 0       | from then on a startup probe succeeds                               |
//! | `ready-after`          | duration | 0       | from then on a readiness probe succeeds                             |
//! | `ready-fails-after`    | duration | never   | from then on a readiness probe fails                                |
//! | `liveness-fails-after` | duration | never   | from then on a liveness probe fails                                 |
//! | `stop-takes`           | duration | 0       | time between SIGTERM and the end; beyond the grace period it is killed with 137 |
//! | `stop-exit-code`       | integer  | 0       | the code with which it ends on SIGTERM                              |
//! | `ignores-term`         | `true`   |         | only SIGKILL at the end of the grace period ends it, with 137       |
//! | `log`                  | text     |         | what its log says                                                   |
//! | `cpu`                  | quantity | 0       | how much CPU it uses while it runs                                  |
//! | `memory`               | quantity | 0       | how much memory it uses while it runs                               |
//!
//! Times count from the moment the process runs. Probes are only asked where the Pod's spec has them.

mod books;
mod node;
mod script;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pintle_meta::Clock;

pub use node::Node;
pub use script::{PREFIX, Script, duration};

/// Machines that are not there. Cheap to clone; clones are the same machines.
#[derive(Clone, Debug)]
pub struct Simulated {
    clock: Clock,
    nodes: Arc<Mutex<BTreeMap<String, Arc<Node>>>>,
}

impl Simulated {
    pub fn new(clock: Clock) -> Self {
        Simulated { clock, nodes: Arc::default() }
    }

    /// The runtime of a node, the same each time it is asked for: containers outlive a node agent.
    ///
    /// `index` chooses the node's addresses: Pods get `10.(64 + index / 256).(index % 256).2` and on.
    pub fn node(&self, name: &str, index: u16) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.entry(name.to_owned()).or_insert_with(|| Arc::new(Node::new(self.clock.clone(), name, index)));
        node.clone()
    }

    /// The runtime of a node that there is.
    pub fn known(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Machines of their own with the same containers, on another clock that shows the same moment.
    #[must_use]
    pub fn fork(&self, clock: Clock) -> Self {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let copies = nodes.iter().map(|(name, node)| (name.clone(), Arc::new(node.fork(clock.clone())))).collect();
        Simulated { clock, nodes: Arc::new(Mutex::new(copies)) }
    }

    /// Loses a node with everything on it, as a machine that burns down.
    pub fn forget(&self, name: &str) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
