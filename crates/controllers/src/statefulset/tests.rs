//! What a user of a StatefulSet would lose.
