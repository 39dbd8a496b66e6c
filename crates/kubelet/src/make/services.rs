//! The variables that tell a container where Services are.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

/// Where every container finds the API server, whatever its namespace.
const API_SERVER: (&str, &str) = ("default", "kubernetes");

/// Variables for the API server's Service and, with `links`, for all Services of the namespace.
pub(crate) fn variables<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    namespace: &str,
    links: bool,
) -> BTreeMap<String, String> {
    let mut chosen: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let of = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        if (of, name) == API_SERVER {
            chosen.entry(name).or_insert(service);
        } else if links && of == namespace {
            // A Service of the Pod's own namespace goes before the API server's of the same name.
            chosen.insert(name, service);
        }
    }
    chosen.into_iter().flat_map(|(name, service)| of_service(name, service)).collect()
}

fn of_service(name: &str, service: &Service) -> Vec<(String, String)> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let address = spec.cluster_ip.as_deref().unwrap_or_default();
    let ports = spec.ports.as_deref().unwrap_or_default();
    let (Some(first), false) = (ports.first(), address.is_empty() || address == "None") else { return Vec::new() };
    let prefix = variable_name(name);
    let mut variables = vec![
        (format!("{prefix}_SERVICE_HOST"), address.to_owned()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
    ];
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    for (index, port) in ports.iter().enumerate() {
        let number = port.port;
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            variables.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(port_name)), number.to_string()));
        }
        let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        let lower = protocol.to_lowercase();
        let link = format!("{lower}://{host}:{number}");
        if index == 0 {
            variables.push((format!("{prefix}_PORT"), link.clone()));
        }
        let port_prefix = format!("{prefix}_PORT_{number}_{}", protocol.to_uppercase());
        variables.push((format!("{port_prefix}_PROTO"), lower));
        variables.push((format!("{port_prefix}_PORT"), number.to_string()));
        variables.push((format!("{port_prefix}_ADDR"), address.to_owned()));
        variables.push((port_prefix, link));
    }
    variables
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str, address: &str) -> Service {
        let ports = json!([{"name": "https", "port": 443, "protocol": "TCP"}, {"name": "dns-u", "port": 53, "protocol": "UDP"}]);
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name}, "spec": {"clusterIP": address, "ports": ports},
        }))
        .unwrap()
    }

    #[test]
    fn a_container_always_finds_the_api_server_and_its_neighbours_only_with_links() {
        let services = [
            service("default", "kubernetes", "10.96.0.1"),
            service("shop", "web-front", "fd00::1"),
            service("shop", "headless", "None"),
            service("other", "db", "10.96.0.9"),
        ];
        let without = variables(&services, "shop", false);
        assert_eq!(without["KUBERNETES_SERVICE_HOST"], "10.96.0.1");
        assert_eq!(without["KUBERNETES_SERVICE_PORT"], "443");
        assert_eq!(without["KUBERNETES_SERVICE_PORT_HTTPS"], "443");
        assert_eq!(without["KUBERNETES_PORT"], "tcp://10.96.0.1:443");
        assert_eq!(without["KUBERNETES_PORT_53_UDP"], "udp://10.96.0.1:53");
        assert_eq!(without["KUBERNETES_PORT_53_UDP_PROTO"], "udp");
        assert_eq!(without["KUBERNETES_PORT_443_TCP_ADDR"], "10.96.0.1");
        assert!(without.keys().all(|name| name.starts_with("KUBERNETES_")));

        let with = variables(&services, "shop", true);
        assert_eq!(with["WEB_FRONT_SERVICE_HOST"], "fd00::1");
        assert_eq!(with["WEB_FRONT_SERVICE_PORT_DNS_U"], "53");
        assert_eq!(with["WEB_FRONT_PORT_443_TCP"], "tcp://[fd00::1]:443");
        assert!(!with.keys().any(|name| name.starts_with("HEADLESS") || name.starts_with("DB")));
    }
}
