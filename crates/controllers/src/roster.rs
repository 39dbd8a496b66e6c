//! Every loop by name, and how to start, stop and crash them one by one.

use std::future::Future;
use std::pin::Pin;

use pintle_meta::Range;
use pintle_runtime::{Context, Trigger};
use tokio::task::JoinHandle;

use crate::concurrency::Concurrency;
use crate::csrsigning::Authority;
use crate::localpath::LocalVolumes;
use crate::serviceaccounttoken::TokenSigner;

/// What loops are told beside their context.
#[derive(Clone, Default)]
pub struct Options {
    /// The certificates with which Pods check the API server, as PEM; without them no `kube-root-ca.crt` is published.
    pub root_ca: Option<String>,
    /// Who signs certificates; without it nobody does here.
    pub authority: Option<Authority>,
    /// Who signs tokens for Secrets; without it those stay without a token.
    pub token_signer: Option<TokenSigner>,
    /// Whether this machine is the cluster's node: without that no loop touches its disk.
    pub is_node: bool,
    /// Where volumes are made for claims of the default class; without a place nobody makes any here.
    pub local_volumes: Option<LocalVolumes>,
    /// The addresses of all Pods, of which each node gets a part; without them nobody gives any out.
    pub cluster_cidrs: Vec<Range>,
    /// How many keys loops work on at once, where they are told.
    pub concurrency: Concurrency,
}

type Run = fn(Context, Options) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A loop that can be started.
#[derive(Clone, Copy)]
pub struct Loop {
    /// How the loop is called on the command line.
    pub name: &'static str,
    /// The name under which it writes.
    pub agent: &'static str,
    run: Run,
}

/// All loops, in the order in which they start.
pub fn roster() -> Vec<Loop> {
    vec![
        entry("deployment", "deployment-controller", |context, _| Box::pin(crate::deployment::run(context))),
        entry("replicaset", "replicaset-controller", |context, _| Box::pin(crate::replicaset::run(context))),
        entry("replicationcontroller", "replication-controller", |context, _| {
            Box::pin(crate::replicationcontroller::run(context))
        }),
        entry("daemonset", "daemonset-controller", |context, _| Box::pin(crate::daemonset::run(context))),
        entry("statefulset", "statefulset-controller", |context, _| Box::pin(crate::statefulset::run(context))),
        entry("job", "job-controller", |context, _| Box::pin(crate::job::run(context))),
        entry("cronjob", "cronjob-controller", |context, _| Box::pin(crate::cronjob::run(context))),
        entry("ttlafterfinished", "ttl-after-finished-controller", |context, _| {
            Box::pin(crate::ttlafterfinished::run(context))
        }),
        entry("horizontalpodautoscaler", "horizontal-pod-autoscaler", |context, _| {
            Box::pin(crate::horizontalpodautoscaler::run(context))
        }),
        entry("podgc", "pod-garbage-collector", |context, _| Box::pin(crate::podgc::run(context))),
        entry("garbage", "garbage-collector", |context, _| Box::pin(crate::garbage::run(context))),
        entry("namespace", "namespace-controller", |context, _| Box::pin(crate::namespace::run(context))),
        entry("serviceaccount", "serviceaccount-controller", |context, _| {
            Box::pin(crate::serviceaccount::run(context))
        }),
        entry("serviceaccounttoken", "tokens-controller", |context, options| {
            Box::pin(crate::serviceaccounttoken::run(context, options.token_signer, options.root_ca))
        }),
        entry("rootca", "root-ca-cert-publisher", |context, options| {
            Box::pin(crate::rootca::run(context, options.root_ca))
        }),
        entry("endpointslice", "endpointslice-controller", |context, _| Box::pin(crate::endpointslice::run(context))),
        entry("endpointslicemirroring", "endpointslicemirroring-controller", |context, _| {
            Box::pin(crate::endpointslicemirroring::run(context))
        }),
        entry("servicelb", "service-lb-controller", |context, _| Box::pin(crate::servicelb::run(context))),
        entry("nodelifecycle", "node-lifecycle-controller", |context, _| Box::pin(crate::nodelifecycle::run(context))),
        entry("tainteviction", "taint-eviction-controller", |context, _| Box::pin(crate::tainteviction::run(context))),
        entry("nodeipam", "node-ipam-controller", |context, options| {
            Box::pin(crate::nodeipam::run(context, options.cluster_cidrs))
        }),
        entry("clusterdns", "cluster-dns-controller", |context, _| Box::pin(crate::clusterdns::run(context))),
        entry("volumes", "persistentvolume-controller", |context, options| {
            Box::pin(crate::volumes::run(context, options.is_node))
        }),
        entry("localpath", "local-path-provisioner", |context, options| {
            Box::pin(crate::localpath::run(context, options.local_volumes))
        }),
        entry("ephemeralvolume", "ephemeral-volume-controller", |context, _| {
            Box::pin(crate::ephemeralvolume::run(context))
        }),
        entry("protection", "pvc-protection-controller", |context, _| Box::pin(crate::protection::run(context))),
        entry("disruption", "disruption-controller", |context, _| Box::pin(crate::disruption::run(context))),
        entry("resourcequota", "resourcequota-controller", |context, _| Box::pin(crate::resourcequota::run(context))),
        entry("csrapproving", "certificatesigningrequest-approving-controller", |context, _| {
            Box::pin(crate::csrapproving::run(context))
        }),
        entry("csrsigning", "certificatesigningrequest-signing-controller", |context, options| {
            Box::pin(crate::csrsigning::run(context, options.authority))
        }),
        entry("csrcleaner", "certificatesigningrequest-cleaner-controller", |context, _| {
            Box::pin(crate::csrcleaner::run(context))
        }),
        entry("tokencleaner", "token-cleaner", |context, _| Box::pin(crate::tokencleaner::run(context))),
        entry("clusterroleaggregation", "clusterrole-aggregation-controller", |context, _| {
            Box::pin(crate::roleaggregation::run(context))
        }),
    ]
}

fn entry(name: &'static str, agent: &'static str, run: Run) -> Loop {
    Loop { name, agent, run }
}

/// Starts the named loops, or all of them if none is named. Unknown names are returned as the error.
pub fn start(context: &Context, which: &[&str], options: &Options) -> Result<Vec<Running>, UnknownLoop> {
    let roster = roster();
    if let Some(unknown) = which.iter().find(|name| roster.iter().all(|known| known.name != **name)) {
        return Err(UnknownLoop((*unknown).to_owned()));
    }
    let wanted = roster.into_iter().filter(|known| which.is_empty() || which.contains(&known.name));
    Ok(wanted.map(|known| known.start(context, options)).collect())
}

#[derive(Debug, thiserror::Error)]
#[error("there is no loop {0:?}; `pintle_controllers::roster()` lists them")]
pub struct UnknownLoop(String);

impl Loop {
    pub fn start(&self, context: &Context, options: &Options) -> Running {
        let (trigger, own) = self.context(context, options);
        Running { name: self.name, trigger, task: tokio::spawn((self.run)(own, options.clone())) }
    }

    /// The same without a task of its own: it ends with the context's shutdown, and at once when it is dropped.
    pub async fn run(&self, context: &Context, options: &Options) {
        let (_trigger, own) = self.context(context, options);
        (self.run)(own, options.clone()).await;
    }

    fn context(&self, of_all: &Context, options: &Options) -> (Trigger, Context) {
        let (trigger, own) = of_all.named(self.agent);
        let told = options.concurrency.of(self.name).map(|workers| own.with_workers(workers));
        (trigger, told.unwrap_or(own))
    }
}

/// A loop at work. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    pub name: &'static str,
    trigger: Trigger,
    task: JoinHandle<()>,
}

impl Running {
    /// Lets the loop finish what it has in hand.
    pub async fn stop(self) {
        self.trigger.fire();
        // A loop that panicked has ended too.
        let _ = self.task.await;
    }

    /// Ends the loop at its next await, as losing the process would.
    pub async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_can_be_told_from_every_other_by_its_name() {
        let names: std::collections::BTreeSet<&str> = roster().iter().map(|known| known.name).collect();
        assert_eq!(names.len(), roster().len());
    }
}
