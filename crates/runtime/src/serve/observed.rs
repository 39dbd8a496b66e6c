//! What is looked at when somebody asks for metrics: queues and informers, under client-go's names where it has them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::board::Board;
use crate::informer::Watching;
use crate::queue::{self, Durations, Histogram};

#[derive(Default)]
pub(super) struct Observed {
    boards: Mutex<Vec<Board>>,
    informers: Mutex<BTreeMap<String, Size>>,
    watching: Mutex<Vec<Watching>>,
}

pub(super) type Size = Box<dyn Fn() -> (usize, usize) + Send + Sync>;

impl Observed {
    pub(super) fn board(&self, board: &Board) {
        lock(&self.boards).push(board.clone());
    }

    pub(super) fn informer(&self, kind: &str, size: Size) {
        lock(&self.informers).insert(kind.to_owned(), size);
    }

    pub(super) fn watch(&self, informers: Watching) {
        lock(&self.watching).push(informers);
    }

    /// What the loops of each name have to do; a name may stand on several boards.
    fn queues(&self) -> BTreeMap<String, (queue::Metrics, Durations)> {
        let mut queues: BTreeMap<String, (queue::Metrics, Durations)> = BTreeMap::new();
        let boards = lock(&self.boards);
        let loops = boards.iter().flat_map(|board| board.loops().into_iter().zip(board.durations()));
        for ((name, counted), took) in loops {
            let (all, durations) = queues.entry(name).or_default();
            all.depth += counted.depth;
            all.delayed += counted.delayed;
            all.working += counted.working;
            all.adds += counted.adds;
            all.retries += counted.retries;
            all.oldest_wait = all.oldest_wait.max(counted.oldest_wait);
            all.longest_work = all.longest_work.max(counted.longest_work);
            all.unfinished_work += counted.unfinished_work;
            durations.add(&took);
        }
        queues
    }

    fn encode_queues(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let queues = self.queues();
        type Read = fn(&queue::Metrics) -> usize;
        let gauges: [(&str, &str, Read); 3] = [
            ("workqueue_depth", "Keys ready to be worked on", |queue| queue.depth),
            ("workqueue_delayed", "Keys that wait for their time", |queue| queue.delayed),
            ("workqueue_active", "Keys being worked on", |queue| queue.working),
        ];
        for (name, help, read) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (queue, (counted, _)) in &queues {
                let value = i64::try_from(read(counted)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&of_queue(queue))?)?;
            }
        }
        type Count = fn(&queue::Metrics) -> u64;
        let counters: [(&str, &str, Count); 2] = [
            ("workqueue_adds", "Keys that were added", |queue| queue.adds),
            ("workqueue_retries", "Keys that were tried again", |queue| queue.retries),
        ];
        for (name, help, read) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (queue, (counted, _)) in &queues {
                ConstCounter::new(read(counted)).encode(family.encode_family(&of_queue(queue))?)?;
            }
        }
        type Wait = fn(&queue::Metrics) -> Duration;
        let waits: [(&str, &str, Wait); 3] = [
            ("workqueue_oldest_wait_seconds", "How long the first key has waited for a worker", |queue| {
                queue.oldest_wait
            }),
            (
                "workqueue_longest_running_processor_seconds",
                "How long the longest reconcile has been running",
                |queue| queue.longest_work,
            ),
            ("workqueue_unfinished_work_seconds", "How long all running reconciles have been running", |queue| {
                queue.unfinished_work
            }),
        ];
        for (name, help, read) in waits {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (queue, (counted, _)) in &queues {
                let seconds = read(counted).as_secs_f64();
                ConstGauge::new(seconds).encode(family.encode_family(&of_queue(queue))?)?;
            }
        }
        type Took = fn(&Durations) -> Histogram;
        let took: [(&str, &str, Took); 2] = [
            ("workqueue_queue_duration_seconds", "How long keys waited for a worker", |durations| durations.wait),
            ("workqueue_work_duration_seconds", "How long the work on keys took", |durations| durations.work),
        ];
        for (name, help, read) in took {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (queue, (_, durations)) in &queues {
                Counted(read(durations)).encode(family.encode_family(&of_queue(queue))?)?;
            }
        }
        Ok(())
    }

    fn encode_informers(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut unreadable: BTreeMap<String, usize> = BTreeMap::new();
        lock(&self.watching).retain(|informers| {
            let Some(all) = informers.all() else { return false };
            all.into_iter().for_each(|view| *unreadable.entry(view.path).or_default() += view.unreadable);
            true
        });
        let mut family = encoder.encode_descriptor(
            "pintle_informer_unreadable_objects",
            "Objects that cannot be decoded and are skipped",
            None,
            MetricType::Gauge,
        )?;
        for (path, count) in &unreadable {
            let value = i64::try_from(*count).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&[("path", path.as_str())])?)?;
        }
        let sizes: Vec<(String, (usize, usize))> =
            lock(&self.informers).iter().map(|(kind, size)| (kind.clone(), size())).collect();
        for (name, help, bytes) in [
            ("pintle_informer_objects", "Objects that an informer holds", false),
            ("pintle_informer_bytes", "Bytes of the objects that an informer holds", true),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (kind, size) in &sizes {
                let value = i64::try_from(if bytes { size.1 } else { size.0 }).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&[("kind", kind.as_str())])?)?;
            }
        }
        Ok(())
    }
}

impl Collector for Observed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.encode_queues(&mut encoder)?;
        self.encode_informers(&mut encoder)
    }
}

/// Durations that a queue has counted, as they are shown.
struct Counted(Histogram);

impl EncodeMetric for Counted {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let mut below = 0;
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        for (bound, count) in self.0.cumulative() {
            buckets.push((bound.as_secs_f64(), count - below));
            below = count;
        }
        buckets.push((f64::MAX, self.0.count() - below));
        encoder.encode_histogram::<NoLabelSet>(self.0.sum().as_secs_f64(), self.0.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Both labels, as client-go and controller-runtime write them.
fn of_queue(name: &str) -> [(&'static str, &str); 2] {
    [("name", name), ("controller", name)]
}

impl fmt::Debug for Observed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Observed")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
