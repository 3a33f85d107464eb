//! Lower priority for threads that do not serve requests.

/// Niceness of all threads but those that answer requests of events: background threads, those that
/// decode and parse large bodies, the API's, and the embedded engine's. On a saturated core each
/// gets a quarter of what a thread with requests gets, and is preempted by one that wakes up.
/// Shipping needs a sixth of what requests need. Large bodies come from whoever has a project's
/// key, and statements of the engine from whoever may read it: both would otherwise get as much of
/// the cores as all small requests together, see decision 0128.
const NICE: i32 = 5;

/// Lowers the priority of the calling thread, so that threads that serve requests go first.
pub fn lower_priority() {
    // On Linux a priority is a thread's. Without it everything works, and requests wait longer.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!("cannot lower a thread's priority: {error}");
    }
}
