//! A loop must survive what its reconciler does.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::reflector::Delta;
use crate::shutdown::Shutdown;
use crate::testing::scripted;
use crate::trace::{self, Span, Spans, TraceParent};
use crate::{Clock, Random};

struct Stumbling(Mutex<u32>, tokio::sync::mpsc::Sender<String>);

impl Reconciler for Stumbling {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let attempt = {
            let mut attempts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *attempts += 1;
            *attempts
        };
        match attempt {
            1 => panic!("stumbled"),
            2 => Err(Error::Invalid("not yet".into())),
            _ => {
                self.1.send(key.to_string()).await.unwrap();
                Ok(Action::done())
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_an_error_cost_a_retry_and_a_shutdown_ends_the_loop() {
    let client = scripted(|_, _, _| (404, serde_json::json!({"code": 404, "message": "", "reason": "NotFound"})));
    let (trigger, shutdown) = Shutdown::new();
    let context = Context::new(client, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), Random::seeded(1), shutdown);
    let maps = Informer::<ConfigMap>::detached();
    let (sender, mut done) = tokio::sync::mpsc::channel(1);
    let controller = Controller::new("stumbling", &context).watch(&maps, |change| vec![change.key()]);
    let running = tokio::spawn(controller.run(Stumbling(Mutex::new(0), sender)));
    tokio::task::yield_now().await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".into());
    maps.take(Delta::replaced(vec![map]));
    assert_eq!(done.recv().await.as_deref(), Some("a"));
    trigger.fire();
    running.await.unwrap();
}

/// Never ends with one of its keys.
struct Hanging(tokio::sync::mpsc::Sender<String>);

impl Reconciler for Hanging {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        if key.name().starts_with("hangs") {
            std::future::pending::<()>().await;
        }
        self.0.send(key.to_string()).await.unwrap();
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_hangs_holds_up_no_other() {
    let client = scripted(|_, _, _| (404, serde_json::json!({"code": 404, "message": "", "reason": "NotFound"})));
    let (trigger, shutdown) = Shutdown::new();
    let context = Context::new(client, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), Random::seeded(1), shutdown);
    let maps = Informer::<ConfigMap>::detached();
    let (sender, mut done) = tokio::sync::mpsc::channel(1);
    let controller = Controller::new("hanging", &context).watch(&maps, |change| vec![change.key()]);
    let controller = controller.workers(2).overtaken_after(Duration::from_millis(100));
    let running = tokio::spawn(controller.run(Hanging(sender)));
    tokio::task::yield_now().await;
    let named = |name: String| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name);
        map
    };
    let hanging = (0..50).map(|index| named(format!("hangs-{index:02}")));
    maps.take(Delta::replaced(hanging.chain([named("well".into())]).collect()));
    let first = tokio::time::timeout(Duration::from_secs(10), done.recv()).await;
    assert_eq!(first.unwrap().as_deref(), Some("well"));
    trigger.fire();
    running.await.unwrap();
}

/// Fails for good with one key, takes too long with another at first.
struct Difficult(Mutex<Vec<String>>);

impl Reconciler for Difficult {
    async fn reconcile(&self, key: &Key, attempt: &Attempt) -> Result<Action, Error> {
        self.0.lock().unwrap().push(format!("{} {}", key.name(), attempt.number));
        match key.name() {
            "wrong" => Err(Error::terminal("it cannot be meant")),
            _ if attempt.number == 1 => std::future::pending().await,
            _ => Ok(Action::done()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_tried_again_and_a_reconcile_that_hangs_is() {
    let client = scripted(|_, _, _| (404, serde_json::json!({"code": 404, "message": "", "reason": "NotFound"})));
    let (trigger, shutdown) = Shutdown::new();
    let context = Context::new(client, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), Random::seeded(1), shutdown);
    let maps = Informer::<ConfigMap>::detached();
    let difficult = Arc::new(Difficult(Mutex::default()));
    let controller = Controller::new("difficult", &context).watch(&maps, |change| vec![change.key()]);
    let running = tokio::spawn(controller.timeout(Duration::from_secs(5)).run_erased(difficult.clone()));
    tokio::task::yield_now().await;
    let named = |name: &str| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.into());
        map
    };
    maps.take(Delta::replaced(vec![named("slow"), named("wrong")]));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(*difficult.0.lock().unwrap(), ["slow 1", "wrong 1", "slow 2"]);
    trigger.fire();
    running.await.unwrap();
}

/// Creates a child for each map that is not one, by a plan.
fn child_of(maps: &Informer<ConfigMap>, key: &Key) -> Plan {
    let Some(parent) = maps.get(key).filter(|map| map.data.is_none()) else { return Plan::default() };
    let mut child = ConfigMap { data: Some(Default::default()), ..ConfigMap::default() };
    child.metadata.name = Some(format!("{}-child", key.name()));
    child.metadata.namespace = Some("shop".into());
    Plan::of(vec![crate::Write::create(&child)]).about(parent.as_ref())
}

struct Kept(Mutex<Vec<Span>>);

impl Spans for Kept {
    fn ended(&self, span: Span) {
        self.0.lock().unwrap().push(span);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_loop_makes_of_a_traced_object_belongs_to_its_trace() {
    let created: Arc<Mutex<Vec<serde_json::Value>>> = Arc::default();
    let seen = created.clone();
    let client = scripted(move |method, _, body| {
        assert_eq!(method, "POST");
        seen.lock().unwrap().push(body.clone());
        (201, body)
    });
    let (trigger, shutdown) = Shutdown::new();
    let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    let spans = Arc::new(Kept(Mutex::default()));
    let context = Context::new(client, clock, Random::seeded(1), shutdown).export_to(spans.clone());
    let maps = Informer::<ConfigMap>::detached();
    let controller = Controller::new("copier", &context).watch(&maps, |change| vec![change.key()]);
    let view = maps.clone();
    let running =
        tokio::spawn(controller.run_plans(Executor::new(&context, "copier"), move |key| child_of(&view, key)));
    tokio::task::yield_now().await;
    let parent = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some("web".into()), Some("shop".into()));
    trace::annotate(&mut map.metadata, parent);
    maps.take(Delta::replaced(vec![map]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let child = created.lock().unwrap().remove(0);
    let carried = child["metadata"]["annotations"]["tracing.k8s.io/traceparent"].as_str().and_then(TraceParent::parse);
    let spans = std::mem::take(&mut *spans.0.lock().unwrap());
    assert_eq!(carried.unwrap().trace_id(), parent.trace_id());
    assert_eq!((spans[0].parent, Some(spans[0].trace)), (Some(parent), carried), "the next loop continues this span");
    trigger.fire();
    running.await.unwrap();
}

/// Notes the keys, and fails at first.
struct Noting(Mutex<Vec<String>>);

impl Reconciler for Noting {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        self.0.lock().unwrap().push(key.to_string());
        if key.name() == "fails" { Err(Error::Outside("the cloud is away".into())) } else { Ok(Action::done()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_only_at_run_time_is_reconciled_and_wakes_its_owners() {
    use serde_json::json;
    let client = scripted(|_, path, _| match path.contains("watch=") {
        true => (200, json!([])),
        false => (
            200,
            json!({"metadata": {"resourceVersion": "1"}, "items": [{"apiVersion": "example.com/v1",
            "kind": "Tenant", "metadata": {"name": "fails", "resourceVersion": "1"}}]}),
        ),
    });
    let (trigger, shutdown) = Shutdown::new();
    let context = Context::new(client, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), Random::seeded(1), shutdown);
    let tenants = kube::api::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("example.com", "v1", "Tenant"));
    let (owners, children) = (context.informers.dynamic(&tenants), Informer::<ConfigMap>::detached());
    let noting = Arc::new(Noting(Mutex::default()));
    let controller = Controller::new("tenant", &context)
        .owns_in(&children, when::anything)
        .for_each_in(&owners, when::anything)
        .on_error(|_, _| OnError::Leave);
    children.take(Delta::replaced(Vec::<ConfigMap>::new()));
    let running = tokio::spawn(controller.run_erased(noting.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*noting.0.lock().unwrap(), ["fails"], "it was told not to try again");
    let child = json!({"metadata": {"name": "c", "namespace": "shop", "ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Tenant", "name": "fails", "uid": "u", "controller": true}]}});
    children.take(Delta::replaced(vec![serde_json::from_value::<ConfigMap>(child).unwrap()]));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*noting.0.lock().unwrap(), ["fails", "fails"], "an owner in no namespace is woken by a child in one");
    trigger.fire();
    running.await.unwrap();
}

/// Holds every key for a second, and counts how many it held at once.
#[derive(Default)]
struct Counting {
    held: Mutex<usize>,
    most: Mutex<usize>,
}

impl Reconciler for Counting {
    async fn reconcile(&self, _: &Key, _: &Attempt) -> Result<Action, Error> {
        let held = {
            let mut held = self.held.lock().unwrap();
            *held += 1;
            *held
        };
        {
            let mut most = self.most.lock().unwrap();
            *most = held.max(*most);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        *self.held.lock().unwrap() -= 1;
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_works_on_as_many_keys_at_once_as_the_operator_says() {
    for (told, most) in [(None, 2), (Some(5), 5), (Some(1), 1)] {
        let client = scripted(|_, _, _| (404, serde_json::json!({"code": 404, "message": "", "reason": "NotFound"})));
        let (trigger, shutdown) = Shutdown::new();
        let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
        let context = Context::new(client, clock, Random::seeded(1), shutdown);
        let context = told.map_or(context.clone(), |workers| context.with_workers(workers));
        let (_stop, context) = context.named("counting");
        let maps = Informer::<ConfigMap>::detached();
        let counting = Arc::new(Counting::default());
        let controller = Controller::new("counting", &context).watch(&maps, |change| vec![change.key()]).workers(2);
        let running = tokio::spawn(controller.run_erased(counting.clone()));
        tokio::task::yield_now().await;
        let named = |index: usize| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(format!("m{index}"));
            map
        };
        maps.take(Delta::replaced((0..10).map(named).collect()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*counting.most.lock().unwrap(), most, "{told:?}");
        trigger.fire();
        running.await.unwrap();
    }
}
