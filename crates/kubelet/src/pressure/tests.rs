//! What a user would lose if a node that runs out of something did the wrong thing: signals are scripted, time is virtual.

use pintle_container::Simulated;
use serde_json::json;

use super::signals::Observation;
use super::usage::{ContainerUse, Room};
use super::*;
use crate::machine::scripted::Server;

/// A node whose signals and Pods are what the test says. Clones are the same.
#[derive(Clone, Default)]
struct Stage(Arc<Mutex<Scene>>);

#[derive(Default)]
struct Scene {
    memory: u64,
    pods: Vec<(Arc<Pod>, PodUse)>,
    evicted: Vec<(String, Evicted)>,
    /// What each eviction gives back, and whether evicted Pods end.
    gives_back: u64,
    stuck: bool,
}

impl Stage {
    fn with<R>(&self, act: impl FnOnce(&mut Scene) -> R) -> R {
        act(&mut self.0.lock().unwrap())
    }

    fn add(&self, name: &str, spec: serde_json::Value, memory: u64, written: u64) {
        let metadata = json!({"name": name, "namespace": "shop", "uid": name});
        let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let layer = Room { bytes: written, inodes: 1 };
        let container = ContainerUse { memory, layer, ..ContainerUse::default() };
        let used = PodUse { containers: [("c".to_owned(), container)].into(), ..PodUse::default() };
        self.with(|scene| scene.pods.push((Arc::new(pod), used)));
    }

    fn names(&self) -> Vec<String> {
        self.with(|scene| scene.evicted.iter().map(|(name, _)| name.clone()).collect())
    }

    /// Starts to watch; call it inside a runtime whose time is paused.
    fn watch(&self, settings: Eviction) -> Arc<Pressure> {
        let context = Server::default().context();
        let runtime = Simulated::new(context.clock.clone()).node("n", 0);
        let recorder = context.recorder("kubelet");
        let (clock, settings_of_disk) = (context.clock.clone(), crate::Collection::default());
        let collector = Collector::new("n".into(), runtime.clone(), recorder.clone(), clock.clone(), settings_of_disk);
        let pressure = Arc::new(Pressure::default());
        let watch = Watch {
            node: "n".to_owned(),
            settings,
            senses: Arc::new(self.clone()),
            tenants: self.clone(),
            runtime,
            collector: Arc::new(collector),
            pressure: pressure.clone(),
            recorder,
            clock,
        };
        tokio::spawn(watch.run());
        pressure
    }
}

impl Senses for Stage {
    fn signals(&self, _: Option<&Path>) -> Observations {
        let memory = Observation { available: self.with(|scene| scene.memory), capacity: 1000 };
        [(Signal::MemoryAvailable, memory)].into()
    }

    fn images_apart(&self, _: Option<&Path>) -> bool {
        false
    }

    fn measure(&self, pod: &Pod, _: &[Usage], _: bool) -> Option<PodUse> {
        self.with(|scene| {
            let found = scene.pods.iter().find(|(own, _)| own.metadata.uid == pod.metadata.uid);
            found.map(|(_, used)| used.clone())
        })
    }
}

impl Tenants for Stage {
    fn active(&self) -> Vec<Arc<Pod>> {
        let gone = self.names();
        self.with(|scene| {
            let all = scene.pods.iter().map(|(pod, _)| pod.clone());
            all.filter(|pod| !gone.contains(&uid(pod))).collect()
        })
    }

    fn living(&self) -> BTreeSet<String> {
        self.active().iter().map(|pod| uid(pod)).collect()
    }

    fn evict(&self, pod: &Pod, evicted: Evicted) {
        self.with(|scene| {
            scene.evicted.push((uid(pod), evicted));
            scene.memory += scene.gives_back;
        });
    }

    fn is_finished(&self, _: &Pod) -> bool {
        !self.with(|scene| scene.stuck)
    }
}

fn spec(priority: i32) -> serde_json::Value {
    json!({"priority": priority, "terminationGracePeriodSeconds": 7, "containers": [{"name": "c"}]})
}

/// Lets so many seconds pass, one after the other, so that everything that is due in between is done.
async fn pass(seconds: u64) {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_as_many_pods_go_as_must_and_the_critical_one_stays() {
    let stage = Stage::default();
    stage.with(|scene| (scene.memory, scene.gives_back) = (500, 30));
    stage.add("small", spec(0), 10, 0);
    stage.add("large", spec(0), 900, 0);
    stage.add("middle", spec(0), 90, 0);
    stage.add("system", spec(2_000_000_000), 9999, 0);
    let pressure = stage.watch(Eviction::parse("memory.available<100", "", "", "").unwrap());
    pass(30).await;
    assert_eq!((stage.names(), pressure.conditions()), (vec![], BTreeSet::new()));
    stage.with(|scene| scene.memory = 50);
    pass(15).await;
    assert_eq!(stage.names(), ["large", "middle"], "the third is not needed any more");
    assert_eq!(pressure.conditions(), [Condition::Memory].into());
    let first = stage.with(|scene| scene.evicted[0].1.clone());
    assert_eq!((first.grace, first.disrupts.is_some()), (Duration::from_secs(1), true));
    assert!(
        first.message.starts_with("The node was low on resource: memory. Threshold quantity: 100, available: 50. ")
    );
    pass(310).await;
    assert_eq!((stage.names().len(), pressure.conditions()), (2, BTreeSet::new()));
    stage.with(|scene| (scene.memory, scene.gives_back) = (0, 0));
    pass(60).await;
    assert_eq!(stage.names(), ["large", "middle", "small"], "without the critical one nothing is left to evict");
}

#[tokio::test(start_paused = true)]
async fn the_next_pod_goes_only_when_the_one_before_had_its_time_to_end() {
    let stage = Stage::default();
    stage.with(|scene| scene.stuck = true);
    stage.add("first", spec(0), 2, 0);
    stage.add("second", spec(0), 1, 0);
    stage.watch(Eviction::parse("memory.available<100", "", "", "").unwrap());
    pass(25).await;
    assert_eq!(stage.names(), ["first"]);
    pass(10).await;
    assert_eq!(stage.names(), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_leaves_pods_the_grace_that_both_allow() {
    let settings = Eviction::parse("", "memory.available<100", "memory.available=1m", "").unwrap();
    for (most, expected) in [(5, 5), (60, 7), (0, 0)] {
        let stage = Stage::default();
        stage.add("web", spec(0), 2, 0);
        stage.watch(Eviction { max_pod_grace: most, ..settings.clone() });
        pass(55).await;
        assert_eq!(stage.names(), [""; 0], "the threshold is not met for long enough");
        pass(20).await;
        assert_eq!(
            stage.with(|scene| scene.evicted[0].1.grace),
            Duration::from_secs(expected),
            "at most {most} seconds"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_writes_too_much_goes_although_the_node_lacks_nothing() {
    let stage = Stage::default();
    stage.with(|scene| scene.memory = 1000);
    let limited =
        |limit: &str| json!({"containers": [{"name": "c", "resources": {"limits": {"ephemeral-storage": limit}}}]});
    stage.add("within", limited("1Ki"), 0, 1024);
    stage.add("beyond", limited("1Ki"), 0, 1025);
    stage.add("unbounded", spec(0), 0, 1 << 40);
    let pressure = stage.watch(Eviction::parse("memory.available<100", "", "", "").unwrap());
    pass(30).await;
    assert_eq!((stage.names(), pressure.conditions()), (vec!["beyond".to_owned()], BTreeSet::new()));
    let evicted = stage.with(|scene| scene.evicted[0].1.clone());
    assert_eq!(evicted.message, "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. ");
    assert!(evicted.disrupts.is_none(), "it was its own doing");
}

#[test]
fn a_condition_that_came_and_went_is_told_once_each() {
    let pressure = Pressure::default();
    let disk = BTreeSet::from([Condition::Disk]);
    assert_eq!(pressure.set(&disk), [(Condition::Disk, true)]);
    assert_eq!(pressure.set(&disk), []);
    assert_eq!(pressure.set(&BTreeSet::new()), [(Condition::Disk, false)]);
}
