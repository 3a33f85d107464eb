//! How an import goes, for those who watch it.

use millrace_rows::{Clock, Micros, SystemClock};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counters that grow while an import runs. Shared by all its threads.
#[derive(Debug)]
pub struct Meter {
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

/// A time in which nothing is sent.
#[derive(Clone, Debug)]
struct Wait {
    until: Micros,
    reason: String,
    /// Whether somebody who watches was told.
    is_told: bool,
}

impl Default for Meter {
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

/// What the counters say at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reading {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Bytes of all files; 0 where nobody knows.
    pub bytes_total: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Events that the server accepted since the beginning.
    pub accepted: u64,
    /// Records and events that were refused.
    pub rejected: u64,
    /// Records that were left out on purpose.
    pub skipped: u64,
    /// Parts of an export that are to be fetched.
    pub parts_total: u64,
    /// Parts that were fetched.
    pub parts_done: u64,
    /// Accepted events per second since the beginning.
    pub events_per_second: f64,
    /// Seconds that are left at the speed so far.
    pub seconds_left: Option<f64>,
    /// Why nothing is sent now, or was not for a while since the last reading.
    pub waiting_for: Option<String>,
    /// Until when, in UTC.
    pub waiting_until: Option<String>,
    /// Whether that time is still to come.
    #[serde(skip)]
    pub is_waiting: bool,
}

impl Meter {
    /// Files of so many bytes are to be read, and so many of these were read before.
    pub fn expect(&self, bytes_total: u64) {
        self.bytes_total.fetch_add(bytes_total, Ordering::Relaxed);
    }

    /// Where the bytes that are read are counted.
    #[must_use]
    pub fn bytes_read(&self) -> &Arc<AtomicU64> {
        &self.bytes_read
    }

    /// Bytes that were read before count as well.
    pub fn read_bytes(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were read have to be read again.
    pub fn unread_bytes(&self, bytes: u64) {
        self.bytes_read.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// So many parts are to be fetched.
    pub fn expect_parts(&self, parts: u64) {
        self.parts_total.fetch_add(parts, Ordering::Relaxed);
    }

    /// One part was fetched.
    pub fn part_done(&self) {
        self.parts_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Events were accepted.
    pub fn accepted(&self, events: u64) {
        self.events_accepted.fetch_add(events, Ordering::Relaxed);
    }

    /// Records or events were refused.
    pub fn rejected(&self, records: u64) {
        self.rejected.fetch_add(records, Ordering::Relaxed);
    }

    /// Records were left out.
    pub fn skipped(&self, records: u64) {
        self.skipped.fetch_add(records, Ordering::Relaxed);
    }

    /// Nothing is sent for so long.
    pub fn waits(&self, reason: &str, pause: Duration) {
        let pause = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
        let until = Micros(SystemClock.now().0.saturating_add(pause));
        let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        // Of several that wait, the last one goes on first.
        if wait.as_ref().is_none_or(|known| known.until < until) {
            *wait = Some(Wait {
                until,
                reason: reason.to_owned(),
                is_told: false,
            });
        }
    }

    /// The wait that is on, or of which nobody was told yet, and whether it is on.
    fn wait(&self) -> Option<(Wait, bool)> {
        let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        let known = wait.as_mut()?;
        let is_on = known.until > SystemClock.now();
        if known.is_told && !is_on {
            *wait = None;
            return None;
        }
        known.is_told = true;
        Some((known.clone(), is_on))
    }

    /// What the counters say now.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "for people; they are far below 2^53"
    )]
    pub fn read(&self) -> Reading {
        let seconds = self.began.elapsed().as_secs_f64();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (bytes_total, bytes_read) = (load(&self.bytes_total), load(&self.bytes_read));
        let accepted = load(&self.events_accepted);
        let left = bytes_total.saturating_sub(bytes_read) as f64;
        let wait = self.wait();
        Reading {
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

fn text_of(at: Micros) -> String {
    let mut text = Vec::new();
    millrace_sources::time::write(&mut text, Micros(at.0 - at.0.rem_euclid(1_000_000)));
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_once_at_least_and_as_long_as_it_lasts() {
        let meter = Meter::default();
        assert_eq!(meter.read().waiting_for, None);
        meter.waits("over before anybody looks", Duration::ZERO);
        let reading = meter.read();
        assert_eq!(
            reading.waiting_for.as_deref(),
            Some("over before anybody looks")
        );
        assert!(!reading.is_waiting);
        assert_eq!(meter.read().waiting_for, None);
        meter.waits("long", Duration::from_secs(3_600));
        meter.waits("shorter", Duration::from_secs(60));
        for _ in 0..2 {
            let reading = meter.read();
            assert_eq!(reading.waiting_for.as_deref(), Some("long"));
            assert!(reading.is_waiting && reading.waiting_until.unwrap().ends_with('Z'));
        }
    }
}
