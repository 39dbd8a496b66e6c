//! `/stats/summary` and `/metrics/resource`: what the node and its containers use, for `kubectl top` and for Prometheus.

use std::collections::BTreeMap;

use pintle_container::{Container, PodRef, Usage};
use pintle_meta::clock::rfc3339;
use serde_json::{Value, json};

use super::exposition::{Exposition, Sample, seconds};
use super::find::failed;
use super::usage::{Measured, Processor};
use super::{Failure, Serving};
use crate::pods::Home;

type Pods<'a> = BTreeMap<&'a PodRef, Vec<&'a (Usage, Processor)>>;

impl Serving {
    pub(super) async fn summary(&self, home: &Home) -> Result<Value, Failure> {
        Ok(summary(&home.name, &self.measure(home).await?))
    }

    pub(super) async fn resource_metrics(&self, home: &Home) -> Result<String, Failure> {
        let known = home.runtime.list_containers(None).await.map_err(failed)?;
        Ok(metrics(&self.measure(home).await?, &known))
    }

    pub(super) async fn measure(&self, home: &Home) -> Result<Measured, Failure> {
        let machine = home.machine.is_some();
        home.meter.measure(home.runtime.as_ref(), self.pods.clock(), machine).await.map_err(failed)
    }
}

fn by_pod(measured: &Measured) -> Pods<'_> {
    let mut pods = Pods::new();
    for entry in measured.containers.values() {
        pods.entry(&entry.0.pod).or_default().push(entry);
    }
    for containers in pods.values_mut() {
        containers.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    }
    pods
}

fn summary(node: &str, measured: &Measured) -> Value {
    let mut about = json!({"nodeName": node});
    if let Some(machine) = &measured.machine {
        let time = rfc3339(machine.at);
        about["cpu"] = cpu(&time, machine.processor.rate, machine.processor.nanoseconds);
        let used = machine.memory_total.saturating_sub(machine.memory_available);
        about["memory"] = json!({"time": time, "availableBytes": machine.memory_available, "usageBytes": used,
            "workingSetBytes": used});
    }
    let pods: Vec<Value> =
        by_pod(measured).into_iter().map(|(pod, containers)| pod_summary(pod, &containers)).collect();
    json!({"node": about, "pods": pods})
}

fn pod_summary(pod: &PodRef, containers: &[&(Usage, Processor)]) -> Value {
    let time = containers.iter().map(|(usage, _)| usage.measured_at).max().map(rfc3339).unwrap_or_default();
    let sum = |of: fn(&Usage) -> u64| containers.iter().map(|(usage, _)| of(usage)).sum::<u64>();
    let rates: Option<Vec<u64>> = containers.iter().map(|(_, processor)| processor.rate).collect();
    let each = containers.iter().map(|(usage, processor)| {
        let time = rfc3339(usage.measured_at);
        json!({
            "name": usage.name,
            "cpu": cpu(&time, processor.rate, usage.cpu_nanoseconds),
            "memory": memory(&time, usage.memory_usage, usage.memory_working_set, usage.memory_rss),
            "rootfs": {"time": time, "usedBytes": usage.disk, "inodesUsed": usage.inodes},
        })
    });
    json!({
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "containers": each.collect::<Vec<Value>>(),
        "cpu": cpu(&time, rates.map(|rates| rates.iter().sum()), sum(|usage| usage.cpu_nanoseconds)),
        "memory": memory(&time, sum(|usage| usage.memory_usage), sum(|usage| usage.memory_working_set),
            sum(|usage| usage.memory_rss)),
    })
}

fn cpu(time: &str, rate: Option<u64>, nanoseconds: u64) -> Value {
    let mut cpu = json!({"time": time, "usageCoreNanoSeconds": nanoseconds});
    if let Some(rate) = rate {
        cpu["usageNanoCores"] = rate.into();
    }
    cpu
}

fn memory(time: &str, usage: u64, working_set: u64, rss: u64) -> Value {
    json!({"time": time, "usageBytes": usage, "workingSetBytes": working_set, "rssBytes": rss})
}

fn metrics(measured: &Measured, known: &[Container]) -> String {
    let mut text = Exposition::default();
    let pod = |pod: &PodRef, value: String| Sample::new(&[("namespace", &pod.namespace), ("pod", &pod.name)], value);
    let container = |usage: &Usage, value: String| {
        let PodRef { namespace, name, .. } = &usage.pod;
        Sample::new(&[("container", &usage.name), ("namespace", namespace), ("pod", name)], value)
    };
    let pods = by_pod(measured);
    let containers = || pods.values().flatten().map(|(usage, _)| usage);
    let sums = |of: fn(&Usage) -> u64| {
        let sum = move |all: &Vec<&(Usage, Processor)>| all.iter().map(|(usage, _)| of(usage)).sum::<u64>();
        let last = |all: &Vec<&(Usage, Processor)>| all.iter().map(|(usage, _)| usage.measured_at).max();
        pods.iter().map(move |(pod, all)| (*pod, sum(all), last(all).unwrap_or_default()))
    };
    let help = "[STABLE] Cumulative cpu time consumed by the container in core-seconds";
    let values = containers().map(|usage| container(usage, seconds(usage.cpu_nanoseconds)).at(usage.measured_at));
    text.family("container_cpu_usage_seconds_total", "counter", help, values);
    let help = "[STABLE] Current working set of the container in bytes";
    let values = containers().map(|usage| container(usage, usage.memory_working_set.to_string()).at(usage.measured_at));
    text.family("container_memory_working_set_bytes", "gauge", help, values);
    let help = "[STABLE] Start time of the container since unix epoch in seconds";
    let values = containers().filter_map(|usage| {
        let started_at = known.iter().find(|run| run.id == usage.id)?.started_at()?;
        Some(container(usage, started_at.as_second().to_string()))
    });
    text.family("container_start_time_seconds", "gauge", help, values);
    if let Some(machine) = &measured.machine {
        let used = machine.memory_total.saturating_sub(machine.memory_available);
        let one = |value: String| std::iter::once(Sample::new(&[], value).at(machine.at));
        let help = "[STABLE] Cumulative cpu time consumed by the node in core-seconds";
        let value = one(seconds(machine.processor.nanoseconds));
        text.family("node_cpu_usage_seconds_total", "counter", help, value);
        let help = "[STABLE] Current working set of the node in bytes";
        text.family("node_memory_working_set_bytes", "gauge", help, one(used.to_string()));
    }
    let help = "[STABLE] Cumulative cpu time consumed by the pod in core-seconds";
    let values = sums(|usage| usage.cpu_nanoseconds).map(|(of, sum, at)| pod(of, seconds(sum)).at(at));
    text.family("pod_cpu_usage_seconds_total", "counter", help, values);
    let help = "[STABLE] Current working set of the pod in bytes";
    let values = sums(|usage| usage.memory_working_set).map(|(of, sum, at)| pod(of, sum.to_string()).at(at));
    text.family("pod_memory_working_set_bytes", "gauge", help, values);
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    text.gauge("resource_scrape_error", help, 0);
    text.into_text()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pintle_container::ContainerId;

    use super::*;

    #[test]
    fn a_pod_uses_what_its_containers_use() {
        let usage = |name: &str, cpu_nanoseconds, memory| Usage {
            id: ContainerId(name.to_owned()),
            pod: PodRef { namespace: "shop".to_owned(), name: "web".to_owned(), uid: "u".to_owned() },
            name: name.to_owned(),
            measured_at: Timestamp::UNIX_EPOCH,
            cpu_nanoseconds,
            memory_working_set: memory,
            memory_usage: memory,
            memory_rss: 0,
            disk: 0,
            inodes: 0,
        };
        let all = [usage("b", 1_500_000_000, 10), usage("a", 2_000_000_000, 20)];
        let entry = |usage: Usage| (usage.id.clone(), (usage, Processor { rate: Some(7), ..Processor::default() }));
        let measured = Measured { containers: all.into_iter().map(entry).collect(), machine: None };
        let summary = summary("n", &measured);
        let pod = &summary["pods"][0];
        assert_eq!(pod["containers"][0]["name"], "a");
        assert_eq!((&pod["cpu"]["usageNanoCores"], &pod["memory"]["workingSetBytes"]), (&14.into(), &30.into()));
        let text = metrics(&measured, &[]);
        for line in [
            "container_cpu_usage_seconds_total{container=\"b\",namespace=\"shop\",pod=\"web\"} 1.500000000 0\n",
            "pod_memory_working_set_bytes{namespace=\"shop\",pod=\"web\"} 30 0\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
