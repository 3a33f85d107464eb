//! Work that may block, beside the tasks of a lane.

use std::future::pending;
use std::panic::resume_unwind;
use tokio::task::{JoinError, spawn_blocking};

/// Runs work on a thread that may block. A panic of it goes on in the caller: tried again, it would
/// be met again, and the rows would wait for ever.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = spawn_blocking(work).await;
    match done.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => resume_unwind(panic),
        // Cancelled: the runtime ends, and with it the caller.
        Err(Err(_)) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_blocking_work_goes_on_in_its_caller() {
        let caller = tokio::spawn(run_blocking(|| panic!("a mistake of ours")));
        let ended: Result<(), _> = caller.await;
        assert!(ended.is_err_and(|error| error.is_panic()));
        assert_eq!(run_blocking(|| 7).await, 7);
    }
}
