//! Panics while the log is read. Each start meets them again at the same place, so they say which.

use millrace_log::{Position, panic_text};
use std::any::Any;
use thiserror::Error;

/// Panic while a frame of the log was read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("reading it panicked at {at}, in its file {}: {reason}", .at.file_name())]
pub struct LogPanic {
    /// Position of the frame, or of its end.
    pub at: Position,
    /// Text of the panic.
    pub reason: String,
}

impl LogPanic {
    /// Describes a panic that was caught.
    pub(crate) fn new(at: Position, panic: &(dyn Any + Send)) -> Self {
        Self {
            at,
            reason: panic_text(panic).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_names_position_and_file() {
        let at = Position {
            segment: 7,
            offset: 4_096,
        };
        assert_eq!(
            LogPanic::new(at, &"a mistake").to_string(),
            "reading it panicked at 7:4096, in its file 00000000000000000007.log: a mistake"
        );
    }
}
