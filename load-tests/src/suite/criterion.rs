//! Results of criterion's benches, as tables of the same page.
//!
//! criterion writes `<group>/<bench>/new/{benchmark,estimates}.json`. A bench is named
//! `<who>/<workload>`, so a group is a table of contestants by workload.

use super::figure::{FigureName, Unit};
use super::findings::{Cell, Findings};
use super::outcome::Outcome;
use super::render;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Deserialize)]
struct Benchmark {
    group_id: String,
    function_id: Option<String>,
    throughput: Option<Throughput>,
}

/// Throughput of a bench; ours count events, others bytes.
#[derive(Debug, Deserialize)]
struct Throughput {
    #[serde(rename = "Elements")]
    events: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    /// Estimated time in nanoseconds.
    point_estimate: f64,
}

/// Rates in millions of events per second, by contestant and workload.
type Group = BTreeMap<String, BTreeMap<String, f64>>;

/// Reads a table per group in criterion's folder; empty if nothing was benched.
///
/// # Errors
/// A file of criterion's has an unknown format.
pub fn read(dir: &Path) -> Result<Vec<Outcome>> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for bench in folders(dir).iter().flat_map(|group| folders(group)) {
        let results = bench.join("new");
        if !results.join("benchmark.json").is_file() {
            continue;
        }
        let benchmark: Benchmark = json(&results.join("benchmark.json"))?;
        let estimates: Estimates = json(&results.join("estimates.json"))?;
        let (Some(name), Some(events)) = (
            benchmark.function_id,
            benchmark
                .throughput
                .and_then(|throughput| throughput.events),
        ) else {
            continue;
        };
        let (who, workload) = name.rsplit_once('/').unwrap_or((&name, "events"));
        let rate = events as f64 * 1000.0 / estimates.median.point_estimate;
        let group = groups.entry(benchmark.group_id).or_default();
        let of = group.entry(who.to_owned()).or_default();
        of.insert(workload.to_owned(), rate);
    }
    Ok(groups
        .into_iter()
        .map(|(name, group)| table(&name, &group))
        .collect())
}

fn table(name: &str, group: &Group) -> Outcome {
    let mut workloads: Vec<&str> = group
        .values()
        .flat_map(BTreeMap::keys)
        .map(String::as_str)
        .collect();
    workloads.sort_unstable();
    workloads.dedup();
    let columns: Vec<_> = ["million events/s"]
        .into_iter()
        .chain(workloads.iter().copied())
        .collect();
    let mut findings = Findings::with_columns(&columns);
    for (who, rates) in group {
        let mut row = vec![Cell::from(who.clone())];
        row.extend(workloads.iter().map(|workload| match rates.get(*workload) {
            Some(rate) => Cell::Decimals(*rate, 3),
            None => Cell::Absent,
        }));
        findings.rows.push(row);
        for (workload, rate) in rates {
            let subject = format!("{who}/{workload}");
            findings.figure(
                FigureName::new(subject, Unit::MillionEventsPerSecond),
                *rate,
            );
        }
    }
    render::outcome(
        &format!("bench-{name}"),
        &format!("Bench `{name}`"),
        findings,
    )
}

/// Folders in a folder, sorted by name; empty if it does not exist.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort_unstable();
    folders
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not criterion's", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_table_of_contestants_by_workload() {
        let dir = tempfile::tempdir().unwrap();
        for (bench, nanos) in [
            ("ours/big", 250.0),
            ("ours/small", 1000.0),
            ("gzip/theirs/big", 500.0),
        ] {
            let new = dir
                .path()
                .join("parse")
                .join(bench.replace('/', "_"))
                .join("new");
            std::fs::create_dir_all(&new).unwrap();
            let benchmark = format!(
                r#"{{"group_id":"parse","function_id":"{bench}","throughput":{{"Elements":250}}}}"#
            );
            std::fs::write(new.join("benchmark.json"), benchmark).unwrap();
            let estimates = format!(r#"{{"median":{{"point_estimate":{nanos}}}}}"#);
            std::fs::write(new.join("estimates.json"), estimates).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("report")).unwrap();
        let outcomes = read(dir.path()).unwrap();
        assert_eq!(
            render::markdown(&outcomes[0]),
            "| million events/s | big | small |\n| --- | ---: | ---: |\n\
             | gzip/theirs | 500.000 | – |\n| ours | 1000.000 | 250.000 |\n"
        );
        assert_eq!(outcomes.len(), 1);
    }

    #[test]
    fn a_missing_folder_gives_no_tables() {
        assert!(read(Path::new("/nonexistent")).unwrap().is_empty());
    }
}
