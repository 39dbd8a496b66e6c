//! What a Service counts for: itself, its node ports, its load balancer.

use crate::Amounts;
use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use serde_json::Value;

const SERVICES: &str = "services";
const NODE_PORTS: &str = "services.nodeports";
const LOAD_BALANCERS: &str = "services.loadbalancers";

pub(super) fn counts(name: &str) -> bool {
    [SERVICES, NODE_PORTS, LOAD_BALANCERS].contains(&name)
}

pub(super) fn usage(service: &Value) -> Amounts {
    let ports = object::list(service, &["spec", "ports"]);
    let of_its_own = |port: &&Value| object::integer(port, &["nodePort"]).is_some_and(|number| number != 0);
    let (node_ports, balancers) = match object::text(service, &["spec", "type"]) {
        "NodePort" => (ports.len(), 0),
        // Node ports are not chosen yet: what counts is whether they will be.
        "LoadBalancer" => match object::at(service, &["spec", "allocateLoadBalancerNodePorts"]) {
            Some(Value::Bool(false)) => (ports.iter().filter(of_its_own).count(), 1),
            _ => (ports.len(), 1),
        },
        _ => (0, 0),
    };
    let whole = |number: usize| Quantity::from_units(i64::try_from(number).unwrap_or(i64::MAX));
    [(SERVICES, whole(1)), (NODE_PORTS, whole(node_ports)), (LOAD_BALANCERS, whole(balancers))].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_counts_for_the_ports_that_it_takes_on_nodes() {
        let ports = json!([{"port": 80}, {"port": 81, "nodePort": 30001}]);
        for (spec, counted) in [
            (json!({"ports": ports}), "services=1,services.loadbalancers=0,services.nodeports=0"),
            (json!({"type": "NodePort", "ports": ports}), "services=1,services.loadbalancers=0,services.nodeports=2"),
            (
                json!({"type": "LoadBalancer", "ports": ports}),
                "services=1,services.loadbalancers=1,services.nodeports=2",
            ),
            (
                json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false}),
                "services=1,services.loadbalancers=1,services.nodeports=1",
            ),
        ] {
            assert_eq!(usage(&json!({"spec": spec})).to_string(), counted, "{spec}");
        }
    }
}
