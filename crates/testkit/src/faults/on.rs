//! `faults.on("replicaset-controller").crash_after_write(3)`: how a test says which fault meets which loop.

use super::crash::Crash;
use super::plans::{Fault, Plan, Which};
use super::watches::{Blind, Then};
use super::{Faults, lock};
use std::time::Duration;
use tokio::time::Instant;

/// Plans faults for one loop, known by the name it signs its requests with. Counts begin where the plan is made.
#[derive(Clone)]
pub struct On {
    pub(super) faults: Faults,
    pub(super) agent: String,
    pub(super) which: Which,
    pub(super) resource: String,
    pub(super) restart_after: Option<Duration>,
    pub(super) begin_after: Duration,
}

impl On {
    /// Only requests and watches of this resource, such as `pods`.
    #[must_use]
    pub fn to(mut self, resource: &str) -> Self {
        resource.clone_into(&mut self.resource);
        self
    }

    /// Faults meet gets and lists in place of writes.
    #[must_use]
    pub fn reads(mut self) -> Self {
        self.which = Which::Reads;
        self
    }

    /// A loop that crashes is started again after this time; one second if nothing is said.
    #[must_use]
    pub fn restart_after(mut self, pause: Duration) -> Self {
        self.restart_after = Some(pause);
        self
    }

    /// A loop that crashes stays down until [`Cluster::revive`](crate::Cluster::revive).
    #[must_use]
    pub fn stay_down(mut self) -> Self {
        self.restart_after = None;
        self
    }

    /// What is done to watches begins after this time.
    #[must_use]
    pub fn begin_after(mut self, pause: Duration) -> Self {
        self.begin_after = pause;
        self
    }

    /// The n-th write, counted from 1, commits; its answer never arrives, for the loop is gone.
    pub fn crash_after_write(self, n: u64) {
        let crash = self.crash();
        self.plan(n, 1, Fault::CrashAfter(crash));
    }

    /// The loop is gone just before its n-th write.
    pub fn crash_before_write(self, n: u64) {
        let crash = self.crash();
        self.plan(n, 1, Fault::CrashBefore(crash));
    }

    /// The n-th request and `times - 1` after it are refused with this code (409, 429, 500, 503); nothing is done.
    pub fn fail(self, n: u64, times: u64, code: u16) {
        self.plan(n, times, Fault::Refuse(code));
    }

    /// The n-th request is carried out, and the connection breaks before the answer.
    pub fn lose_answer(self, n: u64) {
        self.plan(n, 1, Fault::Lose);
    }

    /// The n-th request is carried out, and the answer is a 504.
    pub fn time_out(self, n: u64) {
        self.plan(n, 1, Fault::TimeOut);
    }

    /// The n-th write is carried out, and every connection of its writer breaks before the answer. Only what serves
    /// sockets can do that; a client in this process loses the answer alone.
    pub fn sever_after_write(self, n: u64) {
        self.plan(n, 1, Fault::Sever);
    }

    /// Every request takes this long before it is looked at.
    pub fn latency(mut self, wait: Duration) {
        self.which = Which::All;
        self.plan(1, u64::MAX, Fault::Slow(wait));
    }

    /// The loop sees nothing new for this long, then everything, in order.
    pub fn hold_watch(self, long: Duration) {
        self.blind(Some(long), Then::Deliver);
    }

    /// The loop sees nothing new until the answer is released or dropped, then everything, in order.
    #[must_use = "dropping it releases the watch"]
    pub fn hold_watch_until_released(self) -> Held {
        let faults = self.faults.clone();
        Held { id: self.blind(None, Then::Deliver), faults }
    }

    /// The loop sees nothing new until [`Faults::lift`], then everything, in order.
    pub fn hold_watch_until_lifted(self) {
        self.blind(None, Then::Deliver);
    }

    /// The loop sees nothing new for this long; then of several changes to an object it sees only the last.
    pub fn merge_events(self, long: Duration) {
        self.blind(Some(long), Then::Merge);
    }

    /// Events of this time are lost: the watch then ends with 410 Gone, and the loop sees what a list shows.
    pub fn drop_events(self, long: Duration) {
        self.blind(Some(long), Then::Forget);
    }

    /// Every event comes late, by a time below this one that the seed chooses; the order stays.
    pub fn delay_events(self, longest: Duration) {
        lock(&self.faults.0.state).lags.push((self.agent, self.resource, longest));
    }

    fn crash(&self) -> Crash {
        Crash { agent: self.agent.clone(), restart_after: self.restart_after }
    }

    fn plan(self, from: u64, times: u64, fault: Fault) {
        let On { faults, agent, which, resource, .. } = self;
        let plan = Plan { agent, which, resource, from, times, seen: 0, met: 0, fault };
        lock(&faults.0.state).plans.push(plan);
    }

    fn blind(self, long: Option<Duration>, then: Then) -> u64 {
        let On { faults, agent, resource, begin_after, .. } = self;
        let begins = Instant::now() + begin_after;
        let id = {
            let mut state = lock(&faults.0.state);
            state.issued += 1;
            let id = state.issued;
            state.blinds.push(Blind { id, agent, resource, begins, ends: long.map(|long| begins + long), then });
            id
        };
        faults.0.changed.notify_waiters();
        id
    }
}

/// A watch that is held; dropping this releases it.
pub struct Held {
    id: u64,
    faults: Faults,
}

impl Held {
    /// The loop sees everything that was held, in order.
    pub fn release(self) {}

    /// Of what was held, the loop sees the last change of each object.
    pub fn release_merged(self) {
        self.then(Then::Merge);
    }

    /// What was held is lost: the watch ends with 410 Gone.
    pub fn release_forgotten(self) {
        self.then(Then::Forget);
    }

    fn then(&self, then: Then) {
        let mut state = lock(&self.faults.0.state);
        state.blinds.iter_mut().filter(|blind| blind.id == self.id).for_each(|blind| blind.then = then);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = lock(&self.faults.0.state);
        // It ends rather than goes, so that the watches still learn what to do with what they hold.
        state.blinds.iter_mut().filter(|blind| blind.id == self.id).for_each(|blind| blind.ends = Some(now));
        drop(state);
        self.faults.0.changed.notify_waiters();
    }
}
