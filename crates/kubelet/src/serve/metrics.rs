//! `/metrics` of the node agent itself, `/metrics/cadvisor` of its containers, `/metrics/probes` of their probes.

use std::sync::atomic::Ordering;

use pintle_container::{Container, NetworkUsage, ProbeKind, SandboxState, State};

use super::exposition::{Exposition, Sample, seconds};
use super::find::failed;
use super::usage::Measured;
use super::{Failure, Serving};
use crate::KUBELET_VERSION;
use crate::pods::{Home, ProbeCount};

impl Serving {
    pub(super) async fn agent_metrics(&self, home: &Home) -> Result<String, Failure> {
        let sandboxes = home.runtime.list_sandboxes(None).await.map_err(failed)?;
        let containers = home.runtime.list_containers(None).await.map_err(failed)?;
        let mut text = Exposition::default();
        let labels = [("git_version", KUBELET_VERSION), ("platform", "linux")];
        let help = "[BETA] A metric with a constant '1' value labeled by the version that the node agent reports";
        text.family("kubernetes_build_info", "gauge", help, std::iter::once(Sample::new(&labels, 1)));
        let help = "[ALPHA] The node's name. The count is always 1.";
        let name = Sample::new(&[("node", &home.name)], 1);
        text.family("kubelet_node_name", "gauge", help, std::iter::once(name));
        let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
        text.gauge("kubelet_running_pods", "[BETA] Number of pods that have a running pod sandbox", ready);
        let states = ["created", "running", "exited", "unknown"].map(|state| {
            let count = containers.iter().filter(|container| state_of(container) == state).count();
            Sample::new(&[("container_state", state)], count)
        });
        let help = "[BETA] Number of containers currently running";
        text.family("kubelet_running_containers", "gauge", help, states.into_iter());
        let tallies = &home.tallies;
        for (name, help, count) in [
            ("kubelet_started_pods_total", "[BETA] Cumulative number of pods started", &tallies.sandboxes),
            (
                "kubelet_started_pods_errors_total",
                "[BETA] Cumulative number of errors when starting pods",
                &tallies.sandbox_errors,
            ),
            ("kubelet_started_containers_total", "[BETA] Cumulative number of containers started", &tallies.containers),
            (
                "kubelet_started_containers_errors_total",
                "[BETA] Cumulative number of errors when starting containers",
                &tallies.container_errors,
            ),
            (
                "kubelet_image_pulls_errors_total",
                "[ALPHA] Cumulative number of image pulls that failed",
                &tallies.pull_errors,
            ),
            (
                "kubelet_admission_rejections_total",
                "[ALPHA] Cumulative number of pod admission rejections by the node agent",
                &tallies.rejections,
            ),
        ] {
            text.counter(name, help, count.load(Ordering::Relaxed));
        }
        Ok(text.into_text())
    }

    pub(super) async fn container_metrics(&self, home: &Home) -> Result<String, Failure> {
        let measured = self.measure(home).await?;
        let containers = home.runtime.list_containers(None).await.map_err(failed)?;
        let network = home.runtime.network_usage().await.map_err(failed)?;
        let cores = home.machine.as_ref().map(|_| crate::make::amount(Some(&home.config.capacity), "cpu"));
        Ok(cadvisor(&measured, &containers, &network, cores.flatten().map(|cores| cores.units())))
    }

    pub(super) fn probe_metrics(&self, home: &Home) -> String {
        probes(&self.pods.probe_counts(&home.name))
    }
}

fn state_of(container: &Container) -> &'static str {
    match container.state {
        State::Created | State::Starting => "created",
        State::Running { .. } => "running",
        State::Exited { .. } => "exited",
        State::Unknown => "unknown",
    }
}

/// What a container is known by in cAdvisor's metrics; the node as a whole has nothing but `id="/"`.
struct Named<'a> {
    container: &'a str,
    id: &'a str,
    image: &'a str,
    name: &'a str,
    namespace: &'a str,
    pod: &'a str,
}

const NODE: Named<'static> = Named { container: "", id: "/", image: "", name: "", namespace: "", pod: "" };

impl Named<'_> {
    fn sample(&self, more: &[(&str, &str)], value: impl ToString) -> Sample {
        let own = [
            ("container", self.container),
            ("id", self.id),
            ("image", self.image),
            ("name", self.name),
            ("namespace", self.namespace),
            ("pod", self.pod),
        ];
        Sample::new(&[&own, more].concat(), value)
    }
}

fn cadvisor(measured: &Measured, known: &[Container], network: &[NetworkUsage], cores: Option<i64>) -> String {
    let run_of = |id| known.iter().find(|run| run.id == id);
    let all: Vec<_> = measured
        .containers
        .values()
        .map(|(usage, _)| {
            let run = run_of(usage.id.clone());
            let named = Named {
                container: &usage.name,
                id: &usage.id.0,
                image: run.map_or("", |run| run.image.as_str()),
                name: &usage.id.0,
                namespace: &usage.pod.namespace,
                pod: &usage.pod.name,
            };
            (named, usage, run.and_then(Container::started_at))
        })
        .collect();
    let mut text = Exposition::default();
    let node_cpu = measured
        .machine
        .as_ref()
        .map(|machine| NODE.sample(&[("cpu", "total")], seconds(machine.processor.nanoseconds)).at(machine.at));
    let cpu = all.iter().map(|(named, usage, _)| {
        named.sample(&[("cpu", "total")], seconds(usage.cpu_nanoseconds)).at(usage.measured_at)
    });
    let help = "Cumulative cpu time consumed in seconds.";
    text.family("container_cpu_usage_seconds_total", "counter", help, node_cpu.into_iter().chain(cpu));
    let used = measured.machine.as_ref().map(|machine| {
        let used = machine.memory_total.saturating_sub(machine.memory_available);
        (NODE.sample(&[], used).at(machine.at), NODE.sample(&[], used).at(machine.at))
    });
    let (used, working) = used.unzip();
    let memory = |of: fn(&pintle_container::Usage) -> u64| {
        all.iter().map(move |(named, usage, _)| named.sample(&[], of(usage)).at(usage.measured_at))
    };
    let help = "Current memory usage in bytes, including all memory regardless of when it was accessed";
    let values = used.into_iter().chain(memory(|usage| usage.memory_usage));
    text.family("container_memory_usage_bytes", "gauge", help, values);
    let values = working.into_iter().chain(memory(|usage| usage.memory_working_set));
    text.family("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", values);
    text.family("container_memory_rss", "gauge", "Size of RSS in bytes.", memory(|usage| usage.memory_rss));
    let disk = |of: fn(&pintle_container::Usage) -> u64| {
        all.iter().map(move |(named, usage, _)| named.sample(&[("device", "")], of(usage)).at(usage.measured_at))
    };
    let help = "Number of bytes that are consumed by the container on this filesystem.";
    text.family("container_fs_usage_bytes", "gauge", help, disk(|usage| usage.disk));
    let started = all.iter().filter_map(|(named, _, at)| Some(named.sample(&[], at.as_ref()?.as_second())));
    let help = "Start time of the container since unix epoch in seconds.";
    text.family("container_start_time_seconds", "gauge", help, started);
    for (name, help, of) in network_families() {
        let values = network.iter().map(|usage| {
            let named = Named { namespace: &usage.pod.namespace, pod: &usage.pod.name, id: &usage.pod.uid, ..NODE };
            named.sample(&[("interface", &usage.interface)], of(usage))
        });
        text.family(name, "counter", help, values);
    }
    if let Some(cores) = cores {
        text.gauge("machine_cpu_cores", "Number of logical CPU cores.", cores);
    }
    if let Some(machine) = &measured.machine {
        text.gauge("machine_memory_bytes", "Amount of memory installed on the machine.", machine.memory_total);
    }
    text.gauge("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", 0);
    text.into_text()
}

type OfInterface = (&'static str, &'static str, fn(&NetworkUsage) -> u64);

fn network_families() -> [OfInterface; 4] {
    [
        ("container_network_receive_bytes_total", "Cumulative count of bytes received", |usage| usage.received_bytes),
        ("container_network_receive_errors_total", "Cumulative count of errors encountered while receiving", |usage| {
            usage.received_errors
        }),
        ("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", |usage| usage.sent_bytes),
        (
            "container_network_transmit_errors_total",
            "Cumulative count of errors encountered while transmitting",
            |usage| usage.sent_errors,
        ),
    ]
}

fn probes(counts: &[ProbeCount]) -> String {
    let samples = counts.iter().map(|counted| {
        let kind = match counted.kind {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        };
        let labels = [
            ("container", counted.container.as_str()),
            ("namespace", &counted.namespace),
            ("pod", &counted.pod),
            ("pod_uid", &counted.uid),
            ("probe_type", kind),
            ("result", if counted.healthy { "successful" } else { "failed" }),
        ];
        Sample::new(&labels, counted.count)
    });
    let help = "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
    let mut text = Exposition::default();
    text.family("prober_probe_total", "counter", help, samples);
    text.into_text()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use pintle_container::{ContainerId, PodRef, SandboxId, Usage};

    use super::*;
    use crate::serve::usage::{Machine, Processor};

    #[test]
    fn a_dashboard_finds_each_container_by_pod_name_and_image() {
        let at = Timestamp::from_second(100).unwrap();
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: "u".into() };
        let (id, image) = (ContainerId("c1".into()), "nginx:1".to_owned());
        let usage = Usage {
            id: id.clone(),
            pod: pod.clone(),
            name: "main".into(),
            measured_at: at,
            cpu_nanoseconds: 2_500_000_000,
            memory_working_set: 10,
            memory_usage: 20,
            memory_rss: 5,
            disk: 7,
            inodes: 1,
        };
        let processor = Processor { at, nanoseconds: 9_000_000_000, rate: None };
        let machine = Machine { at, processor, memory_total: 1000, memory_available: 400 };
        let measured =
            Measured { containers: BTreeMap::from([(id.clone(), (usage, processor))]), machine: Some(machine) };
        let run = Container {
            id,
            sandbox: SandboxId("s".into()),
            pod: pod.clone(),
            name: "main".into(),
            attempt: 0,
            image,
            image_id: String::new(),
            created_at: at,
            state: State::Running { started_at: at },
            asked_image: None,
            stopping: false,
        };
        let network = NetworkUsage {
            pod,
            interface: "eth0".into(),
            received_bytes: 11,
            received_errors: 0,
            sent_bytes: 12,
            sent_errors: 0,
        };
        let text = cadvisor(&measured, &[run], &[network], Some(2));
        let of = "container=\"main\",id=\"c1\",image=\"nginx:1\",name=\"c1\",namespace=\"shop\",pod=\"web\"";
        for line in [
            format!("container_cpu_usage_seconds_total{{{of},cpu=\"total\"}} 2.500000000 100000\n"),
            format!("container_memory_working_set_bytes{{{of}}} 10 100000\n"),
            format!("container_memory_usage_bytes{{{of}}} 20 100000\n"),
            format!("container_fs_usage_bytes{{{of},device=\"\"}} 7 100000\n"),
            format!("container_start_time_seconds{{{of}}} 100\n"),
            "machine_cpu_cores 2\n".to_owned(),
            "machine_memory_bytes 1000\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        let received = text.lines().find(|line| line.starts_with("container_network_receive_bytes_total{")).unwrap();
        assert!(received.contains("interface=\"eth0\"") && received.contains("pod=\"web\""), "{received}");
    }
}
