//! Counters of a running stage, for progress reports.

use millrace_rows::{Clock, Micros, SystemClock};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counters of a running stage, shared by all its threads.
#[derive(Debug)]
pub struct StageStats {
    began: Instant,
    /// Bytes of files, as they are on the disk.
    bytes_total: AtomicU64,
    bytes_read: Arc<AtomicU64>,
    events_accepted: AtomicU64,
    rejected: AtomicU64,
    skipped: AtomicU64,
    parts_total: AtomicU64,
    parts_done: AtomicU64,
    wait: Mutex<Option<Wait>>,
}

/// A pause in which nothing is sent.
#[derive(Clone, Debug)]
struct Wait {
    until: Micros,
    reason: String,
    /// True if a snapshot has reported it.
    is_reported: bool,
}

impl Default for StageStats {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            bytes_total: AtomicU64::default(),
            bytes_read: Arc::default(),
            events_accepted: AtomicU64::default(),
            rejected: AtomicU64::default(),
            skipped: AtomicU64::default(),
            parts_total: AtomicU64::default(),
            parts_done: AtomicU64::default(),
            wait: Mutex::default(),
        }
    }
}

/// Values of the counters at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatsSnapshot {
    /// Seconds since the start.
    pub seconds: f64,
    /// Bytes of all files; 0 if unknown.
    pub bytes_total: u64,
    /// Bytes read so far.
    pub bytes_read: u64,
    /// Number of events that the server accepted.
    pub accepted: u64,
    /// Number of refused records and events.
    pub rejected: u64,
    /// Number of records skipped on purpose.
    pub skipped: u64,
    /// Number of parts of an export to fetch.
    pub parts_total: u64,
    /// Number of parts fetched so far.
    pub parts_done: u64,
    /// Accepted events per second since the start.
    pub events_per_second: f64,
    /// Seconds left at the speed so far.
    pub seconds_left: Option<f64>,
    /// Reason of the current pause, or of one since the last snapshot.
    pub waiting_for: Option<String>,
    /// End of the pause, in UTC.
    pub waiting_until: Option<String>,
    /// True if the pause is not over.
    #[serde(skip)]
    pub is_waiting: bool,
}

impl StageStats {
    /// Adds bytes of files that will be read.
    pub fn expect(&self, bytes_total: u64) {
        self.bytes_total.fetch_add(bytes_total, Ordering::Relaxed);
    }

    /// Counter of the bytes read.
    #[must_use]
    pub fn bytes_read(&self) -> &Arc<AtomicU64> {
        &self.bytes_read
    }

    /// Adds bytes that were read.
    pub fn read_bytes(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that have to be read again.
    pub fn unread_bytes(&self, bytes: u64) {
        self.bytes_read.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds parts that will be fetched.
    pub fn expect_parts(&self, parts: u64) {
        self.parts_total.fetch_add(parts, Ordering::Relaxed);
    }

    /// Adds one fetched part.
    pub fn part_done(&self) {
        self.parts_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds accepted events.
    pub fn accepted(&self, events: u64) {
        self.events_accepted.fetch_add(events, Ordering::Relaxed);
    }

    /// Adds refused records or events.
    pub fn rejected(&self, records: u64) {
        self.rejected.fetch_add(records, Ordering::Relaxed);
    }

    /// Adds skipped records.
    pub fn skipped(&self, records: u64) {
        self.skipped.fetch_add(records, Ordering::Relaxed);
    }

    /// Notes a pause in which nothing is sent.
    pub fn note_pause(&self, reason: &str, pause: Duration) {
        let until = after(pause);
        let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        // Of several pauses, the one that ends last is shown.
        if wait.as_ref().is_none_or(|known| known.until < until) {
            *wait = Some(Wait {
                until,
                reason: reason.to_owned(),
                is_reported: false,
            });
        }
    }

    /// The current pause, or one that was not reported yet; true if it is not over.
    fn wait(&self) -> Option<(Wait, bool)> {
        let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        let known = wait.as_mut()?;
        let is_on = known.until > SystemClock.now();
        if known.is_reported && !is_on {
            *wait = None;
            return None;
        }
        known.is_reported = true;
        Some((known.clone(), is_on))
    }

    /// Reads the counters.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "for people; they are far below 2^53"
    )]
    pub fn snapshot(&self) -> StatsSnapshot {
        let seconds = self.began.elapsed().as_secs_f64();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (bytes_total, bytes_read) = (load(&self.bytes_total), load(&self.bytes_read));
        let accepted = load(&self.events_accepted);
        let left = bytes_total.saturating_sub(bytes_read) as f64;
        let wait = self.wait();
        StatsSnapshot {
            seconds,
            bytes_total,
            bytes_read,
            accepted,
            rejected: load(&self.rejected),
            skipped: load(&self.skipped),
            parts_total: load(&self.parts_total),
            parts_done: load(&self.parts_done),
            events_per_second: accepted as f64 / seconds.max(0.001),
            seconds_left: (bytes_read > 0 && bytes_total > 0)
                .then(|| left * seconds / bytes_read as f64),
            waiting_for: wait.as_ref().map(|(wait, _)| wait.reason.clone()),
            waiting_until: wait.as_ref().map(|(wait, _)| text_of(wait.until)),
            is_waiting: wait.is_some_and(|(_, is_on)| is_on),
        }
    }
}

/// Time at which a pause that begins now is over, to the second.
pub(crate) fn time_after(pause: Duration) -> String {
    text_of(after(pause))
}

fn after(pause: Duration) -> Micros {
    let pause = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
    Micros(SystemClock.now().0.saturating_add(pause))
}

fn text_of(at: Micros) -> String {
    let mut text = Vec::new();
    millrace_sources::time::write(&mut text, Micros(at.0 - at.0.rem_euclid(1_000_000)));
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_reported_at_least_once_and_while_it_lasts() {
        let stats = StageStats::default();
        assert_eq!(stats.snapshot().waiting_for, None);
        stats.note_pause("over before anybody looks", Duration::ZERO);
        let snapshot = stats.snapshot();
        assert_eq!(
            snapshot.waiting_for.as_deref(),
            Some("over before anybody looks")
        );
        assert!(!snapshot.is_waiting);
        assert_eq!(stats.snapshot().waiting_for, None);
        stats.note_pause("long", Duration::from_secs(3_600));
        stats.note_pause("shorter", Duration::from_secs(60));
        for _ in 0..2 {
            let snapshot = stats.snapshot();
            assert_eq!(snapshot.waiting_for.as_deref(), Some("long"));
            assert!(snapshot.is_waiting && snapshot.waiting_until.unwrap().ends_with('Z'));
        }
    }
}
