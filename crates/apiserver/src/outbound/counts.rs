//! What is counted about programs that say who users are and what they may do, under the names that dashboards know.

use super::Failure;
use super::review::ReviewError;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Evaluated {
    name: String,
    result: &'static str,
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// Whose a token is.
    Token,
    /// What a user may do, asked of the authorizer of this name.
    Access(String),
}

/// Labels are codes, and names of authorizers, which only the operator makes up.
#[derive(Clone)]
pub struct Counts {
    tokens: Family<Answered, Counter>,
    token_durations: Family<Answered, Histogram>,
    evaluations: Family<Evaluated, Counter>,
    durations: Family<Evaluated, Histogram>,
    failed_open: Family<Evaluated, Counter>,
}

impl Default for Counts {
    fn default() -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        Counts {
            tokens: Family::default(),
            token_durations: Family::new_with_constructor(histogram),
            evaluations: Family::default(),
            durations: Family::new_with_constructor(histogram),
            failed_open: Family::default(),
        }
    }
}

impl Counts {
    pub fn register(&self, registry: &mut Registry) {
        let tokens = |rest: &str| format!("apiserver_delegated_authn_request{rest}");
        registry.register(tokens(""), "TokenReviews by the code of their answer", self.tokens.clone());
        registry.register(tokens("_duration_seconds"), "Time that TokenReviews took", self.token_durations.clone());
        let access = |rest: &str| format!("apiserver_authorization_webhook_{rest}");
        registry.register(access("evaluations"), "SubjectAccessReviews by how they ended", self.evaluations.clone());
        registry.register(access("duration_seconds"), "Time that SubjectAccessReviews took", self.durations.clone());
        let about = "SubjectAccessReviews that failed and were passed over";
        registry.register(access("evaluations_fail_open"), about, self.failed_open.clone());
    }

    pub(super) fn note<T>(&self, about: &About, outcome: &Result<T, ReviewError>, took: Duration) {
        let seconds = took.as_secs_f64();
        match about {
            About::Token => {
                let answered = Answered { code: code(outcome) };
                self.tokens.get_or_create(&answered).inc();
                self.token_durations.get_or_create(&answered).observe(seconds);
            }
            About::Access(name) => {
                let evaluated = Evaluated { name: name.clone(), result: result(outcome) };
                self.evaluations.get_or_create(&evaluated).inc();
                self.durations.get_or_create(&evaluated).observe(seconds);
            }
        }
    }

    /// A question whose failure lets the next authorizer decide.
    pub fn fails_open(&self, name: &str, error: &ReviewError) {
        let evaluated = Evaluated { name: name.to_owned(), result: result::<()>(&Err(error)) };
        self.failed_open.get_or_create(&evaluated).inc();
    }
}

fn code<T>(outcome: &Result<T, ReviewError>) -> String {
    match outcome {
        Ok(_) => "200".to_owned(),
        Err(ReviewError::Refused { code, .. }) => code.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

fn result<T>(outcome: &Result<T, impl std::borrow::Borrow<ReviewError>>) -> &'static str {
    match outcome {
        Ok(_) => "success",
        Err(error) => match error.borrow() {
            ReviewError::Transport { failure: Failure::Late, .. } => "timeout",
            _ => "error",
        },
    }
}
