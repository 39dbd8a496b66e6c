//! Placeholder until its slice lands.
pub struct Scheduler;
impl Scheduler {
    pub fn start(_: &pintle_runtime::Context) -> Self { Scheduler }
    pub async fn stop(self) {}
    pub async fn crash(self) {}
}
