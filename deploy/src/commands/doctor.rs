//! `millrace doctor`: checks the installation, and says what to do.

use super::list_format::{ListFormat, print_object};
use crate::commands::counted;
use crate::config::Config;
use crate::doctor::{self, Finding, Status};
use crate::output;
use crate::serve::Parts;
use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;

/// Arguments of `millrace doctor`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Doctor {
    /// Mode that is to run here
    #[arg(long, value_enum, default_value_t = Mode::Serve, value_name = "MODE")]
    mode: Mode,
    /// Format of the findings
    #[command(flatten)]
    format: ListFormat,
}

/// Mode of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Everything in one process
    Serve,
    /// Ingestion alone
    Ingest,
    /// The organization API alone
    Admin,
}

impl Mode {
    const fn parts(self) -> Parts {
        match self {
            Self::Serve => Parts::ALL,
            Self::Ingest => Parts::INGEST,
            Self::Admin => Parts::ADMIN,
        }
    }
}

/// Prints the findings.
///
/// # Errors
/// When one of them is an error.
pub fn run(config: &Config, arguments: Doctor) -> anyhow::Result<()> {
    let findings = doctor::check(config, arguments.mode.parts())?;
    let errors = number_of(&findings, Status::Error);
    let warnings = number_of(&findings, Status::Warning);
    if arguments.format.is_json() {
        print_object(&json!({ "checks": findings, "errors": errors, "warnings": warnings }));
    } else {
        for finding in &findings {
            output::print(&finding.lines());
        }
    }
    match errors {
        0 => Ok(()),
        errors => bail!(
            "{} and {} found; each is followed by what to do",
            counted(errors, "error"),
            counted(warnings, "warning")
        ),
    }
}

fn number_of(findings: &[Finding], status: Status) -> u64 {
    let found = findings.iter().filter(|finding| finding.status == status);
    found.count() as u64
}
