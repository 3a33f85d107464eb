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
fn stages_are_the_window_of_an_open_loop() {
    let target = ["millrace-load", "--url", "http://h", "--key", "k"];
    let plan = |words: &[&str]| {
        let typed = Cli::try_parse_from(target.iter().chain(words));
        typed.map(|cli| cli.run.plan().unwrap())
    };
    let stages = plan(&["--stage", "30s:1000,1m:1000..5000", "--stage", "10s:5000"]).unwrap();
    assert_eq!(stages.duration, std::time::Duration::from_secs(100));
    assert!(matches!(stages.mode, Mode::Stages(stages) if stages.len() == 3));
    for other in [["--rate", "5"], ["--duration", "5s"], ["--requests", "5"]] {
        let words = [&["--stage", "30s:1000"][..], &other].concat();
        assert!(plan(&words).is_err(), "{other:?}");
    }
    assert!(plan(&["--stage", "1000"]).is_err());
}

#[test]
fn a_start_has_a_date_and_a_zone() {
    let start = |text| {
        let typed = Cli::try_parse_from(["millrace-load", "--start-at", text]);
        typed.map(|cli| cli.run.load.start_at.unwrap().as_millis())
    };
    for (text, millis) in [
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-02T01:00:00+01:00", 86_400_000),
    ] {
        assert_eq!(start(text).unwrap(), millis, "{text}");
    }
    for text in ["12:00", "2026-11-30T12:00:00", "1969-12-31T00:00:00Z"] {
        let error = start(text).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_missing_option_is_named() {
    let plan = Cli::parse_from(["millrace-load"]).run.plan();
    assert!(plan.unwrap_err().to_string().contains("--url"));
    let typed = ["millrace-load", "-e", "129"];
    assert!(Cli::try_parse_from(typed).is_err());
}
