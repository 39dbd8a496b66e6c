//! The loop that notices a lost node and moves its Pods away.

use crate::{create, pod, torture, with};
use pintle_testkit::Scenario;
use serde_json::json;
use std::time::Duration;

#[test]
fn pods_leave_a_dead_node_and_stay_on_one_that_came_back_wherever_that_loop_is_lost() {
    let scenario = Scenario::of("node-lifecycle-controller")
        .on(with(&["nodelifecycle", "serviceaccount"], 1, true))
        .setup(|cluster| async move {
            cluster.settle().await;
            create(&cluster, pod("stays")).await;
            let mut hasty = pod("leaves");
            hasty["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 30}]);
            create(&cluster, hasty).await;
        })
        .steps(|cluster| async move {
            cluster.crash_nodes().await;
            cluster.advance(Duration::from_secs(120)).await;
            cluster.settle().await;
            cluster.start_nodes();
            cluster.advance(Duration::from_secs(60)).await;
        });
    torture(&scenario);
}
