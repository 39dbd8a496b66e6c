//! At which thresholds a node begins to take back what it lacks, as its operator gives them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use pintle_meta::quantity::Quantity;

use super::signals::Signal;

/// When Pods are evicted, and for how long the node says that it is under pressure.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    pub thresholds: Vec<Threshold>,
    /// For how long a condition stays after its threshold was last met.
    pub transition_period: Duration,
    /// The grace of Pods that go because of a soft threshold, in seconds; their own if it is shorter.
    pub max_pod_grace: u64,
}

/// So much of something must be left.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub signal: Signal,
    pub value: Amount,
    /// For how long it must be met before something is done; none for a hard threshold.
    pub grace: Duration,
    /// How much more than the threshold is freed once it was met.
    pub minimum_reclaim: Option<Amount>,
}

/// An amount, or a part of what there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Quantity(Quantity),
    Percent(f64),
}

/// What is wrong with a list of thresholds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictionError {
    #[error("{0:?} is not SIGNAL{1}VALUE; give the list as in memory.available{1}{2}")]
    Statement(String, char, &'static str),
    #[error("unsupported eviction signal {0}; this node knows {known}", known = Signal::names())]
    Signal(String),
    #[error("{1:?} is no amount for {0}; give a quantity such as 500Mi or a percentage such as 10%")]
    Amount(Signal, String),
    #[error("the amount for {0} must be positive: {1}")]
    NotPositive(Signal, String),
    #[error("{1:?} is no time for {0}; give one such as 1m30s")]
    Time(Signal, String),
    #[error(
        "grace period must be specified for the soft eviction threshold {0}; add it to --eviction-soft-grace-period"
    )]
    NoGrace(Signal),
}

impl Default for Eviction {
    fn default() -> Self {
        let mebibytes = |count: i64| Amount::Quantity(Quantity::from_bytes(count << 20));
        let hard = |signal, value| Threshold { signal, value, grace: Duration::ZERO, minimum_reclaim: None };
        Eviction {
            thresholds: vec![
                hard(Signal::MemoryAvailable, mebibytes(100)),
                hard(Signal::NodefsAvailable, Amount::Percent(10.0)),
                hard(Signal::NodefsInodesFree, Amount::Percent(5.0)),
                hard(Signal::ImagefsAvailable, Amount::Percent(15.0)),
                hard(Signal::ImagefsInodesFree, Amount::Percent(5.0)),
            ],
            transition_period: Duration::from_secs(300),
            max_pod_grace: 0,
        }
    }
}

impl Eviction {
    /// From lists such as `memory.available<100Mi,nodefs.available<10%` and `memory.available=1m30s`.
    pub fn parse(hard: &str, soft: &str, soft_grace: &str, minimum_reclaim: &str) -> Result<Self, EvictionError> {
        let mut thresholds = thresholds(hard)?;
        let graces = statements(soft_grace, '=', "1m30s")?;
        for mut threshold in self::thresholds(soft)? {
            let signal = threshold.signal;
            let grace = graces.get(&signal).ok_or(EvictionError::NoGrace(signal))?;
            threshold.grace = duration(grace).ok_or_else(|| EvictionError::Time(signal, grace.clone()))?;
            thresholds.push(threshold);
        }
        let reclaims = statements(minimum_reclaim, '=', "500Mi")?;
        for threshold in &mut thresholds {
            let reclaim = reclaims.get(&threshold.signal).map(|text| amount(threshold.signal, text)).transpose()?;
            threshold.minimum_reclaim = reclaim.flatten();
        }
        Ok(Eviction { thresholds, ..Eviction::default() })
    }
}

impl Eviction {
    /// What hard thresholds keep from Pods, where there is so much.
    pub(crate) fn kept(&self, capacity: &BTreeMap<String, ApiQuantity>) -> BTreeMap<String, ApiQuantity> {
        let hard = self.thresholds.iter().filter(|threshold| threshold.grace.is_zero());
        hard.filter_map(|threshold| {
            let name = match threshold.signal {
                Signal::MemoryAvailable => "memory",
                Signal::NodefsAvailable => "ephemeral-storage",
                _ => return None,
            };
            let whole = crate::make::amount(Some(capacity), name)?;
            let kept = threshold.value.of(u64::try_from(whole.units()).ok()?);
            Some((name.to_owned(), ApiQuantity(kept.to_string())))
        })
        .collect()
    }
}

/// A time as Go writes it, such as `1m30s`.
pub fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

impl Amount {
    /// How much it is, where there is so much in all.
    pub(super) fn of(self, capacity: u64) -> u64 {
        match self {
            Amount::Quantity(quantity) => u64::try_from(quantity.units()).unwrap_or(0),
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of a disk is not known to the byte, and a percentage lies between 0 and 100"
            )]
            Amount::Percent(percent) => (capacity as f64 * percent / 100.0) as u64,
        }
    }
}

fn thresholds(list: &str) -> Result<Vec<Threshold>, EvictionError> {
    let mut thresholds = Vec::new();
    for (signal, text) in statements(list, '<', "100Mi")? {
        if let Some(value) = amount(signal, &text)? {
            thresholds.push(Threshold { signal, value, grace: Duration::ZERO, minimum_reclaim: None });
        }
    }
    Ok(thresholds)
}

fn statements(list: &str, sign: char, example: &'static str) -> Result<BTreeMap<Signal, String>, EvictionError> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let statement = || EvictionError::Statement(part.to_owned(), sign, example);
            let (name, value) = part.split_once(sign).ok_or_else(statement)?;
            let signal = Signal::named(name.trim()).ok_or_else(|| EvictionError::Signal(name.trim().to_owned()))?;
            Ok((signal, value.trim().to_owned()))
        })
        .collect()
}

/// Nothing for 0 % and 100 %, with which thresholds are turned off.
fn amount(signal: Signal, text: &str) -> Result<Option<Amount>, EvictionError> {
    let wrong = || EvictionError::Amount(signal, text.to_owned());
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        return match percent {
            _ if percent == 0.0 || percent == 100.0 => Ok(None),
            _ if percent > 0.0 && percent < 100.0 => Ok(Some(Amount::Percent(percent))),
            _ => Err(wrong()),
        };
    }
    let quantity = Quantity::parse(text).map_err(|_| wrong())?;
    if quantity.is_negative() || quantity.is_zero() {
        return Err(EvictionError::NotPositive(signal, text.to_owned()));
    }
    Ok(Some(Amount::Quantity(quantity)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_as_they_are_given_to_upstreams_node_agent() {
        let read = Eviction::parse(
            "memory.available<100Mi,nodefs.available<10%,imagefs.available<0%",
            "memory.available<1Gi",
            "memory.available=1m30s",
            "nodefs.available=5%",
        );
        let read = read.unwrap();
        let said: Vec<_> = read.thresholds.iter().map(|one| (one.signal, one.value.of(1000), one.grace)).collect();
        let grace = Duration::from_secs(90);
        assert_eq!(
            said,
            [
                (Signal::MemoryAvailable, 100 << 20, Duration::ZERO),
                (Signal::NodefsAvailable, 100, Duration::ZERO),
                (Signal::MemoryAvailable, 1 << 30, grace),
            ]
        );
        assert_eq!(read.thresholds[1].minimum_reclaim, Some(Amount::Percent(5.0)));
        assert_eq!(read.transition_period, Duration::from_secs(300));
    }

    #[test]
    fn a_list_that_cannot_be_followed_says_what_to_write() {
        for (hard, soft, expected) in [
            (
                "memory.available",
                "",
                "\"memory.available\" is not SIGNAL<VALUE; give the list as in memory.available<100Mi",
            ),
            ("disk.left<1Gi", "", "unsupported eviction signal disk.left; this node knows memory.available, "),
            ("memory.available<lots", "", "\"lots\" is no amount for memory.available"),
            ("memory.available<120%", "", "\"120%\" is no amount for memory.available"),
            ("memory.available<0", "", "the amount for memory.available must be positive: 0"),
            (
                "",
                "memory.available<1Gi",
                "grace period must be specified for the soft eviction threshold memory.available",
            ),
        ] {
            let error = Eviction::parse(hard, soft, "", "").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
