//! Lower priority for threads that do not serve requests.

use rustix::process::{getpriority_process, setpriority_process};

/// Niceness of background threads, of those that decode and parse large bodies, of the API's, and
/// of the embedded engine's. On a saturated core each gets a quarter of what a thread with requests
/// gets, and is preempted by one that wakes up. Shipping needs a sixth of what requests need. Large
/// bodies come from whoever has a project's key, and statements of the engine from whoever may read
/// it: both would otherwise get as much of the cores as all small requests together, see decision
/// 0128.
const NICE: i32 = 5;

/// Lowers the priority of the calling thread, so that threads that serve requests go first.
pub fn lower_priority() {
    // A process that was started with a lower priority keeps it: root might raise it, above that of
    // the threads that serve requests.
    if getpriority_process(None).is_ok_and(|nice| nice >= NICE) {
        return;
    }
    // On Linux a priority is a thread's. Without it everything works, and requests wait longer.
    if let Err(error) = setpriority_process(None, NICE) {
        tracing::debug!("cannot lower a thread's priority: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_lowered_and_never_raised() {
        for (before, expected) in [(0, NICE), (NICE, NICE), (NICE + 7, NICE + 7)] {
            let thread = std::thread::spawn(move || {
                // The tests may have been started with a lower priority.
                let before = before.max(getpriority_process(None).unwrap());
                setpriority_process(None, before).unwrap();
                lower_priority();
                (before, getpriority_process(None).unwrap())
            });
            let (before, after) = thread.join().unwrap();
            assert_eq!(after, expected.max(before));
        }
    }
}
