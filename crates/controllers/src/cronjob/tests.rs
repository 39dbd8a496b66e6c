//! What a user of a CronJob would lose.
