//! Carry-over of previous results: after a run of some cases, the page keeps the results of the
//! others.

use super::cases::CASES;
use super::outcome::EarlierMeasurement;
use super::outcome::Report;
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::Path;

/// Previous report in a folder; none if there is none.
///
/// # Errors
/// The report exists but cannot be read.
pub fn previous(out: &Path) -> Result<Option<Report>> {
    let path = out.join("suite.json");
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let report = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a report of the suite; remove it", path.display()))?;
    Ok(Some(report))
}

/// Adds the results of the cases that were not run, from the report in `out`, if there is one.
/// Short and full runs are not mixed, nor are machines of different kinds.
///
/// # Errors
/// The report exists but cannot be read.
pub fn carry_over(report: &mut Report, out: &Path) -> Result<()> {
    let Some(before) = previous(out)? else {
        return Ok(());
    };
    let (then, now) = (&before.machine, &report.machine);
    if before.quick != report.quick || (&then.cpu, then.cpus) != (&now.cpu, now.cpus) {
        return Ok(());
    }
    let origin = EarlierMeasurement {
        commit: then.commit.clone(),
        date: then.date.clone(),
    };
    for mut outcome in before.outcomes {
        if report.outcomes.iter().all(|it| it.name != outcome.name) {
            outcome.origin.get_or_insert_with(|| origin.clone());
            report.outcomes.push(outcome);
        }
    }
    let place = |name: &str| CASES.iter().position(|case| case.name == name);
    // Results that are no case, such as criterion's, come last, in their order.
    report
        .outcomes
        .sort_by_key(|it| place(&it.name).unwrap_or(CASES.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::machine::Machine;
    use crate::suite::outcome::Outcome;

    fn report(commit: &str, names: &[&str]) -> Report {
        let outcomes = names.iter().map(|name| Outcome {
            name: (*name).to_owned(),
            ..Outcome::default()
        });
        Report {
            machine: Machine {
                commit: commit.to_owned(),
                ..Machine::default()
            },
            command: String::new(),
            quick: false,
            outcomes: outcomes.collect(),
        }
    }

    fn kept(before: &Report, mut now: Report) -> Vec<(String, Option<String>)> {
        let dir = tempfile::tempdir().unwrap();
        carry_over(&mut now, dir.path()).unwrap();
        let json = serde_json::to_vec(before).unwrap();
        std::fs::write(dir.path().join("suite.json"), json).unwrap();
        carry_over(&mut now, dir.path()).unwrap();
        let outcomes = now.outcomes.into_iter();
        outcomes
            .map(|it| (it.name, it.origin.map(|origin| origin.commit)))
            .collect()
    }

    #[test]
    fn results_of_other_cases_keep_their_place_and_name_their_run() {
        let mut before = report("b", &["batches", "gzip", "memory", "bench parse"]);
        before.outcomes[2].origin = Some(EarlierMeasurement {
            commit: "a".to_owned(),
            date: String::new(),
        });
        let now = kept(&before, report("c", &["gzip", "soak"]));
        let expected = [
            ("batches", Some("b")),
            ("gzip", None),
            ("memory", Some("a")),
            ("soak", None),
            ("bench parse", Some("b")),
        ];
        let expected = expected.map(|(name, it)| (name.to_owned(), it.map(str::to_owned)));
        assert_eq!(now, expected);
    }

    #[test]
    fn short_runs_and_other_machines_are_not_mixed() {
        let mut before = report("b", &["gzip"]);
        before.quick = true;
        assert_eq!(kept(&before, report("c", &["soak"])).len(), 1);
        before.quick = false;
        before.machine.cpus = 64;
        assert_eq!(kept(&before, report("c", &["soak"])).len(), 1);
    }
}
