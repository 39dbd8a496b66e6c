//! Whether a registered server can be asked, and the condition that says so.

use super::{DISCOVERY, Reference, Registered, ask};
use crate::ApiServer;
use crate::authn::User;
use crate::call::Call;
use crate::outbound::{Failure, service};
use crate::own;
use crate::verb::Verb;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pintle_meta::{Status, object};
use serde_json::{Value, json};

/// A Service may have endpoints that do not answer: one answer of several requests is enough.
const ATTEMPTS: usize = 5;

/// What is found when a server is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    is_available: bool,
    reason: &'static str,
    message: String,
}

impl Finding {
    fn failed(reason: &'static str, message: String) -> Self {
        Finding { is_available: false, reason, message }
    }

    pub(super) fn is_good(&self) -> bool {
        self.is_available
    }

    fn local() -> Self {
        Finding { is_available: true, reason: "Local", message: "Local APIServices are always available".to_owned() }
    }

    fn passed() -> Self {
        Finding { is_available: true, reason: "Passed", message: "all checks passed".to_owned() }
    }
}

/// Looks at the Service, its endpoints, and whether the server tells what it serves.
pub(super) async fn check(server: &ApiServer, registered: &Registered) -> Result<Finding, Status> {
    let Reference { namespace, name, port } = &registered.service;
    let registry = &server.registry;
    let Some(found) = service::read(registry, "services", namespace, name).await? else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return Ok(Finding::failed("ServiceNotFound", message));
    };
    if matches!(object::text(&found, &["spec", "type"]), "" | "ClusterIP") {
        let slices = service::slices(registry, namespace, name).await?;
        if let Some(finding) = endpoints(&found, &slices, &registered.service) {
            return Ok(finding);
        }
    }
    let host = match object::text(&found, &["spec", "clusterIP"]) {
        "" | "None" => format!("{name}.{namespace}.svc"),
        address if address.contains(':') => format!("[{address}]"),
        address => address.to_owned(),
    };
    let url = format!("https://{host}:{port}{}", registered.path());
    let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| attempt(server, registered, &url)).collect();
    let mut last = Finding::passed();
    while let Some(attempted) = attempts.next().await {
        match attempted {
            Ok(()) => return Ok(Finding::passed()),
            Err(why) => last = Finding::failed("FailedDiscoveryCheck", why),
        }
    }
    Ok(last)
}

/// What is wrong with the endpoints of a Service that has an address in the cluster.
fn endpoints(found: &Value, slices: &[Value], reference: &Reference) -> Option<Finding> {
    let Reference { namespace, name, port } = reference;
    let Ok(port_name) = service::port_name(found, *port) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Some(Finding::failed("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Some(Finding::failed("EndpointsNotFound", message));
    }
    if service::of_slices(slices, &port_name).next().is_none() {
        let message = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
        );
        return Some(Finding::failed("MissingEndpoints", message));
    }
    None
}

async fn attempt(server: &ApiServer, registered: &Registered, url: &str) -> Result<(), String> {
    let user = User { groups: vec![crate::authn::MASTERS.to_owned()], ..User::new("system:kube-aggregator", &[]) };
    let asked = ask(server, registered, (&registered.path(), "*/*"), &user, DISCOVERY).await;
    let why = match asked {
        Ok(answer) if answer.status().is_success() => return Ok(()),
        Ok(answer) => format!("bad status from {url}: {}", answer.status().as_u16()),
        Err(Failure::Service(status)) => return Err(status.message),
        Err(Failure::Late) => {
            format!("Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
        }
        Err(failure) => format!("Get {url:?}: {failure}"),
    };
    Err(format!("failing or missing response from {url}: {why}"))
}

/// Writes the finding into the APIService, if it says something else.
pub(super) async fn write(server: &ApiServer, name: &str, finding: &Finding) -> Result<(), Status> {
    let now = server.registry.clock.now_rfc3339();
    let catalogue = server.registry.catalogue.latest();
    let resource = catalogue.get("apiregistration.k8s.io", "v1", "apiservices").ok_or_else(Status::no_such_resource)?;
    let current = server.registry.store.get(&resource.key("", name)).await.map_err(crate::registry::read_error)?;
    let Some(current) = current.map(|entry| crate::codec::decode(&entry.value)) else { return Ok(()) };
    if noted(&current, finding, &now) == current {
        return Ok(());
    }
    let call = Call::own(Verb::Update, resource, "", name, "kube-apiserver").through("status");
    own::change(server, &call, |current| noted(current, finding, &now)).await
}

/// The condition of what this server serves itself.
pub(super) async fn write_local(server: &ApiServer, name: &str) -> Result<(), Status> {
    write(server, name, &Finding::local()).await
}

/// The object with its condition, whose time changes only with its status.
fn noted(service: &Value, finding: &Finding, now: &str) -> Value {
    let mut noted = service.clone();
    let mut conditions = object::list(service, &["status", "conditions"]).to_vec();
    let status = if finding.is_available { "True" } else { "False" };
    let (reason, message) = (finding.reason, finding.message.as_str());
    match conditions.iter_mut().find(|condition| condition["type"] == "Available") {
        Some(condition) => {
            if condition["status"] != status {
                condition["status"] = status.into();
                condition["lastTransitionTime"] = now.into();
            }
            condition["reason"] = reason.into();
            condition["message"] = message.into();
        }
        None => conditions.push(json!({"type": "Available", "status": status, "lastTransitionTime": now,
            "reason": reason, "message": message})),
    }
    object::set(&mut noted, &["status", "conditions"], conditions);
    noted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_endpoints_is_said_exactly() {
        let reference = Reference { namespace: "n".to_owned(), name: "s".to_owned(), port: 443 };
        let service =
            |port: u16| json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "https", "port": port}]}});
        let slice = |ready: bool, port: &str| {
            json!({"ports": [{"name": port, "port": 8443}],
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]})
        };
        for (service, slices, expected) in [
            (service(80), vec![], Some(("ServicePortError", r#"service/s in "n" is not listening on port 443"#))),
            (service(443), vec![], Some(("EndpointsNotFound", r#"cannot find endpointslices for service/s in "n""#))),
            (
                service(443),
                vec![slice(false, "https"), slice(true, "http")],
                Some((
                    "MissingEndpoints",
                    r#"endpointslices for service/s in "n" have no addresses with port name "https""#,
                )),
            ),
            (service(443), vec![slice(false, "https"), slice(true, "https")], None),
        ] {
            let found = endpoints(&service, &slices, &reference);
            assert_eq!(found.as_ref().map(|f| (f.reason, f.message.as_str())), expected);
        }
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let first = noted(&json!({}), &Finding::failed("ServiceNotFound", "a".to_owned()), "1");
        let second = noted(&first, &Finding::failed("EndpointsNotFound", "b".to_owned()), "2");
        assert_eq!(second["status"]["conditions"][0]["lastTransitionTime"], "1");
        assert_eq!(second["status"]["conditions"][0]["reason"], "EndpointsNotFound");
        let third = noted(&second, &Finding::passed(), "3");
        assert_eq!(
            third["status"]["conditions"],
            json!([{"type": "Available", "status": "True",
            "lastTransitionTime": "3", "reason": "Passed", "message": "all checks passed"}])
        );
    }
}
