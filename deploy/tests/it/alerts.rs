//! Alerts: Prometheus accepts them, they fire when they must, their metrics exist, and each has a
//! section in the runbook.

use crate::tidy::{files, root};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(name)).unwrap()
}

/// Names of the alerts.
fn alerts() -> BTreeSet<String> {
    let rules = read("prometheus/alerts.yml");
    let names = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: BTreeSet<_> = names.map(str::to_owned).collect();
    assert!(!names.is_empty());
    names
}

/// Names of our metrics, and of those that all processes have, in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter))
        .filter(|word| word.starts_with("millrace_") || word.starts_with("process_"))
        .map(|word| {
            let ends = ["_bucket", "_sum", "_count"].iter();
            let mut names = ends.filter_map(|end| word.strip_suffix(end));
            names.next().unwrap_or(word).to_owned()
        })
        .collect()
}

/// Prometheus' checker: the one of the tests, or the system's.
pub fn promtool() -> PathBuf {
    let ours = root().join(".test-env/prometheus/promtool");
    match ours.exists() {
        true => ours,
        false => "promtool".into(),
    }
}

#[test]
fn prometheus_accepts_the_rules_and_each_alert_fires_in_its_case() {
    let promtool = promtool();
    for args in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
    ] {
        let output = Command::new(&promtool)
            .args(args)
            .current_dir(root().join("deploy/prometheus"))
            .output()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; run `make test-setup`", promtool.display())
            });
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {text}{errors}");
    }
}

#[test]
fn every_alert_has_test_cases_and_a_runbook_section() {
    let (cases, runbook) = (read("prometheus/alerts.test.yml"), read("RUNBOOK.md"));
    for alert in alerts() {
        let tries = cases.matches(&format!("alertname: {alert} ")).count()
            + cases.matches(&format!("alertname: {alert}\n")).count();
        assert_eq!(tries, 2, "{alert} is tried well and unwell");
        assert!(
            runbook.contains(&format!("\n### {alert}\n")),
            "{alert} in RUNBOOK.md"
        );
    }
    let headings = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("### Millrace"));
    assert_eq!(
        headings.count(),
        alerts().len(),
        "sections of alerts that are no more"
    );
}

#[test]
fn every_alert_links_to_its_own_runbook_section() {
    let rules = read("prometheus/alerts.yml");
    let of_alerts = rules.split("      - alert: ").skip(1);
    for text in of_alerts {
        let name = text.lines().next().unwrap();
        let link = format!(
            "runbook_url: \"file:///usr/local/share/doc/millrace/RUNBOOK.md#{}\"",
            name.to_lowercase()
        );
        assert_eq!(text.matches(&link).count(), 1, "{name}: {link}");
    }
    // The unit names the same place.
    let unit = read("systemd/millrace.service");
    assert!(unit.contains("\nDocumentation=file:///usr/local/share/doc/millrace/RUNBOOK.md\n"));
}

#[test]
fn every_metric_in_alerts_and_documents_exists() {
    let sources: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(name, _)| name.contains("/src/") && !name.starts_with("load-tests"))
        .collect();
    let spoken_of = [
        "prometheus/alerts.yml",
        "prometheus/alerts.test.yml",
        "grafana/dashboards.toml",
        "guide/monitoring.md",
        "RUNBOOK.md",
        "../PROMISES.md",
    ];
    for place in spoken_of {
        for metric in metrics(&read(place)) {
            let quoted = format!("\"{metric}\"");
            let is_there = sources.iter().any(|(_, text)| text.contains(&quoted));
            assert!(is_there, "{metric} in {place}");
        }
    }
}
