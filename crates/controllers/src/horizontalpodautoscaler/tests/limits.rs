//! How fast and how far replicas change: rates, windows, minimum and maximum.

use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::{Decision, History, Measured, Reading, Seen, autoscaler, condition, now, plan, pods, target};

/// A metric that asks for exactly as many replicas as it has units.
fn units(change: Value) -> HorizontalPodAutoscaler {
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    let metrics = json!([{"type": "External", "external": {"metric": {"name": "units"}, "target": target}}]);
    autoscaler(metrics, change)
}

/// An autoscaler that is looked at again and again.
struct Story {
    autoscaler: HorizontalPodAutoscaler,
    history: History,
    replicas: i32,
}

impl Story {
    fn of(autoscaler: HorizontalPodAutoscaler, replicas: i32) -> Self {
        Story { autoscaler, history: History::default(), replicas }
    }

    /// The metric asks for so many replicas so many seconds later.
    fn look(&mut self, second: i64, wanted: i64) -> Decision {
        let (pods, _) = pods("1", &json!({}));
        let at = now() + SignedDuration::from_secs(second);
        let measured = Measured { pods, readings: vec![Ok(Reading::Total(wanted * 1000))] };
        let seen = Seen { target: Ok(target(self.replicas)), measured: Ok(measured) };
        let decision = plan(&self.autoscaler, seen, &mut self.history, at);
        if let Some((from, to)) = decision.scales {
            self.history.scaled((from, to), self.autoscaler.spec.behavior.as_ref(), at);
            self.replicas = to;
        }
        decision
    }
}

/// One direction's rules, the other's being free.
fn rules(up: Value, down: Value) -> Value {
    json!({"behavior": {"scaleUp": up, "scaleDown": down}})
}

fn policies(select: &str, policies: &[(&str, i32, i32)]) -> Value {
    let policies: Vec<Value> = policies
        .iter()
        .map(|(kind, value, seconds)| json!({"type": kind, "value": value, "periodSeconds": seconds}))
        .collect();
    json!({"selectPolicy": select, "policies": policies})
}

#[test]
fn without_a_behavior_replicas_at_most_double_and_stay_within_their_range() {
    // Minimum, maximum, how many there are, how many are recommended; how many there are then, and what limited it.
    let cases = [
        (1, 10, 2, 3, 3, "DesiredWithinRange"),
        (1, 100, 5, 50, 10, "ScaleUpLimit"),
        (1, 100, 1, 50, 4, "ScaleUpLimit"),
        (1, 100, 2, 50, 4, "ScaleUpLimit"),
        (1, 100, 3, 6, 6, "DesiredWithinRange"),
        (1, 8, 5, 50, 8, "TooManyReplicas"),
        (1, 3, 1, 50, 3, "TooManyReplicas"),
        (1, 10, 5, 10, 10, "DesiredWithinRange"),
    ];
    for (minimum, maximum, before, recommended, after, reason) in cases {
        let change = json!({"minReplicas": minimum, "maxReplicas": maximum, "behavior": null});
        let mut story = Story::of(units(change), before);
        let decision = story.look(0, recommended);
        assert_eq!((story.replicas, condition(&decision, "ScalingLimited").1), (after, reason), "{recommended}");
        let is_limited = if reason == "DesiredWithinRange" { "False" } else { "True" };
        assert_eq!(condition(&decision, "ScalingLimited").0, is_limited);
    }
}

#[test]
fn without_a_behavior_replicas_go_after_five_minutes_without_a_higher_recommendation() {
    let change = json!({"minReplicas": 2, "behavior": null});
    let mut story = Story::of(units(change), 6);
    // When, what is recommended; how many there are then, and what the condition says.
    let looks = [
        (0, 6, 6, "ReadyForNewScale"),
        (15, 3, 6, "ScaleDownStabilized"),
        (30, 1, 6, "ScaleDownStabilized"),
        (300, 1, 6, "ScaleDownStabilized"),
        // The recommendation of 6 is forgotten, that of 3 is not.
        (301, 1, 3, "ScaleDownStabilized"),
        (316, 1, 2, "ReadyForNewScale"),
        (331, 8, 4, "ReadyForNewScale"),
        (346, 8, 8, "ReadyForNewScale"),
        (361, 4, 8, "ScaleDownStabilized"),
    ];
    for (second, recommended, after, reason) in looks {
        let decision = story.look(second, recommended);
        assert_eq!(
            (story.replicas, condition(&decision, "AbleToScale").1),
            (after, told(&decision, reason)),
            "{second}"
        );
    }
}

/// After a change the condition tells that it was made.
fn told<'a>(decision: &Decision, reason: &'a str) -> &'a str {
    if decision.scales.is_some() { "SucceededRescale" } else { reason }
}

#[test]
fn a_new_process_does_not_scale_down_at_once() {
    let mut story = Story::of(units(json!({"behavior": null})), 10);
    story.look(0, 2);
    story.look(290, 2);
    assert_eq!(story.replicas, 10);
    story.look(305, 2);
    assert_eq!(story.replicas, 2);
}

#[test]
fn policies_bound_how_much_is_added() {
    let pods4 = policies("Max", &[("Pods", 4, 60)]);
    let percent50 = policies("Max", &[("Percent", 50, 60)]);
    let both = |select| policies(select, &[("Pods", 4, 60), ("Percent", 100, 60)]);
    // The rules, how many there are, how many are recommended; how many there are then, and what limited it.
    let cases = [
        (pods4.clone(), 3, 20, 7, "ScaleUpLimit"),
        (pods4.clone(), 3, 7, 7, "DesiredWithinRange"),
        (pods4, 3, 6, 6, "DesiredWithinRange"),
        (percent50.clone(), 3, 20, 5, "ScaleUpLimit"),
        (percent50, 10, 14, 14, "DesiredWithinRange"),
        // A part of a Pod is a Pod: it must not stand still for ever.
        (policies("Max", &[("Percent", 1, 60)]), 1, 20, 2, "ScaleUpLimit"),
        (both("Max"), 3, 20, 7, "ScaleUpLimit"),
        (both("Max"), 6, 20, 12, "ScaleUpLimit"),
        (both("Min"), 3, 20, 6, "ScaleUpLimit"),
        (both("Min"), 6, 20, 10, "ScaleUpLimit"),
        (policies("Disabled", &[("Pods", 4, 60)]), 3, 20, 3, "ScaleUpLimit"),
        (policies("Max", &[("Pods", 4000, 60)]), 3, 2000, 1000, "TooManyReplicas"),
    ];
    for (up, before, recommended, after, reason) in cases {
        let mut story = Story::of(units(rules(up.clone(), json!({}))), before);
        let decision = story.look(0, recommended);
        assert_eq!((story.replicas, condition(&decision, "ScalingLimited").1), (after, reason), "{up} {before}");
    }
}

#[test]
fn policies_bound_how_much_is_taken_away() {
    let pods4 = policies("Max", &[("Pods", 4, 60)]);
    let both = |select| policies(select, &[("Pods", 4, 60), ("Percent", 50, 60)]);
    let cases = [
        (pods4.clone(), 10, 1, 6, "ScaleDownLimit"),
        (pods4.clone(), 10, 6, 6, "DesiredWithinRange"),
        (pods4, 4, 0, 1, "TooFewReplicas"),
        (policies("Max", &[("Percent", 10, 60)]), 10, 1, 9, "ScaleDownLimit"),
        // Rounded down: of fewer than ten Pods a tenth is one.
        (policies("Max", &[("Percent", 10, 60)]), 5, 1, 4, "ScaleDownLimit"),
        (both("Max"), 10, 1, 5, "ScaleDownLimit"),
        (both("Min"), 10, 1, 6, "ScaleDownLimit"),
        (both("Max"), 6, 1, 2, "ScaleDownLimit"),
        (both("Min"), 6, 1, 3, "ScaleDownLimit"),
        (policies("Disabled", &[("Pods", 4, 60)]), 10, 1, 10, "ScaleDownLimit"),
    ];
    for (down, before, recommended, after, reason) in cases {
        let mut story = Story::of(units(rules(json!({}), down.clone())), before);
        let decision = story.look(0, recommended);
        assert_eq!((story.replicas, condition(&decision, "ScalingLimited").1), (after, reason), "{down} {before}");
    }
}

#[test]
fn a_policy_counts_what_was_done_within_its_period() {
    let (up, down) = (policies("Max", &[("Pods", 4, 60)]), policies("Max", &[("Pods", 2, 60)]));
    let mut story = Story::of(units(rules(up, down)), 1);
    // When, what is recommended; how many there are then.
    let looks = [
        (0, 100, 5),
        (15, 100, 5),
        (59, 100, 5),
        (60, 100, 9),
        (75, 7, 7),
        // 4 were added and 2 taken away in the period, which began with 5: 2 fewer than that there may be.
        (90, 1, 3),
        // Nothing was added and 6 taken away: 4 more than 9.
        (120, 100, 13),
        (136, 1, 5),
    ];
    for (second, recommended, after) in looks {
        story.look(second, recommended);
        assert_eq!(story.replicas, after, "after {second} s");
    }
}

#[test]
fn a_rate_is_remembered_as_long_as_its_period_and_no_longer() {
    let slow = policies("Max", &[("Pods", 1, 1800)]);
    let mut story = Story::of(units(rules(slow, json!({}))), 1);
    let counts: Vec<i32> =
        [0, 900, 1799, 1800, 3599, 3600].map(|second| (story.look(second, 50), story.replicas).1).into();
    assert_eq!(counts, [2, 2, 2, 3, 3, 4]);
}

#[test]
fn windows_hold_back_both_ways() {
    let change = json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 60}, "scaleDown": {"stabilizationWindowSeconds": 120}}});
    let mut story = Story::of(units(change), 4);
    let looks = [
        (0, 4, 4, "ReadyForNewScale"),
        // A peak of less than a minute does not count.
        (15, 20, 4, "ScaleUpStabilized"),
        (30, 4, 4, "ReadyForNewScale"),
        (45, 20, 4, "ScaleUpStabilized"),
        (75, 20, 4, "ScaleUpStabilized"),
        (90, 12, 12, "ReadyForNewScale"),
        // A dip of less than two minutes does not count.
        (105, 2, 12, "ScaleDownStabilized"),
        (200, 2, 12, "ScaleDownStabilized"),
        (215, 2, 2, "ReadyForNewScale"),
    ];
    for (second, recommended, after, reason) in looks {
        let decision = story.look(second, recommended);
        assert_eq!(
            (story.replicas, condition(&decision, "AbleToScale").1),
            (after, told(&decision, reason)),
            "{second}"
        );
    }
}

#[test]
fn a_window_that_is_not_named_is_five_minutes_for_the_way_down_alone() {
    let change = json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": null}, "scaleDown": {"stabilizationWindowSeconds": null}}});
    let mut story = Story::of(units(change), 4);
    for (second, recommended, after) in [(0, 8, 8), (15, 2, 8), (299, 2, 8), (300, 2, 2)] {
        story.look(second, recommended);
        assert_eq!(story.replicas, after, "after {second} s");
    }
}
