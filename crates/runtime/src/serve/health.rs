//! Named checks, answered as Kubernetes' own components answer: `ok`, or one line a check.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks of a process. Cheap to clone; clones share their checks.
///
/// - `/healthz` and `/livez` ask whether the process should go on: who answers no is restarted.
/// - `/readyz` asks that and whether it can do its work now; it answers no once the shutdown has fired.
/// - Why a check failed is logged, not shown: these paths are open to everybody.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone)]
struct Entry {
    name: String,
    of_readiness: bool,
    check: Check,
}

impl Health {
    /// Adds a check of whether the process should go on. It must not block.
    pub fn live(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.add(name, false, Arc::new(check));
    }

    /// Adds a check of whether the process can do its work. It must not block.
    pub fn ready(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.add(name, true, Arc::new(check));
    }

    /// The first reason why the process cannot do its work, as it is logged.
    pub fn not_ready(&self) -> Option<String> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        entries.iter().find_map(|entry| Some(format!("{}: {}", entry.name, (entry.check)().err()?)))
    }

    fn add(&self, name: &str, of_readiness: bool, check: Check) {
        let entry = Entry { name: name.to_owned(), of_readiness, check };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Whether all is well, and the page that says so; none when the one check that is asked for does not exist.
    pub(super) fn answer(
        &self,
        endpoint: &str,
        one: Option<&str>,
        query: &str,
        stopping: bool,
    ) -> Option<(bool, String)> {
        let ready = endpoint == "readyz";
        let mut results = vec![("ping".to_owned(), Ok(()))];
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asked = entries.iter().filter(|entry| ready || !entry.of_readiness);
        results.extend(asked.map(|entry| (entry.name.clone(), (entry.check)())));
        if ready {
            let stop = if stopping { Err("the process stops".to_owned()) } else { Ok(()) };
            results.push(("shutdown".to_owned(), stop));
        }
        let parameter = |pair: &'static str| query.split('&').filter_map(move |part| part.strip_prefix(pair));
        results.retain(|(name, _)| one.is_none_or(|one| one == name));
        if results.is_empty() {
            return None;
        }
        results.retain(|(name, _)| !parameter("exclude=").any(|excluded| excluded == name));
        let well = results.iter().all(|(_, result)| result.is_ok());
        let verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
        if well && !verbose {
            return Some((true, "ok".to_owned()));
        }
        let mut page = String::new();
        for (name, result) in results {
            // Writing into a String cannot fail.
            let _ = match result {
                Ok(()) => writeln!(page, "[+]{name} ok"),
                Err(why) => {
                    tracing::warn!(endpoint, check = name, why, "a health check failed");
                    writeln!(page, "[-]{name} failed: reason withheld")
                }
            };
        }
        let _ = writeln!(page, "{endpoint} check {}", if well { "passed" } else { "failed" });
        Some((well, page))
    }
}
