//! What users would lose with two leaders, or with none.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::shutdown::Trigger;
use pintle_meta::Clock;

/// One Lease on a server, and who acts at the moment.
#[derive(Default)]
struct World {
    lease: Mutex<Option<Value>>,
    version: AtomicU64,
    acting: AtomicUsize,
    most_at_once: AtomicUsize,
    /// Every leadership: who, which term, which version, and when it began.
    led: Mutex<Vec<(String, i32, u64, Instant)>>,
}

impl World {
    fn answer(&self, method: &Method, body: &Value) -> (u16, Value) {
        let failure = |code: u16, reason: &str| {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": ""});
            (code, status)
        };
        let mut lease = self.lease.lock().unwrap();
        match (method.as_str(), lease.clone()) {
            ("GET", Some(found)) => return (200, found),
            ("POST", Some(_)) => return failure(409, "AlreadyExists"),
            ("POST", None) => {}
            ("PUT", Some(found)) => {
                if found["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return failure(409, "Conflict");
                }
            }
            _ => return failure(404, "NotFound"),
        }
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        let mut written = body.clone();
        written["metadata"]["resourceVersion"] = json!(version.to_string());
        if method == Method::POST {
            written["metadata"]["uid"] = json!(format!("uid-{version}"));
        }
        *lease = Some(written.clone());
        (200, written)
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        lease.as_ref().map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    fn leaders(&self) -> Vec<String> {
        self.led.lock().unwrap().iter().map(|(who, ..)| who.clone()).collect()
    }
}

/// One process that competes, its way to the server, and how to end it.
struct Candidate {
    cut: Arc<AtomicBool>,
    /// Seconds that answers take to arrive, cut or not; 0 for those that travel as requests do.
    late: Arc<AtomicU64>,
    stop: Trigger,
    task: JoinHandle<()>,
}

/// What a run does when it is told to stop.
#[derive(Clone, Copy)]
enum Manners {
    Obedient,
    /// Goes on for half a minute, longer than any lease.
    Deaf,
}

/// A request travels for up to `travel` milliseconds, and so does its answer.
fn start(world: &Arc<World>, name: &str, seed: u64, travel: u64, manners: Manners) -> Candidate {
    let (cut, late): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
    let random = Random::seeded(seed);
    let client = {
        let (world, cut, late, random) = (world.clone(), cut.clone(), late.clone(), random.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (world, cut, late, random) = (world.clone(), cut.clone(), late.clone(), random.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or_default();
                travel_over(&cut, &random, travel).await?;
                let (status, answer) = world.answer(&parts.method, &body);
                match late.load(Ordering::SeqCst) {
                    0 => travel_over(&cut, &random, travel).await?,
                    seconds => sleep(Duration::from_secs(seconds)).await,
                }
                let response = Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response?)
            }
        });
        Client::new(service, "default")
    };
    let (stop, shutdown) = Shutdown::new();
    // Clocks that are years apart must make no difference.
    let epoch = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(i64::try_from(seed % 100_000).unwrap());
    let context = Context::new(client, Clock::virtual_from(epoch), random, shutdown);
    let (world, name) = (world.clone(), name.to_owned());
    let task = tokio::spawn(async move {
        let config = LeaderConfig::new("web", &name);
        lead(&context, config, |leadership| act(world.clone(), name.clone(), leadership, manners)).await;
    });
    Candidate { cut, late, stop, task }
}

/// Half of what meets a cut is refused after a while, half is never heard of again.
async fn travel_over(cut: &AtomicBool, random: &Random, travel: u64) -> Result<(), std::io::Error> {
    sleep(Duration::from_millis(random.below(travel + 1))).await;
    if cut.load(Ordering::SeqCst) {
        if random.below(2) == 0 {
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(random.below(1000))).await;
        return Err(std::io::Error::other("the line is cut"));
    }
    Ok(())
}

struct Acting(Arc<World>);

impl Drop for Acting {
    fn drop(&mut self) {
        self.0.acting.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn act(world: Arc<World>, name: String, leadership: Leadership, manners: Manners) {
    let at_once = world.acting.fetch_add(1, Ordering::SeqCst) + 1;
    world.most_at_once.fetch_max(at_once, Ordering::SeqCst);
    let version = leadership.version.parse().unwrap();
    world.led.lock().unwrap().push((name, leadership.term, version, Instant::now()));
    let _acting = Acting(world);
    leadership.shutdown.fired().await;
    if let Manners::Deaf = manners {
        sleep(Duration::from_secs(30)).await;
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = timeout(Duration::from_secs(60), async {
        while !holds() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "a minute has passed, and not: {what}");
}

#[tokio::test(start_paused = true)]
async fn of_three_one_leads_and_goes_on_leading() {
    let world: Arc<World> = Arc::default();
    let _all = ["a", "b", "c"].map(|name| start(&world, name, u64::from(name.as_bytes()[0]), 50, Manners::Obedient));
    until("somebody leads", || world.acting.load(Ordering::SeqCst) == 1).await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.leaders().len(), 1, "an hour without trouble is one leadership");
    assert_eq!(world.acting.load(Ordering::SeqCst), 1);
    assert_eq!([world.holder()], world.leaders()[..]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_on_purpose_is_followed_within_one_retry() {
    let world: Arc<World> = Arc::default();
    let first = start(&world, "first", 1, 50, Manners::Obedient);
    until("the first leads", || world.acting.load(Ordering::SeqCst) == 1).await;
    let _second = start(&world, "second", 2, 50, Manners::Obedient);
    sleep(Duration::from_secs(20)).await;
    let stopped = Instant::now();
    first.stop.fire();
    first.task.await.unwrap();
    assert_eq!(world.holder(), "");
    until("the second leads", || world.leaders() == ["first", "second"]).await;
    assert!(stopped.elapsed() < Duration::from_millis(3500), "it took {:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_crashed_is_replaced_after_the_lease_and_not_before() {
    let world: Arc<World> = Arc::default();
    let first = start(&world, "first", 1, 50, Manners::Obedient);
    until("the first leads", || world.acting.load(Ordering::SeqCst) == 1).await;
    let _second = start(&world, "second", 2, 50, Manners::Obedient);
    sleep(Duration::from_secs(20)).await;
    let crashed = Instant::now();
    first.task.abort();
    until("the second leads", || world.leaders() == ["first", "second"]).await;
    // Its last renewal was up to three seconds old; the second looks at most three seconds after the expiry.
    let took = crashed.elapsed().as_secs_f64();
    assert!((11.0..19.0).contains(&took), "it took {took} s");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_has_stopped_before_another_starts_even_if_it_does_not_listen() {
    for manners in [Manners::Obedient, Manners::Deaf] {
        let world: Arc<World> = Arc::default();
        let first = start(&world, "first", 1, 50, manners);
        until("the first leads", || world.acting.load(Ordering::SeqCst) == 1).await;
        let _second = start(&world, "second", 2, 50, manners);
        sleep(Duration::from_secs(20)).await;
        first.cut.store(true, Ordering::SeqCst);
        until("the first has stopped", || world.acting.load(Ordering::SeqCst) == 0).await;
        until("the second leads", || world.leaders() == ["first", "second"]).await;
        first.cut.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(world.most_at_once.load(Ordering::SeqCst), 1);
        assert_eq!(world.leaders(), ["first", "second"], "who comes back waits");
    }
}

#[tokio::test(start_paused = true)]
async fn who_hears_too_late_that_it_won_does_not_act() {
    let world: Arc<World> = Arc::default();
    let first = start(&world, "first", 1, 50, Manners::Obedient);
    // Both answers, to the question and to the write, come: together too late.
    first.late.store(9, Ordering::SeqCst);
    until("the first has the Lease", || world.holder() == "first").await;
    first.cut.store(true, Ordering::SeqCst);
    let _second = start(&world, "second", 2, 50, Manners::Obedient);
    until("the second leads", || world.acting.load(Ordering::SeqCst) == 1).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.most_at_once.load(Ordering::SeqCst), 1);
    assert_eq!(world.leaders(), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_or_a_touched_lease_costs_no_leadership() {
    let world: Arc<World> = Arc::default();
    let first = start(&world, "first", 1, 50, Manners::Obedient);
    until("the first leads", || world.acting.load(Ordering::SeqCst) == 1).await;
    for touch in 0..20 {
        if let Some(lease) = world.lease.lock().unwrap().as_mut() {
            let version = world.version.fetch_add(1, Ordering::SeqCst) + 1;
            lease["metadata"]["annotations"] = json!({"touched": touch.to_string()});
            lease["metadata"]["resourceVersion"] = json!(version.to_string());
        }
        sleep(Duration::from_secs(7)).await;
        first.cut.store(true, Ordering::SeqCst);
        sleep(Duration::from_millis(100)).await;
        first.cut.store(false, Ordering::SeqCst);
    }
    assert_eq!(world.leaders().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_or_takes_ends_the_run_at_once() {
    let world: Arc<World> = Arc::default();
    let _first = start(&world, "first", 1, 50, Manners::Deaf);
    until("the first leads", || world.acting.load(Ordering::SeqCst) == 1).await;
    *world.lease.lock().unwrap() = None;
    until("it leads again, with a Lease of its own", || world.leaders().len() == 2).await;
    if let Some(lease) = world.lease.lock().unwrap().as_mut() {
        let version = world.version.fetch_add(1, Ordering::SeqCst) + 1;
        lease["spec"]["holderIdentity"] = json!("somebody");
        lease["metadata"]["resourceVersion"] = json!(version.to_string());
    }
    let taken = Instant::now();
    until("the run has ended", || world.acting.load(Ordering::SeqCst) == 0).await;
    assert!(taken.elapsed() < Duration::from_millis(3500), "it took {:?}", taken.elapsed());
    assert_eq!(world.most_at_once.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_is_started_again() {
    let world: Arc<World> = Arc::default();
    let random = Random::seeded(1);
    let service = {
        let world = world.clone();
        tower::service_fn(move |request: Request<Body>| {
            let world = world.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
                let (status, answer) = world.answer(&parts.method, &body);
                let response = Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response?)
            }
        })
    };
    let (stop, shutdown) = Shutdown::new();
    let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
    let context = Context::new(Client::new(service, "default"), clock, random, shutdown);
    let terms = Mutex::new(Vec::new());
    lead(&context, LeaderConfig::new("web", "first"), |leadership| {
        terms.lock().unwrap().push(leadership.term);
        assert!(leadership.term > 0, "the first run fails");
        stop.fire();
        async {}
    })
    .await;
    assert_eq!(*terms.lock().unwrap(), [0, 1]);
}

/// Three processes for five minutes: lines are cut and mended, processes crash and come back, stop and come back.
async fn troubled(seed: u64) -> Arc<World> {
    let world: Arc<World> = Arc::default();
    let random = Random::seeded(seed);
    let travel = [20, 400, 4000][usize::try_from(random.below(3)).unwrap()];
    let begin = |number: u64, random: &Random| {
        let manners = if random.below(2) == 0 { Manners::Obedient } else { Manners::Deaf };
        start(&world, &format!("process-{number}"), random.next(), travel, manners)
    };
    let mut started = 3;
    let mut all: Vec<Candidate> = (0..started).map(|number| begin(number, &random)).collect();
    let ends = Instant::now() + Duration::from_secs(300);
    while Instant::now() < ends {
        sleep(Duration::from_millis(random.below(12_000))).await;
        let one = usize::try_from(random.below(3)).unwrap();
        match random.below(4) {
            0 | 1 => {
                all[one].cut.fetch_xor(true, Ordering::SeqCst);
            }
            2 => {
                all[one].task.abort();
                all[one] = begin(started, &random);
                started += 1;
            }
            _ => {
                // Dropping it tells it to stop; one that does not listen ends half a minute later.
                all[one] = begin(started, &random);
                started += 1;
            }
        }
    }
    for candidate in &all {
        candidate.cut.store(false, Ordering::SeqCst);
    }
    until("somebody leads again", || world.acting.load(Ordering::SeqCst) > 0).await;
    world
}

#[test]
fn whatever_happens_to_processes_and_lines_there_are_never_two_leaders() {
    let mut leaderships = 0;
    for seed in 0..100 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let world = runtime.block_on(troubled(seed));
        assert_eq!(world.most_at_once.load(Ordering::SeqCst), 1, "seed {seed}: {:?}", world.led.lock().unwrap());
        let led = world.led.lock().unwrap();
        for pair in led.windows(2) {
            let ((_, term, version, _), (_, next_term, next_version, _)) = (&pair[0], &pair[1]);
            assert!(next_term > term && next_version > version, "seed {seed}: a token is not greater than the last");
        }
        leaderships += led.len();
    }
    assert!(leaderships > 500, "only {leaderships} leaderships: nothing was tested");
}
