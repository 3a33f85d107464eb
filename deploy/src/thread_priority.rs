//! Lower priority for threads that do not serve requests.

/// Niceness of background threads, and of those that decode and parse large bodies. On a saturated
/// core they get a quarter of it: shipping needs a sixth of what requests need, so the log does not
/// grow. Large bodies come from whoever has a project's key, and would otherwise get as much of the
/// cores as all small ones together.
const NICE: i32 = 5;

/// Lowers the priority of the calling thread, so that threads that serve requests go first.
pub fn lower_priority() {
    // On Linux a priority is a thread's. Without it everything works, and requests wait longer.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!("cannot lower a thread's priority: {error}");
    }
}
