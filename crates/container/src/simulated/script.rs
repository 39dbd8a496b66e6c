//! Reads a container's script from its Pod's annotations.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_meta::quantity::Quantity;

/// What every annotation of a script begins with.
pub const PREFIX: &str = "simulated.pintle.dev/";

/// How a container behaves. Nothing said: it starts at once, runs for ever, is ready, and stops when asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub sandbox_delay: Duration,
    /// So many times the Pod's sandbox cannot be made; `u32::MAX` for ever.
    pub sandbox_fails: u32,
    pub start_delay: Duration,
    pub run_for: Option<Duration>,
    pub exit_code: i32,
    /// How many runs fail before one follows the rest of the script.
    pub fail_times: u32,
    pub started_after: Duration,
    pub ready_after: Duration,
    pub ready_fails_after: Option<Duration>,
    pub liveness_fails_after: Option<Duration>,
    pub stop_takes: Duration,
    pub stop_exit_code: i32,
    pub ignores_term: bool,
    pub pull_delay: Duration,
    /// So many pulls of its image fail; `u32::MAX` for all.
    pub pull_fails: u32,
    /// So many times it cannot be created, or a run of it cannot be started; `u32::MAX` for ever.
    pub create_fails: u32,
    pub start_fails: u32,
    /// What its log says.
    pub log: Option<String>,
    /// What it uses while it runs: thousandths of a CPU, and bytes.
    pub cpu_milli: u64,
    pub memory: u64,
}

impl Script {
    /// The script of one container. What cannot be read is as if it were not there: a typo must not stop a node.
    pub fn of(annotations: &BTreeMap<String, String>, container: &str) -> Self {
        let get = |name: &str| {
            let own = annotations.get(&format!("{PREFIX}{name}.{container}"));
            own.or_else(|| annotations.get(&format!("{PREFIX}{name}"))).map(String::as_str)
        };
        // Most Pods have no script; looking for one must cost them nothing.
        if !annotations.keys().any(|key| key.starts_with(PREFIX)) {
            return Script::default();
        }
        let time = |name: &str| get(name).and_then(duration);
        let times = |name: &str| match get(name) {
            Some("true") => u32::MAX,
            times => times.and_then(|times| times.parse().ok()).unwrap_or(0),
        };
        Script {
            sandbox_delay: time("sandbox-delay").unwrap_or_default(),
            sandbox_fails: times("sandbox-fails"),
            start_delay: time("start-delay").unwrap_or_default(),
            run_for: time("run-for"),
            exit_code: get("exit-code").and_then(|code| code.parse().ok()).unwrap_or(0),
            fail_times: get("fail-times").and_then(|times| times.parse().ok()).unwrap_or(0),
            started_after: time("started-after").unwrap_or_default(),
            ready_after: time("ready-after").unwrap_or_default(),
            ready_fails_after: time("ready-fails-after"),
            liveness_fails_after: time("liveness-fails-after"),
            stop_takes: time("stop-takes").unwrap_or_default(),
            stop_exit_code: get("stop-exit-code").and_then(|code| code.parse().ok()).unwrap_or(0),
            ignores_term: get("ignores-term") == Some("true"),
            pull_delay: time("pull-delay").unwrap_or_default(),
            log: get("log").map(str::to_owned),
            cpu_milli: get("cpu").and_then(amount).map_or(0, |cpu| positive(cpu.milli())),
            memory: get("memory").and_then(amount).map_or(0, |memory| positive(memory.units())),
            pull_fails: times("pull-fails"),
            create_fails: times("create-fails"),
            start_fails: times("start-fails"),
        }
    }

    /// How long the run of this attempt lasts and how it ends, if it ends by itself.
    pub fn end_of(&self, attempt: u32) -> Option<(Duration, i32)> {
        let fails = attempt < self.fail_times;
        let code = match (fails, self.fail_times) {
            (true, _) => {
                if self.exit_code == 0 {
                    1
                } else {
                    self.exit_code
                }
            }
            (false, 0) => self.exit_code,
            // The failures are over, and the exit code was theirs.
            (false, _) => 0,
        };
        // A failure alone says that it ends: at once.
        self.run_for.or((code != 0).then_some(Duration::ZERO)).map(|run_for| (run_for, code))
    }
}

fn amount(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok()
}

fn positive(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

/// `250ms`, `5s`, `2m`, `1h`, and sums such as `1m30s`.
pub fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text.trim(), Duration::ZERO);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit_end =
            rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        let part = match &rest[digits..unit_end] {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        total = total.checked_add(part)?;
        rest = &rest[unit_end..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let cases = [
            ("250ms", Some(250)),
            ("5s", Some(5_000)),
            ("2m", Some(120_000)),
            ("1m30s", Some(90_000)),
            ("1h", Some(3_600_000)),
            ("5", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("99999999999999999999s", None),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_container_has_its_own_script_before_the_pods() {
        let annotations = [
            ("simulated.pintle.dev/run-for".to_owned(), "1s".to_owned()),
            ("simulated.pintle.dev/run-for.init".to_owned(), "2s".to_owned()),
            ("simulated.pintle.dev/exit-code.init".to_owned(), "oops".to_owned()),
        ]
        .into();
        assert_eq!(Script::of(&annotations, "web").run_for, Some(Duration::from_secs(1)));
        assert_eq!(Script::of(&annotations, "init").run_for, Some(Duration::from_secs(2)));
        assert_eq!(Script::of(&annotations, "init").exit_code, 0);
    }

    #[test]
    fn runs_end_as_the_script_says() {
        let second = Duration::from_secs(1);
        let forever = Script::default();
        let job = Script { run_for: Some(second), ..Script::default() };
        let crash = Script { exit_code: 3, ..Script::default() };
        let flaky = Script { fail_times: 2, run_for: Some(second), exit_code: 7, ..Script::default() };
        let slow_starter = Script { fail_times: 1, ..Script::default() };
        let cases = [
            (&forever, 0, None),
            (&job, 0, Some((second, 0))),
            (&crash, 5, Some((Duration::ZERO, 3))),
            (&flaky, 0, Some((second, 7))),
            (&flaky, 1, Some((second, 7))),
            (&flaky, 2, Some((second, 0))),
            (&slow_starter, 0, Some((Duration::ZERO, 1))),
            (&slow_starter, 1, None),
        ];
        for (script, attempt, end) in cases {
            assert_eq!(script.end_of(attempt), end, "{script:?} {attempt}");
        }
    }
}
