//! The loop: what it watches, and whose plan it carries out.

use k8s_openapi::api::apps::v1::Deployment;
use pintle_runtime::{Context, Controller, Executor, Key, Plan, when};

use crate::plan::plan;
use crate::types::Website;

/// The name under which the operator writes, records events and is known to tests.
pub const NAME: &str = "website-operator";

/// Runs the operator until its context's shutdown fires.
pub async fn run(context: Context) {
    let (objects, deployments) = (context.informers.of::<Website>(), context.informers.of::<Deployment>());
    let clock = context.clock.clone();
    Controller::new("website", &context)
        .for_each::<Website>(when::spec)
        .owns::<Deployment>(when::anything)
        .workers(2)
        .run_plans(Executor::new(&context, NAME), move |key: &Key| match objects.get(key) {
            // One on its way out needs nothing: what it owns goes with it.
            Some(object) if object.metadata.deletion_timestamp.is_none() => {
                plan(&object, deployments.get(key).as_deref(), clock.now()).about(&*object)
            }
            _ => Plan::default(),
        })
        .await;
}
