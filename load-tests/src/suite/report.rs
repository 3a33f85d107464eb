//! Results of a run of the suite.

use super::machine::Machine;
use super::outcome::Outcome;
use serde::{Deserialize, Serialize};

/// Results of a run of the suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Machine, commit and date.
    pub machine: Machine,
    /// Command line of the run.
    pub command: String,
    /// True for a short run.
    pub quick: bool,
    /// Results of the cases, in their order.
    pub outcomes: Vec<Outcome>,
}
