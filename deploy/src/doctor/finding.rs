//! Findings of a check.

use millrace_rows::shown;
use serde::Serialize;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing is to be done.
    Ok,
    /// It works, but worse than it could, or not for long.
    Warning,
    /// A start fails, or something does not work.
    Error,
}

/// Finding about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the thing that was checked.
    pub check: &'static str,
    /// Outcome.
    pub status: Status,
    /// Description of what was found.
    pub found: String,
    /// Next step; `None` where nothing is to be done.
    pub advice: Option<String>,
}

impl Status {
    /// Name of the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Finding {
    /// Finding that is well.
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            status: Status::Ok,
            found: found.into(),
            advice: None,
        }
    }

    /// Finding that works, with what makes it better.
    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            status: Status::Warning,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }

    /// Finding that does not work, with what to do.
    pub(super) fn error(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Error,
            ..Self::warning(check, found, advice)
        }
    }

    /// Lines for people: what was found, and below it the next step.
    #[must_use]
    pub fn lines(&self) -> String {
        let head = format!(
            "{:<8} {:<12} {}",
            self.status.name(),
            self.check,
            shown(&self.found)
        );
        match &self.advice {
            Some(advice) => format!("{head}\n{:21} To do: {}", "", shown(advice)),
            None => head,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_with_the_next_step_below() {
        let table = [
            (
                Finding::ok("disk", "20 GiB"),
                "ok       disk         20 GiB",
            ),
            (
                Finding::error("port", "is\ntaken", "give another"),
                "error    port         is\\u{a}taken\n                      To do: give another",
            ),
        ];
        for (finding, lines) in table {
            assert_eq!(finding.lines(), lines);
        }
    }
}
