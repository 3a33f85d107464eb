//! Threads for everything that is not a request.

/// How nice they are to requests. Where a core has not enough for all, they get a quarter of it:
/// shipping needs a sixth of what the requests themselves need, so a log does not grow for it.
const NICE: i32 = 5;

/// Lets the threads that answer requests go first, for the calling thread.
pub fn give_way() {
    // On Linux a priority is a thread's. Without it all works, and requests wait longer.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!("cannot lower a thread's priority: {error}");
    }
}
