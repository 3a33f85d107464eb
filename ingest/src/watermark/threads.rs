//! Test of epochs on real threads.

use super::RequestEpochs;
use millrace_rows::{Clock, Micros};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const CORES: usize = 3;

/// Clock that every reading moves, and that goes back now and then.
#[derive(Debug, Default)]
struct JumpyClock(AtomicI64);

impl Clock for JumpyClock {
    fn now(&self) -> Micros {
        let now = self.0.fetch_add(1, Ordering::Relaxed);
        if now % 1_000 == 999 {
            self.0.fetch_sub(500, Ordering::Relaxed);
        }
        Micros(now)
    }
}

#[test]
fn on_threads_no_row_comes_below_a_named_time() {
    const EPOCHS: usize = 5_000;
    const ROWS: usize = 50_000;
    let request_epochs = RequestEpochs::default();
    let clock = Arc::new(JumpyClock::default());
    let log = Arc::new(Mutex::new(Vec::new()));
    let is_over = Arc::new(AtomicBool::new(false));
    let cores: Vec<_> = (0..CORES)
        .map(|_| {
            let (request_epochs, clock) = (request_epochs.clone(), Arc::clone(&clock));
            let (log, is_over) = (Arc::clone(&log), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let core = request_epochs.for_core();
                while !is_over.load(Ordering::Relaxed) {
                    let [first, second] = [core.enter(&*clock), core.enter(&*clock)];
                    log.lock().unwrap().push(first.created_at.0);
                    drop(first);
                    std::thread::yield_now();
                    log.lock().unwrap().push(second.created_at.0);
                }
            })
        })
        .collect();
    let mut named = Vec::new();
    while named.len() < EPOCHS || log.lock().unwrap().len() < ROWS {
        let time = clock.now();
        request_epochs.raise_min_created_at(time);
        let epoch = request_epochs.next_epoch();
        while !request_epochs.is_over(epoch) {
            std::thread::yield_now();
        }
        named.push((time.0, log.lock().unwrap().len()));
    }
    is_over.store(true, Ordering::Relaxed);
    for core in cores {
        core.join().unwrap();
    }
    let log = log.lock().unwrap();
    // Rows that came after each time was named, from the last on.
    let mut oldest = i64::MAX;
    let mut end = log.len();
    for (time, len) in named.into_iter().rev() {
        oldest = log[len..end].iter().copied().fold(oldest, i64::min);
        end = len;
        assert!(
            oldest >= time,
            "a row of {oldest} came after {time} was named"
        );
    }
}
