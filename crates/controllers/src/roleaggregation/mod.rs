//! The clusterroleaggregation loop: a ClusterRole with an `aggregationRule` shows the rules of all the roles that it selects.
//!
//! Watches ClusterRoles. The API server decides by what is selected, whether or not it was written down already; people and
//! programs read what is written.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt;
use pintle_runtime::{Context, Controller, Executor, Key};

/// Runs until the context's shutdown fires. Keys are aggregating roles: any role may be one that they select, or was.
pub(crate) async fn run(context: Context) {
    let roles = context.informers.of::<ClusterRole>();
    let aggregating = {
        let roles = roles.clone();
        move || {
            let all = roles.all();
            let aggregating = all.iter().filter(|role| role.aggregation_rule.is_some());
            aggregating.map(|role| Key::cluster(role.name_any())).collect::<Vec<_>>()
        }
    };
    let executor = Executor::new(&context, plan::MANAGER);
    Controller::new("clusterrole-aggregation", &context)
        .watch(&roles, move |_| aggregating())
        .run_plans(executor, move |key| {
            let all = roles.all();
            roles.get(key).map(|role| plan::plan(&role, all.iter().map(Arc::as_ref))).unwrap_or_default()
        })
        .await;
}
