//! What a user of a Job would lose.
