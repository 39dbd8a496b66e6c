//! What the plugin does for one Pod.

use std::net::{IpAddr, SocketAddr};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use super::books::{Books, Held};
use super::config::{Config, Request};
use super::ports::Ports;
use super::{CniError, rate};
use crate::address::{Family, OfFamily, Range};
use crate::bridge::hardware_address;
use crate::dataplane::forget;
use crate::tool::{self, ToolError};

/// Gives a Pod its network. What was done of it is undone if the rest fails.
pub(super) async fn add(config: &Config, request: &Request, version: &str) -> Result<Value, CniError> {
    match connect(config, request, version).await {
        Ok(result) => Ok(result),
        Err(error) => {
            // Whatever that says, the first error is the one to tell.
            let _ = remove(config, request).await;
            Err(error)
        }
    }
}

async fn connect(config: &Config, request: &Request, version: &str) -> Result<Value, CniError> {
    let bridge = config.as_bridge()?;
    let given = take(config, request, &bridge.pods)?;
    let Some((first, _)) = given.first() else { return Err(CniError::Config("subnets: empty".to_owned())) };
    let (cable, interface) = (request.cable(), &request.interface);
    let (own, mac) = (bridge.gateway().map(hardware_address).unwrap_or_default(), hardware_address(*first));
    let on_the_node = [
        format!("link add {cable} type veth peer name {interface} address {mac} netns {}", request.namespace),
        format!("link set {cable} master {} up", bridge.name),
        format!("link set {cable} type bridge_slave hairpin on"),
    ];
    tool::batch("ip", &on_the_node).await?;
    let mut in_the_pod = vec![format!("link set {interface} up")];
    for (address, range) in &given {
        let quick = if address.is_ipv6() { " nodad" } else { "" };
        in_the_pod.push(format!("addr add {address}/{} dev {interface}{quick}", range.bits()));
        let gateway = range.second().ok_or(CniError::Full(*range))?;
        in_the_pod.push(format!("route add default via {gateway} dev {interface}"));
    }
    let bandwidth = config.bandwidth();
    let sends = rate::in_the_pod(&bandwidth, interface);
    within(&request.namespace, async move {
        tool::batch("ip", &in_the_pod).await?;
        tool::batch("tc", &sends).await
    })
    .await?;
    tool::batch("tc", &rate::on_the_node(&bandwidth, &cable)).await?;
    open(config, &given).await?;
    let is_old = version.starts_with("0.");
    let ips: Vec<Value> = given
        .iter()
        .map(|(address, range)| {
            let mut ip =
                json!({"address": format!("{address}/{}", range.bits()), "gateway": range.second(), "interface": 2});
            if is_old {
                ip["version"] = json!(if address.is_ipv4() { "4" } else { "6" });
            }
            ip
        })
        .collect();
    let routes: Vec<Value> = given
        .iter()
        .map(|(_, range)| json!({"dst": if range.family() == Family::V4 { "0.0.0.0/0" } else { "::/0" }, "gw": range.second()}))
        .collect();
    Ok(json!({"cniVersion": version,
        "interfaces": [{"name": bridge.name, "mac": own}, {"name": cable},
            {"name": interface, "mac": mac, "sandbox": request.namespace}],
        "ips": ips, "routes": routes, "dns": {}}))
}

fn take(config: &Config, request: &Request, ranges: &[Range]) -> Result<Vec<(IpAddr, Range)>, CniError> {
    let books = Books::new(&config.books).lock()?;
    let held =
        Held { container: request.container.clone(), interface: request.interface.clone(), ports: config.mappings() };
    let mut given = Vec::new();
    for range in ranges {
        given.push((books.take(range, &held)?.ok_or(CniError::Full(*range))?, *range));
    }
    Ok(given)
}

/// Lets ports of the node lead to the Pod.
async fn open(config: &Config, given: &[(IpAddr, Range)]) -> Result<(), CniError> {
    let (bridge, ports) = (config.as_bridge()?, config.mappings());
    if ports.is_empty() {
        return Ok(());
    }
    let rules = Ports::new(&bridge);
    let script: String = given.iter().map(|(address, _)| rules.open(*address, &ports)).collect();
    if nft(&script).await.is_err() {
        // Somebody took the table away; it comes back with everything that is in the books.
        nft(&rules.whole(&Books::new(&config.books).all())).await?;
    }
    let ends = |port: u16| given.iter().map(move |(address, _)| SocketAddr::new(*address, port));
    let endpoints: Vec<SocketAddr> = ports.iter().flat_map(|one| ends(one.container_port)).collect();
    // Flows that were not forgotten end by themselves after a while without datagrams.
    let _ = forget(&Ports::stale(&ports, &endpoints));
    Ok(())
}

async fn nft(script: &str) -> Result<(), ToolError> {
    tool::run("nft", &["-f", "-"], script).await.map(|_| ())
}

/// Takes a Pod's network back; what is gone already is not missed.
pub(super) async fn remove(config: &Config, request: &Request) -> Result<Value, CniError> {
    let cable = request.cable();
    if let Err(error) = tool::run("ip", &["link", "delete", &cable], "").await
        && tool::run("ip", &["link", "show", &cable], "").await.is_ok()
    {
        return Err(error.into());
    }
    give_back(config, &request.container, Some(&request.interface)).await
}

async fn give_back(config: &Config, container: &str, interface: Option<&str>) -> Result<Value, CniError> {
    let bridge = config.as_bridge()?;
    let rules = Ports::new(&bridge);
    let back = Books::new(&config.books).lock()?.give_back(container, interface)?;
    for (address, held) in back.iter().filter(|(_, held)| !held.ports.is_empty()) {
        // Without the table the ports are closed too.
        let _ = nft(&rules.close(*address, &held.ports)).await;
        let _ = forget(&Ports::stale(&held.ports, &[]));
    }
    Ok(Value::Null)
}

/// Says whether a Pod still has what it was given.
pub(super) async fn check(config: &Config, request: &Request) -> Result<Value, CniError> {
    let missing = |why: &str| CniError::Missing(request.container.clone(), why.to_owned());
    let held = Books::new(&config.books).all();
    let is_own = |held: &Held| held.container == request.container && held.interface == request.interface;
    let own: Vec<IpAddr> = held.iter().filter(|(_, held)| is_own(held)).map(|(address, _)| *address).collect();
    if own.is_empty() {
        return Err(missing("it has no address in the books"));
    }
    tool::run("ip", &["link", "show", &request.cable()], "").await.map_err(|_| missing("its cable is gone"))?;
    let interface = request.interface.clone();
    let shown =
        within(
            &request.namespace,
            async move { tool::run("ip", &["-o", "addr", "show", "dev", &interface], "").await },
        )
        .await
        .map_err(|_| missing("its interface is gone"))?;
    let has = |address: &IpAddr| shown.contains(&format!(" {address}/"));
    if own.iter().all(has) { Ok(Value::Null) } else { Err(missing("its interface has lost an address")) }
}

/// Takes back what belongs to containers that the runtime does not know.
pub(super) async fn collect(config: &Config, valid: &Value) -> Result<Value, CniError> {
    let known: Vec<&str> =
        valid.as_array().into_iter().flatten().filter_map(|one| one["containerID"].as_str()).collect();
    let mut gone: Vec<String> = Books::new(&config.books).all().into_values().map(|held| held.container).collect();
    gone.dedup();
    for container in gone.iter().filter(|container| !known.contains(&container.as_str())) {
        give_back(config, container, None).await?;
    }
    Ok(Value::Null)
}

/// Brings up the interface that every namespace has.
pub(super) async fn loopback(request: &Request, version: &str) -> Result<Value, CniError> {
    let interface = request.interface.clone();
    within(&request.namespace, async move { tool::run("ip", &["link", "set", &interface, "up"], "").await }).await?;
    let mut ip = json!({"address": "127.0.0.1/8", "interface": 0});
    if version.starts_with("0.") {
        ip["version"] = json!("4");
    }
    Ok(json!({"cniVersion": version, "ips": [ip], "dns": {},
        "interfaces": [{"name": request.interface, "mac": "00:00:00:00:00:00", "sandbox": request.namespace}]}))
}

/// Works on a thread of its own in a network namespace; processes that it starts are there too.
async fn within<T: Send + 'static>(
    namespace: &str,
    work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
) -> Result<T, CniError> {
    let failed = |error: std::io::Error| CniError::Namespace(namespace.to_owned(), error);
    let file = std::fs::File::open(namespace).map_err(failed)?;
    let inside = move || {
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(work))
    };
    let thread = std::thread::spawn(inside);
    let gone = |_| std::io::Error::other("the thread ended early");
    let done = thread.join().map_err(gone).and_then(|done| done).map_err(failed)?;
    Ok(done?)
}
