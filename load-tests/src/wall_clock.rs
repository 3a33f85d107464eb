//! Time of day, in the format of events.

use crate::stop::Stop;
use jiff::SignedDuration;
use jiff::civil::{self, DateTime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);

/// Interval at which a wait looks whether it is to end early.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Length of [`seconds_text`] in bytes.
pub const SECONDS_TEXT_BYTES: usize = 19;

/// Time since 1970; 0 if the machine's clock is before that.
#[must_use]
#[allow(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock; this tool imports nothing of the server's"
)]
pub fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Waits until a time since 1970, or until the run is asked to end.
pub fn wait_until(time: Duration, stop: &Stop) {
    loop {
        let left = time.saturating_sub(since_epoch());
        if left.is_zero() || stop.is_asked() {
            return;
        }
        std::thread::sleep(left.min(STOP_CHECK_INTERVAL));
    }
}

/// Current second, such as `2026-11-20T23:21:00Z`.
#[must_use]
pub fn now_text() -> String {
    let seconds = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
    format!("{}Z", String::from_utf8_lossy(&seconds_text(seconds)))
}

/// Text of a second since 1970, such as `2026-11-20T23:21:00`, without fraction and `Z`.
#[must_use]
pub fn seconds_text(epoch_seconds: i64) -> [u8; SECONDS_TEXT_BYTES] {
    let since_epoch = SignedDuration::from_secs(epoch_seconds);
    let at = EPOCH.checked_add(since_epoch).unwrap_or(EPOCH);
    let text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    text.as_bytes()
        .try_into()
        .unwrap_or(*b"1970-01-01T00:00:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_time_or_when_it_is_asked_to() {
        let stop = Stop::default();
        let time = since_epoch() + Duration::from_millis(50);
        wait_until(time, &stop);
        assert!(since_epoch() >= time);
        stop.ask();
        wait_until(Duration::MAX, &stop);
    }

    #[test]
    fn seconds_have_a_fixed_width() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (1_795_216_860, "2026-11-20T23:21:00"),
            (i64::MAX, "1970-01-01T00:00:00"),
        ] {
            assert_eq!(seconds_text(seconds), text.as_bytes(), "{seconds}");
        }
    }
}
