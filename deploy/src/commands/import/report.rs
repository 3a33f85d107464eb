//! `millrace import report`: compares imports with each other.

use super::options::Common;
use super::reconcile::differing_counts;
use crate::commands::table;
use crate::output;
use clap::Args;
use millrace_import::journal::{Journal, Progress};
use millrace_import::staging::LoadFolder;
use serde_json::json;
use std::path::Path;

/// Arguments of `report`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
}

/// An import with the folder of its journal.
type LoadProgress = (LoadFolder, Progress);

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let staging = arguments.common.existing()?;
    let mut loads: Vec<LoadProgress> = Vec::new();
    for folder in staging.loads()? {
        let progress = Journal::read(&folder.journal())?;
        // An import of which nothing was accepted has nothing to compare.
        if !progress.files.is_empty() {
            loads.push((folder, progress));
        }
    }
    let differing = loads.windows(2).map(|pair| match pair {
        [(_, one), (_, other)] => one.sum.accepted.differing(&other.sum.accepted),
        _ => 0,
    });
    let differing: usize = differing.sum();
    if arguments.common.json {
        print_json_report(&loads, differing);
        return Ok(());
    }
    let headings = [
        "PROJECT KEY",
        "FILES",
        "RECORDS",
        "ACCEPTED",
        "SKIPPED",
        "REJECTED",
    ];
    let rows = loads.iter().map(row).collect();
    let none = "Nothing was loaded from this staging folder.";
    table::print(headings, rows, none);
    if loads.len() > 1 {
        output::print(&match differing {
            0 => "They brought the same events of each day and name.".to_owned(),
            count => format!("{} between them.", differing_counts(count)),
        });
    }
    Ok(())
}

fn print_json_report(loads: &[LoadProgress], differing: usize) {
    let list: Vec<_> = loads
        .iter()
        .map(|(folder, progress)| json!({ "project_key": folder.name(), "sum": progress.sum }))
        .collect();
    let result = json!({ "loads": list, "different_counts": differing });
    output::print_json(&json!({ "stage": "report", "result": result }).to_string());
}

/// Row of an import in the table.
fn row((folder, progress): &LoadProgress) -> [String; 6] {
    let sum = &progress.sum;
    // Resent rejects are in the journal as well.
    let resending = folder.resending();
    let is_source = |name: &str| Path::new(name).file_name() != resending.file_name();
    let files = progress.files.iter().filter(|(name, _)| is_source(name));
    let done = files.clone().filter(|(_, file)| file.is_end).count();
    [
        folder.name(),
        format!("{done}/{}", files.count()),
        sum.records.to_string(),
        sum.accepted.total().to_string(),
        sum.skipped.to_string(),
        sum.rejected.values().sum::<u64>().to_string(),
    ]
}
