//! Answers that hold for a while: what the API server said of a token or a right need not be asked for each request.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The oldest answers are forgotten beyond this many.
const MAX_ANSWERS: usize = 4096;

/// Answers by question, each with the moment from which on it no longer counts.
#[derive(Debug)]
pub(super) struct Remembered<Question, Answer> {
    answers: Mutex<BTreeMap<Question, (Instant, Answer)>>,
}

impl<Question: Ord + Clone, Answer: Clone> Remembered<Question, Answer> {
    pub(super) fn get(&self, question: &Question) -> Option<Answer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, answer) = answers.get(question)?;
        (Instant::now() < *until).then(|| answer.clone())
    }

    pub(super) fn keep(&self, question: Question, answer: Answer, for_how_long: Duration) {
        let now = Instant::now();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(question, (now + for_how_long, answer));
        if answers.len() > MAX_ANSWERS {
            answers.retain(|_, (until, _)| *until > now);
        }
        while answers.len() > MAX_ANSWERS {
            let oldest = answers.iter().min_by_key(|(_, (until, _))| *until).map(|(question, _)| question.clone());
            let Some(oldest) = oldest else { return };
            answers.remove(&oldest);
        }
    }
}

impl<Question, Answer> Default for Remembered<Question, Answer> {
    fn default() -> Self {
        Remembered { answers: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_its_time_and_there_are_never_too_many() {
        let known = Remembered::default();
        known.keep(1, "yes", Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(known.get(&1), Some("yes"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(known.get(&1), None);
        for question in 0..MAX_ANSWERS + 10 {
            known.keep(question, "no", Duration::from_secs(question as u64 + 1));
        }
        assert_eq!(known.answers.lock().unwrap().len(), MAX_ANSWERS);
        assert_eq!((known.get(&0), known.get(&(MAX_ANSWERS + 9))), (None, Some("no")));
    }
}
