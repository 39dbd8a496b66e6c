//! Node agents in this process: one for a real machine, a thousand for a simulated cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_container::{Runtime, Simulated};
use pintle_meta::Clock;
use pintle_runtime::{Context, Informer, Selection, Trigger};
use tokio::task::JoinHandle;

use crate::collect::Collector;
use crate::config::NodeConfig;
use crate::logs::rotate::{self, LogRotation};
use crate::machine::Machine;
use crate::node::Presence;
use crate::pods::guards::Guards;
use crate::pods::{Claims, Home, Pods, Tallies, Tenancy, by_node};
use crate::pressure::{Eviction, Pressure, Watch};
use crate::serve::Serving;
use crate::serve::usage::Meter;
use crate::statics::Reader;

/// The name under which node agents write.
pub const AGENT: &str = "kubelet";

/// How often processors are shared out between classes of Pods.
const SHARE_OUT: Duration = Duration::from_secs(60);

/// Nodes that share one watch of Pods, one queue and its workers. Dropping it stops them; containers run on.
pub struct Fleet {
    context: Context,
    pods: Pods,
    nodes: Informer<Node>,
    trigger: Trigger,
    task: JoinHandle<()>,
    members: Mutex<BTreeMap<String, JoinHandle<()>>>,
}

/// One node agent.
pub struct Kubelet;

impl Kubelet {
    /// Starts the agent of one node; it ends with the context's shutdown, or when the fleet of one is stopped. It watches no
    /// more than a node may see: itself and the Pods that are bound to it.
    pub fn start(context: &Context, config: NodeConfig, runtime: Arc<dyn Runtime>) -> Fleet {
        let fleet = Fleet::seeing(context, |context| View::of_one(context, &config.name));
        fleet.add(config, runtime);
        fleet
    }
}

/// What node agents watch.
struct View {
    pods: Informer<Pod>,
    nodes: Informer<Node>,
}

impl View {
    fn of_all(context: &Context) -> View {
        View { pods: context.informers.of(), nodes: context.informers.of() }
    }

    fn of_one(context: &Context, node: &str) -> View {
        let select = |field: &str| Selection::fields(format!("{field}={node}"));
        View {
            pods: context.informers.select(select("spec.nodeName")),
            nodes: context.informers.select(select("metadata.name")),
        }
    }
}

impl Fleet {
    /// Starts without a node.
    pub fn start(context: &Context) -> Self {
        Fleet::seeing(context, View::of_all)
    }

    fn seeing(context: &Context, view: impl FnOnce(&Context) -> View) -> Self {
        let (trigger, context) = context.named(AGENT);
        let view = view(&context);
        let (controller, pods) = Pods::new(&context, view.pods);
        let task = tokio::spawn(controller.run(pods.clone()));
        Fleet { context, pods, nodes: view.nodes, trigger, task, members: Mutex::default() }
    }

    /// Starts `count` simulated nodes, `node-0` and on, whose Leases hold for so long.
    pub fn simulated(context: &Context, world: &Simulated, count: u16, lease: Duration) -> Self {
        let fleet = Fleet::start(context);
        for index in 0..count {
            let name = format!("node-{index}");
            let runtime = world.node(&name, index);
            fleet.add(NodeConfig { lease, ..NodeConfig::simulated(name, index) }, runtime);
        }
        fleet
    }

    /// Starts the agent of a node, in place of one of that name.
    pub fn add(&self, config: NodeConfig, runtime: Arc<dyn Runtime>) {
        let name = config.name.clone();
        self.remove(&name);
        let recorder = self.context.recorder(AGENT).on_host(&name);
        let pressure = Arc::new(Pressure::default());
        let home = Arc::new(Home {
            name: name.clone(),
            address: config.address,
            config: Arc::new(config.clone()),
            tallies: Tallies::default(),
            nodes: self.nodes.clone(),
            claims: Claims::default(),
            allocatable: config.allocatable(),
            runtime: runtime.clone(),
            recorder: recorder.clone(),
            meter: Meter::default(),
            dead: config.collection.clone(),
            pressure: pressure.clone(),
            guards: match config.directory {
                Some(_) => Guards::of_machine(config.allowed_unsafe_sysctls.clone()),
                None => Guards::simulated(config.allowed_unsafe_sysctls.clone()),
            },
            machine: Machine::new(&self.context, &config),
        });
        let (eviction, rotation) = (config.eviction.clone(), config.log_rotation);
        let files = config.static_pods.clone().map(|from| Reader::new(&name, from));
        let devices = home.machine.as_ref().and_then(Machine::devices).cloned();
        let presence =
            Presence::new(&self.context, self.nodes.clone(), config, runtime, recorder, pressure, devices.clone());
        let (pods, shutdown) = (self.pods.clone(), self.context.shutdown.clone());
        let clock = self.context.clock.clone();
        let member = tokio::spawn(async move {
            let work = async {
                let mut files = files;
                // Before what runs is looked at: what no one knows is ended.
                if let Some(files) = &mut files {
                    pods.read_files(files).await;
                }
                pods.join(home.clone()).await;
                let read = async {
                    if let Some(mut files) = files {
                        loop {
                            tokio::time::sleep(files.from.period).await;
                            pods.read_files(&mut files).await;
                        }
                    }
                };
                let offer = async {
                    if let Some(devices) = devices {
                        tokio::join!(devices.run(), pods.follow_devices(&home, &devices));
                    }
                };
                let guard = guard(&pods, &home, &clock, eviction);
                tokio::join!(
                    presence.keep(),
                    pods.follow(&home),
                    pods.sweep(&home),
                    read,
                    offer,
                    guard,
                    keep(&home, &clock, rotation)
                );
            };
            tokio::select! {
                biased;
                () = work => {}
                () = shutdown.fired() => {}
            }
        });
        self.members().insert(name, member);
    }

    /// Stops the agent of a node, as losing its process would: no more heartbeats; containers run on.
    pub fn remove(&self, name: &str) {
        if let Some(member) = self.members().remove(name) {
            member.abort();
            self.pods.leave(name);
        }
    }

    /// What answers requests for these nodes: their logs, commands in their containers, what they use.
    pub fn serving(&self) -> Serving {
        Serving::new(self.pods.clone())
    }

    /// Names of the nodes, sorted.
    pub fn nodes(&self) -> Vec<String> {
        self.members().keys().cloned().collect()
    }

    /// Lets all agents finish what they have in hand.
    pub async fn stop(self) {
        self.trigger.fire();
        let members = std::mem::take(&mut *self.members());
        for (_, member) in members {
            // One that panicked has ended too.
            let _ = member.await;
        }
        let _ = self.task.await;
    }

    /// Ends all agents at their next await, as losing the process would.
    pub async fn crash(self) {
        for member in self.members().values() {
            member.abort();
        }
        self.task.abort();
        let _ = self.task.await;
    }

    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    fn members(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, JoinHandle<()>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps logs small and measures what is used, where there is a machine. Runs until dropped.
async fn keep(home: &Home, clock: &Clock, rotation: LogRotation) {
    let Some(machine) = &home.machine else { return };
    let runtime = home.runtime.as_ref();
    tokio::join!(rotate::keep(rotation, machine.logs(), runtime, clock), home.meter.keep(runtime, clock),);
}

/// Shares processors out between classes of Pods. Runs until dropped.
async fn share_out(pods: &Pods, home: &Home, machine: &Machine) {
    if let Err(message) = machine.reserve().await {
        tracing::warn!(node = %home.name, %message, "nothing keeps Pods from the memory that is reserved");
    }
    loop {
        let all = pods.informer().by(by_node, &home.name);
        if let Err(message) = machine.share_out(all).await {
            tracing::warn!(node = %home.name, %message, "processors are not shared out between classes of Pods");
        }
        tokio::time::sleep(SHARE_OUT).await;
    }
}

/// Removes what is not needed, and Pods when the node runs out of something, where there is a machine. Runs until dropped.
async fn guard(pods: &Pods, home: &Home, clock: &Clock, settings: Eviction) {
    let Some(machine) = &home.machine else { return };
    let (node, runtime, recorder) = (home.name.clone(), home.runtime.clone(), home.recorder.clone());
    let collector = Collector::new(node.clone(), runtime.clone(), recorder.clone(), clock.clone(), home.dead.clone());
    let collector = Arc::new(collector);
    let watch = Watch {
        tenants: Tenancy { pods: pods.clone(), node: node.clone() },
        node,
        settings,
        senses: machine.senses(),
        runtime,
        collector: collector.clone(),
        pressure: home.pressure.clone(),
        recorder,
        clock: clock.clone(),
    };
    let watch = async {
        // Before all Pods are known, what belongs to one looks as if nobody needed it.
        pods.informer().synced().await;
        watch.run().await;
    };
    tokio::join!(collector.run(), watch, share_out(pods, home, machine));
}
