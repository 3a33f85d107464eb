//! `millrace config`: the settings with their values and origins.

use super::ListFormat;
use super::list_format::print_object;
use crate::config::{Config, Layers, show, shown_settings};
use crate::output;
use clap::Command;
use serde_json::json;

/// Prints the settings, as a file that gives the same result or as JSON.
pub fn show_settings(program: &Command, config: &Config, layers: &Layers, format: ListFormat) {
    let settings = shown_settings(program, layers, config);
    match format.is_json() {
        true => print_object(&json!({ "settings": settings })),
        false => output::print(&show(&settings)),
    }
}
