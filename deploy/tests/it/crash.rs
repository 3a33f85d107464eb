//! Kills of every process and power cuts at any moment: each acknowledged event is in ClickHouse
//! exactly once, accepted or rejected. `make torture` does the same for longer.

use crate::disk::{SmallDisk, is_in_mount_namespace};
use crate::server::millrace;
use millrace_load::Stop;
use millrace_load::crash::disk::FileSystem;
use millrace_load::crash::kill::{Kind, POINTS};
use millrace_load::crash::report::Report;
use millrace_load::crash::{Options, crash};
use millrace_log::fail_point::FailPoint;
use std::collections::BTreeSet;
use std::io::Write;
use tempfile::TempDir;

/// Kills that end each process at least once in every way, some of them more often.
const KILLS: u32 = 60;
/// Power cuts on XFS, which differs from ext4 in its syncs; our code is the same.
const XFS_CUTS: u32 = 12;
/// Fail points besides random moments: names or lengths were just changed, or a request was just
/// answered.
const XFS_POINTS: [&str; 3] = ["request-answered", "segment-made", "checkpoint-stored"];
/// Seed of the kills, which are equal in every run; their moments differ all the same.
const SEED: u64 = 20_261_121;

fn kill(kinds: &[Kind], kills: u32, folder_kills: u32, power: Option<FileSystem>) -> Report {
    if !cfg!(feature = "failpoints") {
        panic!("the program under test needs its fail points: --all-features, as in `make test`");
    }
    let dir = TempDir::new().unwrap();
    let server = millrace().get_program().into();
    let options = Options {
        kinds: kinds.to_vec(),
        folder_kills,
        power,
        jobs: 4,
        seed: SEED,
        ..Options::new(server, dir.path().to_owned(), kills)
    };
    let report = crash(&options, &Stop::default(), &|text| println!("{text}")).unwrap();
    for note in &report.notes {
        // To the terminal, as nobody sees the output of a test that passes.
        let _ = writeln!(std::io::stderr(), "\n\n{note}\n\n");
    }
    if !report.is_clean() {
        println!("kept: {}", dir.keep().display());
        panic!("{report}");
    }
    assert_eq!(report.kills(), u64::from(kills));
    println!("{report}");
    report
}

#[test]
fn every_acknowledged_event_is_stored_once_after_kills_of_every_kind() {
    let report = kill(&Kind::all(), KILLS, 15, None);
    assert!(
        report.acknowledged_events >= 1_000 * u64::from(KILLS),
        "{report}"
    );
    assert!(report.rejected_events >= 10 * u64::from(KILLS), "{report}");
}

#[test]
fn rows_whose_token_was_spent_before_their_part_had_a_name_are_sent_again() {
    let report = kill(&[Kind::PartRename], 8, 2, None);
    assert!(
        report.resent_blocks > 0 || !report.notes.is_empty(),
        "{report}"
    );
}

#[test]
fn every_acknowledged_event_is_stored_once_after_power_cuts() {
    if !is_in_mount_namespace("crash::every_acknowledged_event_is_stored_once_after_power_cuts") {
        return;
    }
    cut_power(FileSystem::Ext4, &Kind::all(), KILLS, 15);
}

#[test]
fn every_acknowledged_event_is_stored_once_after_power_cuts_on_xfs() {
    if !is_in_mount_namespace(
        "crash::every_acknowledged_event_is_stored_once_after_power_cuts_on_xfs",
    ) {
        return;
    }
    let is_drawn = |kind: &Kind| match kind {
        Kind::Random(_) => true,
        Kind::At(point) => XFS_POINTS.contains(&point.name),
        Kind::PartRename => false,
    };
    let kinds: Vec<_> = Kind::all().into_iter().filter(is_drawn).collect();
    cut_power(FileSystem::Xfs, &kinds, XFS_CUTS, 6);
}

/// Runs kills with power cuts, where loop devices are allowed.
fn cut_power(file_system: FileSystem, kinds: &[Kind], cuts: u32, folder_cuts: u32) {
    let dir = TempDir::new().unwrap();
    if SmallDisk::on_loop(file_system, &dir.path().join("tried"), 320 << 20).is_none() {
        return;
    }
    let report = kill(kinds, cuts, folder_cuts, Some(file_system));
    assert_eq!(report.power_cuts, u64::from(cuts));
    assert!(
        report.acknowledged_events >= 1_000 * u64::from(cuts),
        "{report}"
    );
}

#[test]
fn every_fail_point_of_the_server_is_among_the_kills() {
    let tried: BTreeSet<_> = POINTS.map(|point| point.server_name).into();
    let there: BTreeSet<_> = FailPoint::ALL.iter().map(|it| it.name()).collect();
    assert_eq!(tried, there);
}
