//! From the recommended number of replicas to the one that is set: stabilization, rates, minimum and maximum.
//!
//! ```text
//! recommended 9 ─ stabilize: recent recommendations ─ rate: recent changes ─ minimum, maximum ─▶ set
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior};

use super::usage::whole;

/// How far back a scale-down looks for higher recommendations unless the autoscaler says otherwise.
const DOWNSCALE_STABILIZATION: Duration = Duration::from_secs(300);

/// Without a behavior, replicas at most double, or become this many.
const SCALE_UP_FACTOR: i32 = 2;
const SCALE_UP_MINIMUM: i32 = 4;

/// What an autoscaler recommended and did recently. Lost with the process, as in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct History {
    /// Before stabilization, oldest first.
    recommended: Vec<(Timestamp, i32)>,
    /// By how many replicas it scaled up, and down.
    added: Vec<(Timestamp, i32)>,
    removed: Vec<(Timestamp, i32)>,
}

/// What is to be done about a recommendation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i32,
    /// Whether recent recommendations changed it.
    pub(super) stabilized: Option<Direction>,
    /// Which limit was looked at last, and whether it changed anything.
    pub(super) limit: Limit,
    pub(super) is_limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    WithinRange,
    TooMany,
    TooFew,
    UpRate,
    DownRate,
}

/// The numbers between which an autoscaler keeps its target, and where that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) minimum: i32,
    pub(super) maximum: i32,
    pub(super) current: i32,
}

impl History {
    /// The first look at a target counts as a recommendation: a new process does not scale down at once.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommended.is_empty() {
            self.recommended.push((now, current));
        }
    }

    /// Notes the recommendation, and says what becomes of it.
    pub(super) fn limit(
        &mut self,
        recommended: i32,
        bounds: Bounds,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        now: Timestamp,
    ) -> Limited {
        let (stable, limited) = match behavior {
            None => {
                let stable = self.stabilize(recommended, now);
                (stable, within_doubling(stable, bounds))
            }
            Some(behavior) => {
                let (up, down) =
                    (Rules::of(behavior.scale_up.as_ref(), UP), Rules::of(behavior.scale_down.as_ref(), DOWN));
                let stable = self.stabilize_by(recommended, bounds.current, (&up, &down), now);
                (stable, self.within_rates(stable, bounds, (&up, &down), now))
            }
        };
        self.recommended.push((now, recommended));
        let direction =
            if behavior.is_some() && recommended >= bounds.current { Direction::Up } else { Direction::Down };
        let stabilized = (stable != recommended).then_some(direction);
        let (replicas, limit) = limited;
        Limited { replicas, stabilized, limit, is_limited: replicas != stable }
    }

    /// Notes what was done, and forgets what no rule asks for any more.
    pub(in super::super) fn scaled(
        &mut self,
        (from, to): (i32, i32),
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else { return };
        let longest = |rules: Rules| rules.policies.iter().map(|policy| seconds(policy.period_seconds)).max();
        let (changes, period) = match to > from {
            true => (&mut self.added, longest(Rules::of(behavior.scale_up.as_ref(), UP))),
            false => (&mut self.removed, longest(Rules::of(behavior.scale_down.as_ref(), DOWN))),
        };
        changes.retain(|(at, _)| *at + period.unwrap_or_default() >= now);
        changes.push((now, (to - from).abs()));
    }

    fn stabilize(&mut self, recommended: i32, now: Timestamp) -> i32 {
        self.recommended.retain(|(at, _)| *at + DOWNSCALE_STABILIZATION >= now);
        self.recommended.iter().map(|(_, replicas)| *replicas).fold(recommended, i32::max)
    }

    /// As near to the current number as recent recommendations allow.
    fn stabilize_by(
        &mut self,
        recommended: i32,
        current: i32,
        (up, down): (&Rules<'_>, &Rules<'_>),
        now: Timestamp,
    ) -> i32 {
        let longest = up.window.max(down.window);
        self.recommended.retain(|(at, _)| *at + longest >= now);
        let within = |window: SignedDuration| {
            self.recommended.iter().filter(move |(at, _)| *at + window > now).map(|(_, replicas)| *replicas)
        };
        let lowest = within(up.window).fold(recommended, i32::min);
        let highest = within(down.window).fold(recommended, i32::max);
        current.max(lowest).min(highest)
    }

    fn within_rates(
        &self,
        wanted: i32,
        Bounds { minimum, maximum, current }: Bounds,
        (up, down): (&Rules<'_>, &Rules<'_>),
        now: Timestamp,
    ) -> (i32, Limit) {
        if wanted > current {
            let rate = self.furthest(current, up, Direction::Up, now).max(current);
            let (most, limit) = if maximum > rate { (rate, Limit::UpRate) } else { (maximum, Limit::TooMany) };
            if wanted > most {
                return (most, limit);
            }
        } else if wanted < current {
            let rate = self.furthest(current, down, Direction::Down, now).min(current);
            let (least, limit) = if minimum < rate { (rate, Limit::DownRate) } else { (minimum, Limit::TooFew) };
            if wanted < least {
                return (least, limit);
            }
        }
        (wanted, Limit::WithinRange)
    }

    /// How far the policies let it go from where each one's period began.
    fn furthest(&self, current: i32, rules: &Rules<'_>, direction: Direction, now: Timestamp) -> i32 {
        let changed = |changes: &[(Timestamp, i32)], period: SignedDuration| {
            let recent = changes.iter().filter(|(at, _)| *at + period > now);
            recent.map(|(_, replicas)| *replicas).fold(0, i32::saturating_add)
        };
        let reach = rules.policies.iter().map(|policy| {
            let period = seconds(policy.period_seconds);
            let began = current - changed(&self.added, period) + changed(&self.removed, period);
            let value = match direction {
                Direction::Up => policy.value,
                Direction::Down => -policy.value,
            };
            match (policy.type_.as_str(), direction) {
                ("Pods", _) => began.saturating_add(value),
                // Rounded up on the way up: a few percent of one Pod are one Pod.
                (_, Direction::Up) => whole(f64::from(began) * (1.0 + f64::from(value) / 100.0)),
                (_, Direction::Down) => towards_zero(f64::from(began) * (1.0 + f64::from(value) / 100.0)),
            }
        });
        let furthest = match (rules.select, direction) {
            (Select::Disabled, _) => None,
            (Select::Max, Direction::Up) | (Select::Min, Direction::Down) => reach.max(),
            (Select::Min, Direction::Up) | (Select::Max, Direction::Down) => reach.min(),
        };
        furthest.unwrap_or(current)
    }
}

/// Without a behavior.
fn within_doubling(wanted: i32, Bounds { minimum, maximum, current }: Bounds) -> (i32, Limit) {
    let doubled = current.saturating_mul(SCALE_UP_FACTOR).max(SCALE_UP_MINIMUM);
    let (most, limit) = if maximum > doubled { (doubled, Limit::UpRate) } else { (maximum, Limit::TooMany) };
    if wanted < minimum {
        (minimum, Limit::TooFew)
    } else if wanted > most {
        (most, limit)
    } else {
        (wanted, Limit::WithinRange)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Select {
    /// The policy that changes most.
    Max,
    Min,
    Disabled,
}

/// The rules of one direction, with what the API server fills in where nothing is said.
struct Rules<'a> {
    window: SignedDuration,
    policies: Vec<&'a HPAScalingPolicy>,
    select: Select,
}

struct Defaults {
    window: Duration,
    policies: fn() -> &'static [HPAScalingPolicy],
}

const UP: Defaults = Defaults {
    window: Duration::ZERO,
    policies: || {
        static POLICIES: std::sync::LazyLock<[HPAScalingPolicy; 2]> =
            std::sync::LazyLock::new(|| [policy("Pods", 4), policy("Percent", 100)]);
        &*POLICIES
    },
};

const DOWN: Defaults = Defaults {
    window: DOWNSCALE_STABILIZATION,
    policies: || {
        static POLICIES: std::sync::LazyLock<[HPAScalingPolicy; 1]> =
            std::sync::LazyLock::new(|| [policy("Percent", 100)]);
        &*POLICIES
    },
};

fn policy(kind: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy { type_: kind.to_owned(), value, period_seconds: 15 }
}

impl<'a> Rules<'a> {
    fn of(rules: Option<&'a HPAScalingRules>, defaults: Defaults) -> Self {
        let window = rules.and_then(|rules| rules.stabilization_window_seconds).map(seconds);
        let policies = rules.and_then(|rules| rules.policies.as_deref()).unwrap_or_else(|| (defaults.policies)());
        let select = match rules.and_then(|rules| rules.select_policy.as_deref()) {
            Some("Disabled") => Select::Disabled,
            Some("Min") => Select::Min,
            _ => Select::Max,
        };
        let default = SignedDuration::try_from(defaults.window).unwrap_or_default();
        Rules { window: window.unwrap_or(default), policies: policies.iter().collect(), select }
    }
}

fn seconds(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(seconds.into())
}

fn towards_zero(replicas: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "a part of a number of replicas is one")]
    let whole = replicas as i32;
    whole
}
