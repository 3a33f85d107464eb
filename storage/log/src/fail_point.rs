//! Fail points: places where a test has the process kill itself, as a crash at just that moment
//! would, or hang.
//!
//! Only with the feature `failpoints`, which no released binary has: without it [`pass`] is empty,
//! and no instruction of this is in the program. A point is a variant and not a text, as in the
//! `fail` crate, so that a misspelt one does not compile and a test can list them all; since a
//! point can only kill, it needs nothing but a counter.
//!
//! The points of the layer above are here as well, so that there is one list to choose from.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// A point at which a process may be killed, in the order in which a batch passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum FailPoint {
    /// A frame was written and not synced.
    FrameAppended,
    /// A group was synced and none of its requests was answered.
    GroupSynced,
    /// A request was answered; others of its group may not have been.
    RequestAnswered,
    /// A new segment was made; its name is not durable.
    SegmentMade,
    /// A checkpoint is about to be written.
    CheckpointDue,
    /// The new checkpoint was written and does not have its name.
    CheckpointWritten,
    /// The new checkpoint has its name, which is not durable.
    CheckpointRenamed,
    /// The new checkpoint is durable; nothing was sent or released because of it.
    CheckpointStored,
    /// An insert is about to be sent.
    InsertDue,
    /// ClickHouse answered that an insert is stored, and the answer is not recorded yet.
    InsertAnswered,
    /// A segment is about to be deleted.
    SegmentDue,
    /// The segment was deleted, which is not durable.
    SegmentDeleted,
    /// At a start: all segments were read, nothing was changed.
    RecoveryRead,
    /// At a start: the last segment was copied, the copy does not have its name.
    RecoveryCopied,
    /// At a start: the copy has its name, which is not durable.
    RecoveryRenamed,
}

impl FailPoint {
    /// All fail points.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Name of the point as it is typed: `frame-appended`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Passes a fail point. Kills the process if it was armed for this passing.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn pass(_point: FailPoint) {}

#[cfg(feature = "failpoints")]
pub use armed::{Armed, pass};

#[cfg(feature = "failpoints")]
mod armed {
    use super::FailPoint;
    use rustix::process::{Signal, getpid, kill_process};
    use std::io::Write;
    use std::str::FromStr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    static ARMED: OnceLock<Armed> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    /// Fail point that is armed, written `POINT:NTH`, to kill at its n-th passing, or
    /// `POINT:NTH+MILLISECONDS`, to kill so long after it; with `POINT:NTH+stays` the thread never
    /// goes on from there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Armed {
        point: FailPoint,
        /// Number of the passing, from 1.
        nth: u64,
        /// Delay of the kill; `None` if the thread hangs instead.
        delay: Option<Duration>,
    }

    impl FromStr for Armed {
        type Err = String;

        fn from_str(text: &str) -> Result<Self, String> {
            let form = || "give POINT:NTH, POINT:NTH+MILLISECONDS or POINT:NTH+stays".to_owned();
            let (name, when) = text.split_once(':').ok_or_else(form)?;
            let (nth, delay) = when.split_once('+').unwrap_or((when, "0"));
            let delay = match delay {
                "stays" => None,
                millis => Some(Duration::from_millis(millis.parse().map_err(|_| form())?)),
            };
            let point =
                FailPoint::from_str(name).map_err(|_| format!("there is no fail point {name}"))?;
            Ok(Self {
                point,
                nth: nth.parse().map_err(|_| form())?,
                delay,
            })
        }
    }

    impl Armed {
        /// Arms the point in this process. Once only: later calls change nothing.
        pub fn arm(self) {
            ARMED.get_or_init(|| self);
        }
    }

    /// Passes a fail point. Kills the process if it was [armed](Armed::arm) for this passing.
    pub fn pass(point: FailPoint) {
        let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else {
            return;
        };
        if PASSED.fetch_add(1, Ordering::Relaxed) + 1 != armed.nth {
            return;
        }
        let _ = writeln!(std::io::stderr(), "fail point {}", point.name());
        let Some(delay) = armed.delay else {
            loop {
                std::thread::park();
            }
        };
        if delay.is_zero() {
            die();
        }
        let killer = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(delay);
            die();
        });
        if killer.is_err() {
            die();
        }
    }

    /// Kills the process: no destructor runs, nothing is flushed.
    fn die() -> ! {
        // A process is always allowed to kill itself.
        let _ = kill_process(getpid(), Signal::KILL);
        loop {
            std::thread::park();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_point_is_armed_by_name_passing_and_delay() {
            let armed = |point, nth, delay_ms: Option<u64>| Armed {
                point,
                nth,
                delay: delay_ms.map(Duration::from_millis),
            };
            for (text, expected) in [
                (
                    "group-synced:12",
                    armed(FailPoint::GroupSynced, 12, Some(0)),
                ),
                ("insert-due:3+7", armed(FailPoint::InsertDue, 3, Some(7))),
                (
                    "recovery-read:1+stays",
                    armed(FailPoint::RecoveryRead, 1, None),
                ),
            ] {
                assert_eq!(text.parse(), Ok(expected), "{text}");
            }
            for text in [
                "",
                "group-synced",
                "group-synced:",
                "nowhere:1",
                "group-synced:1+x",
            ] {
                assert!(text.parse::<Armed>().is_err(), "{text}");
            }
        }
    }
}
