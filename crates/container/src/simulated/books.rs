//! What one simulated node knows: sandboxes, containers, addresses, images, and when the next thing happens.
//!
//! A container's state is not stored but follows from two moments and the time:
//!
//! ```text
//! starts_at  -        Created           ends_at  in the past    Exited
//!            future   Starting                   future         as starts_at says
//!            past     Running                    -              as starts_at says
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::script::Script;
use crate::container::{Container, ContainerConfig, ContainerId, State};
use crate::error::Error;
use crate::image::Image;
use crate::sandbox::{PodRef, Recalled, Sandbox, SandboxConfig, SandboxId, SandboxState};
use crate::stats::Usage;

/// The code of a process that SIGKILL ended.
const KILLED: i32 = 137;

/// How containerd tells the end of a container that it could not start.
const START_FAILED: i32 = 128;
const START_FAILURE: &str = "the script says that it cannot be started";

#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    /// When they were opened. What ran before is not in them, unless it is recalled.
    opened_at: Timestamp,
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    containers: BTreeMap<ContainerId, Entry>,
    /// Finds both kinds by their Pod's UID.
    sandboxes_of: BTreeMap<String, Vec<SandboxId>>,
    containers_of: BTreeMap<String, Vec<ContainerId>>,
    addresses: BTreeSet<u8>,
    last_address: u8,
    /// What will happen by itself, and when.
    due: BTreeSet<(Timestamp, ContainerId)>,
    /// Whose containers have changed by themselves since anyone asked.
    changed: BTreeSet<PodRef>,
    pub(super) images: BTreeMap<String, Image>,
    /// How often the pull of an image has failed.
    failed_pulls: BTreeMap<String, u32>,
    /// How often a container could not be created, by its Pod's UID and its name.
    failed_creates: BTreeMap<(String, String), u32>,
    /// How often a sandbox could not be made, by its Pod's UID.
    failed_sandboxes: BTreeMap<String, u32>,
    issued: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    config: ContainerConfig,
    script: Script,
    sandbox: SandboxId,
    pod: PodRef,
    created_at: Timestamp,
    starts_at: Option<Timestamp>,
    ends_at: Option<(Timestamp, i32)>,
    stopping: bool,
    start_failed: bool,
    load: Load,
}

/// What a container uses of the CPU from some moment on, and what it had used until then.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    since: Timestamp,
    nanoseconds_before: u64,
    cpu_milli: u64,
}

impl Books {
    pub(super) fn new(now: Timestamp) -> Self {
        Books { opened_at: now, ..Books::default() }
    }

    /// Writes down what ran before these books were opened, as if it had been in them. What is known is known better.
    pub(super) fn recall(&mut self, recalled: Recalled, seed: u64) {
        let Recalled { pod, annotations, addresses, runs } = recalled;
        let is_older = runs.iter().all(|run| run.started_at <= self.opened_at);
        if runs.is_empty() || !is_older || self.sandboxes_of.contains_key(&pod.uid) {
            return;
        }
        for address in &addresses {
            if let IpAddr::V4(address) = address {
                self.addresses.insert(address.octets()[3]);
            }
        }
        let sandbox = SandboxId(self.issue(seed));
        let created_at = runs.iter().map(|run| run.started_at).min().unwrap_or(self.opened_at);
        self.sandboxes_of.insert(pod.uid.clone(), vec![sandbox.clone()]);
        let state = SandboxState::Ready;
        let made = Sandbox { id: sandbox.clone(), pod: pod.clone(), attempt: 0, state, created_at, addresses };
        self.sandboxes.insert(sandbox.clone(), made);
        for run in runs {
            let script = Script::of(&annotations, &run.name);
            let by_script = script.end_of(run.attempt).map(|(lasts, code)| (after(run.started_at, lasts), code));
            let ends_at = run.ended.or(by_script);
            self.due.extend(ends_at.map(|(at, _)| (at, run.id.clone())));
            self.containers_of.entry(pod.uid.clone()).or_default().push(run.id.clone());
            let config = ContainerConfig {
                name: run.name,
                attempt: run.attempt,
                image: run.image,
                image_id: run.image_id,
                ..ContainerConfig::default()
            };
            let entry = Entry {
                config,
                load: Load::by(&script),
                script,
                sandbox: sandbox.clone(),
                pod: pod.clone(),
                created_at: run.started_at,
                starts_at: Some(run.started_at),
                ends_at,
                stopping: false,
                start_failed: false,
            };
            self.containers.insert(run.id, entry);
        }
    }

    /// Whether this pull is one of the first `times`, which fail.
    pub(super) fn pull_fails(&mut self, image: &str, times: u32) -> bool {
        let failed = self.failed_pulls.entry(image.to_owned()).or_default();
        let fails = *failed < times;
        *failed += u32::from(fails && times != u32::MAX);
        fails
    }

    pub(super) fn run_sandbox(
        &mut self,
        config: SandboxConfig,
        seed: u64,
        subnet: [u8; 3],
        now: Timestamp,
    ) -> Result<SandboxId, Error> {
        let times = Script::of(&config.annotations, "").sandbox_fails;
        let failed = self.failed_sandboxes.get(&config.pod.uid).copied().unwrap_or(0);
        if failed < times {
            self.failed_sandboxes.insert(config.pod.uid.clone(), failed + 1);
            return Err(Error::Failed("the script says that the sandbox cannot be made".to_owned()));
        }
        let addresses = match config.namespaces.host_network {
            true => Vec::new(),
            false => vec![self.take_address(subnet)?],
        };
        let id = SandboxId(self.issue(seed));
        let (pod, attempt) = (config.pod, config.attempt);
        self.sandboxes_of.entry(pod.uid.clone()).or_default().push(id.clone());
        let sandbox = Sandbox { id: id.clone(), pod, attempt, state: SandboxState::Ready, created_at: now, addresses };
        self.sandboxes.insert(id.clone(), sandbox);
        Ok(id)
    }

    pub(super) fn stop_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        let Some(sandbox) = self.sandboxes.get_mut(id) else { return };
        sandbox.state = SandboxState::NotReady;
        for address in &sandbox.addresses {
            if let IpAddr::V4(address) = address {
                self.addresses.remove(&address.octets()[3]);
            }
        }
        let uid = sandbox.pod.uid.clone();
        for container in self.containers_of.get(&uid).cloned().unwrap_or_default() {
            if self.containers.get(&container).is_some_and(|entry| entry.sandbox == *id) {
                self.stop(&container, Duration::ZERO, now);
            }
        }
    }

    /// It dies by itself: what runs in it runs on, and nothing can be added to it.
    pub(super) fn lose_sandbox(&mut self, pod_uid: &str) {
        for id in self.sandboxes_of.get(pod_uid).into_iter().flatten() {
            if let Some(sandbox) = self.sandboxes.get_mut(id) {
                sandbox.state = SandboxState::NotReady;
                self.changed.insert(sandbox.pod.clone());
            }
        }
    }

    pub(super) fn remove_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        self.stop_sandbox(id, now);
        let Some(sandbox) = self.sandboxes.remove(id) else { return };
        let uid = &sandbox.pod.uid;
        for container in self.containers_of.get(uid).cloned().unwrap_or_default() {
            if self.containers.get(&container).is_some_and(|entry| entry.sandbox == *id) {
                self.remove_container(&container);
            }
        }
        take_out(&mut self.sandboxes_of, uid, id);
    }

    pub(super) fn sandboxes(&self, pod_uid: Option<&str>) -> Vec<Sandbox> {
        let mut found: Vec<Sandbox> = match pod_uid {
            Some(uid) => {
                let ids = self.sandboxes_of.get(uid).into_iter().flatten();
                ids.filter_map(|id| self.sandboxes.get(id)).cloned().collect()
            }
            None => self.sandboxes.values().cloned().collect(),
        };
        found.sort_by_key(|sandbox| (sandbox.created_at, sandbox.attempt));
        found
    }

    pub(super) fn create_container(
        &mut self,
        sandbox: &SandboxId,
        config: ContainerConfig,
        seed: u64,
        now: Timestamp,
    ) -> Result<ContainerId, Error> {
        let owner = self.sandboxes.get(sandbox).ok_or_else(|| Error::no_sandbox(&sandbox.0))?;
        if owner.state != SandboxState::Ready {
            return Err(Error::Failed(format!("sandbox {sandbox} is not ready")));
        }
        let pod = owner.pod.clone();
        let script = Script::of(&config.annotations, &config.name);
        if script.create_fails > 0 {
            let failed = self.failed_creates.entry((pod.uid.clone(), config.name.clone())).or_default();
            if *failed < script.create_fails {
                *failed += 1;
                return Err(Error::Failed("the script says that it cannot be created".to_owned()));
            }
        }
        let id = ContainerId(self.issue(seed));
        self.containers_of.entry(pod.uid.clone()).or_default().push(id.clone());
        let entry = Entry {
            config: ContainerConfig { annotations: BTreeMap::new(), ..config },
            load: Load::by(&script),
            script,
            sandbox: sandbox.clone(),
            pod,
            created_at: now,
            starts_at: None,
            ends_at: None,
            stopping: false,
            start_failed: false,
        };
        self.containers.insert(id.clone(), entry);
        Ok(id)
    }

    pub(super) fn start(&mut self, id: &ContainerId, now: Timestamp) -> Result<(), Error> {
        let entry = self.containers.get_mut(id).ok_or_else(|| Error::no_container(&id.0))?;
        if entry.starts_at.is_some() || entry.ends_at.is_some() {
            return Err(Error::WrongState { id: id.0.clone(), state: "started already", wanted: "created" });
        }
        if entry.config.attempt < entry.script.start_fails {
            entry.ends_at = Some((now, START_FAILED));
            entry.start_failed = true;
            return Err(Error::Failed(START_FAILURE.to_owned()));
        }
        let starts_at = after(now, entry.script.start_delay);
        entry.starts_at = Some(starts_at);
        entry.ends_at = entry.script.end_of(entry.config.attempt).map(|(run, code)| (after(starts_at, run), code));
        let ends_at = entry.ends_at.map(|(at, _)| at);
        self.due.extend([Some(starts_at), ends_at].into_iter().flatten().map(|at| (at, id.clone())));
        Ok(())
    }

    pub(super) fn stop(&mut self, id: &ContainerId, grace: Duration, now: Timestamp) {
        let Some(entry) = self.containers.get_mut(id) else { return };
        if entry.ends_at.is_some_and(|(at, _)| at <= now) {
            return;
        }
        let never_ran = entry.starts_at.is_none_or(|at| at > now);
        let obeys = !entry.script.ignores_term && entry.script.stop_takes <= grace && !grace.is_zero();
        let (takes, code) = match (never_ran, obeys) {
            (true, _) => (Duration::ZERO, KILLED),
            (false, true) => (entry.script.stop_takes, entry.script.stop_exit_code),
            (false, false) => (grace, KILLED),
        };
        let end = (after(now, takes), code);
        if entry.ends_at.is_none_or(|earlier| end.0 < earlier.0) {
            entry.ends_at = Some(end);
        }
        entry.stopping = true;
        self.due.insert((end.0, id.clone()));
    }

    pub(super) fn remove_container(&mut self, id: &ContainerId) {
        let Some(entry) = self.containers.remove(id) else { return };
        take_out(&mut self.containers_of, &entry.pod.uid, id);
    }

    pub(super) fn containers(&self, pod_uid: Option<&str>, now: Timestamp) -> Vec<Container> {
        let mut found: Vec<Container> = match pod_uid {
            Some(uid) => {
                let ids = self.containers_of.get(uid).into_iter().flatten();
                ids.filter_map(|id| self.container(id, now)).collect()
            }
            None => self.containers.keys().filter_map(|id| self.container(id, now)).collect(),
        };
        found.sort_by_key(|container| (container.created_at, container.attempt));
        found
    }

    pub(super) fn container(&self, id: &ContainerId, now: Timestamp) -> Option<Container> {
        let entry = self.containers.get(id)?;
        let state = entry.state(now);
        Some(Container {
            id: id.clone(),
            sandbox: entry.sandbox.clone(),
            pod: entry.pod.clone(),
            name: entry.config.name.clone(),
            attempt: entry.config.attempt,
            image: entry.config.image.clone(),
            image_id: entry.config.image_id.clone(),
            asked_image: Some(entry.config.image.clone()),
            created_at: entry.created_at,
            stopping: entry.stopping && !matches!(state, State::Exited { .. }),
            state,
        })
    }

    /// What the running containers use; those that use nothing are left out.
    pub(super) fn usage(&self, now: Timestamp) -> Vec<Usage> {
        let running = self.containers.iter().filter_map(|(id, entry)| match entry.state(now) {
            State::Running { started_at } => Some((id, entry, started_at)),
            _ => None,
        });
        let used = running.filter(|(_, entry, _)| entry.load.cpu_milli > 0 || entry.script.memory > 0);
        used.map(|(id, entry, started_at)| Usage {
            id: id.clone(),
            pod: entry.pod.clone(),
            name: entry.config.name.clone(),
            measured_at: now,
            cpu_nanoseconds: entry.load.nanoseconds(started_at, now),
            memory_working_set: entry.script.memory,
            memory_usage: entry.script.memory,
            memory_rss: entry.script.memory,
            disk: 0,
            inodes: 0,
        })
        .collect()
    }

    /// From now on the containers of a Pod use so much CPU.
    pub(super) fn use_cpu(&mut self, pod_uid: &str, cpu_milli: u64, now: Timestamp) {
        for id in self.containers_of.get(pod_uid).into_iter().flatten() {
            if let Some(entry) = self.containers.get_mut(id) {
                let started_at = entry.starts_at.unwrap_or(now);
                let nanoseconds_before = entry.load.nanoseconds(started_at, now);
                entry.load = Load { since: now, nanoseconds_before, cpu_milli };
            }
        }
    }

    pub(super) fn script(&self, id: &ContainerId) -> Option<&Script> {
        self.containers.get(id).map(|entry| &entry.script)
    }

    /// Whose containers have changed, and when the next one will.
    pub(super) fn take_changed(&mut self, now: Timestamp) -> (BTreeSet<PodRef>, Option<Timestamp>) {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, id)) = self.due.pop_first()
                && let Some(entry) = self.containers.get(&id)
            {
                self.changed.insert(entry.pod.clone());
            }
        }
        (std::mem::take(&mut self.changed), self.due.first().map(|(at, _)| *at))
    }

    /// The next free address after the last one given, so that an address is not used again at once.
    fn take_address(&mut self, [first, second, third]: [u8; 3]) -> Result<IpAddr, Error> {
        let candidates = (1..=253u8).map(|step| 2 + ((u16::from(self.last_address) + u16::from(step)) % 253) as u8);
        let free = candidates.into_iter().find(|last| !self.addresses.contains(last)).ok_or(Error::NoAddress)?;
        self.last_address = free - 2;
        self.addresses.insert(free);
        Ok(Ipv4Addr::new(first, second, third, free).into())
    }

    fn issue(&mut self, seed: u64) -> String {
        self.issued += 1;
        // Books that are opened later issue others.
        let opened = self.opened_at.as_millisecond();
        format!("{seed:016x}{opened:016x}{:032x}", self.issued)
    }
}

impl Load {
    fn by(script: &Script) -> Self {
        Load { cpu_milli: script.cpu_milli, ..Load::default() }
    }

    /// Of CPU time, since the container was started.
    fn nanoseconds(&self, started_at: Timestamp, now: Timestamp) -> u64 {
        let since = now.duration_since(self.since.max(started_at));
        let milliseconds = u64::try_from(since.as_millis()).unwrap_or(0);
        self.nanoseconds_before.saturating_add(milliseconds.saturating_mul(self.cpu_milli).saturating_mul(1000))
    }
}

impl Entry {
    fn state(&self, now: Timestamp) -> State {
        let started_at = self.starts_at.filter(|at| *at <= now);
        match (self.ends_at, started_at) {
            (Some((finished_at, exit_code)), _) if self.start_failed => State::Exited {
                started_at: None,
                finished_at,
                exit_code,
                reason: "StartError".to_owned(),
                message: START_FAILURE.to_owned(),
            },
            (Some((finished_at, exit_code)), _) if finished_at <= now => State::Exited {
                started_at: self.starts_at.filter(|at| *at <= finished_at),
                finished_at,
                exit_code,
                reason: if exit_code == 0 { "Completed" } else { "Error" }.to_owned(),
                message: String::new(),
            },
            (_, Some(started_at)) => State::Running { started_at },
            (_, None) if self.starts_at.is_some() => State::Starting,
            (_, None) => State::Created,
        }
    }
}

fn after(moment: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    moment.checked_add(wait).unwrap_or(Timestamp::MAX)
}

fn take_out<T: PartialEq>(index: &mut BTreeMap<String, Vec<T>>, uid: &str, id: &T) {
    if let Some(ids) = index.get_mut(uid) {
        ids.retain(|present| present != id);
        if ids.is_empty() {
            index.remove(uid);
        }
    }
}
