//! Tests of the command line.

use super::*;
use clap::CommandFactory;
use millrace_load::Mode;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn run_is_the_default_command() {
    let typed = [
        "millrace-load",
        "--url",
        "http://h",
        "--key",
        "k",
        "-b",
        "10",
    ];
    let plan = Cli::parse_from(typed).run.plan().unwrap();
    assert_eq!((plan.batch_events, plan.event_bytes), (10, 998));
    assert_eq!(plan.mode, Mode::Closed);
}

#[test]
fn a_missing_option_is_named() {
    let plan = Cli::parse_from(["millrace-load"]).run.plan();
    assert!(plan.unwrap_err().to_string().contains("--url"));
    let typed = ["millrace-load", "-e", "129"];
    assert!(Cli::try_parse_from(typed).is_err());
}
