//! What may be disturbed, and how much.

pub mod pod_disruption_budget;
