//! Format of lists: tables and sentences for people, one JSON object for programs.

use crate::output;
use clap::Args;
use serde_json::Value;

/// Format of a list.
#[derive(Args, Clone, Copy, Debug)]
pub struct ListFormat {
    /// Print one JSON object instead of tables and sentences
    #[arg(long)]
    json: bool,
}

impl ListFormat {
    /// Returns true if the list is for programs.
    #[must_use]
    pub const fn is_json(self) -> bool {
        self.json
    }
}

/// Prints the object of a list. It has the list under a name, so that more can be added to it.
pub fn print_object(object: &Value) {
    output::print_json(&object.to_string());
}
