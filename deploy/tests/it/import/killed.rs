//! Importers that are killed go on where they were.

use super::{Stand, write_events};
use crate::server::number;
use rand::RngExt;
use std::process::Stdio;
use std::time::Duration;

/// The longest that an import runs before it is killed.
const FUSE_MAX: Duration = Duration::from_secs(3);

#[test]
fn an_import_that_is_killed_again_and_again_stores_every_event_once() {
    let events = number("MILLRACE_IMPORT_EVENTS", 20_000);
    let kills = number("MILLRACE_IMPORT_KILLS", 6);
    let seed = number("SEED", 7);
    let mut random: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(seed);
    let stand = Stand::start();
    write_events(&stand.path("events.ndjson"), events);
    // Small stretches, so that there are many places to be killed at.
    let chunk_bytes = (events * 40 / kills).clamp(20_000, 4_000_000).to_string();
    let args: [&str; 8] = [
        "load",
        "events.ndjson",
        "--request-events",
        "250",
        "--parallel-requests",
        "4",
        "--chunk-bytes",
        &chunk_bytes,
    ];
    let (mut killed, mut runs, mut is_done) = (0, 0, false);
    let mut fuse_max = Duration::from_millis(50);
    while killed < kills || !is_done {
        runs += 1;
        // One that is done before it was killed often enough begins anew: nothing of it may be stored twice.
        let anew: &[&str] = if is_done { &["--restart"] } else { &[] };
        let mut child = stand
            .command(&[&args, anew].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let is_to_be_killed = killed < kills;
        if is_to_be_killed {
            std::thread::sleep(random.random_range(Duration::ZERO..fuse_max));
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        is_done = status.success();
        assert!(is_done || is_to_be_killed, "it failed by itself: {status}");
        if !is_done {
            killed += 1;
            // Long enough that some get anywhere on a busy machine.
            fuse_max = (fuse_max * 5 / 4).min(FUSE_MAX);
        }
    }
    println!("{killed} kills in {runs} runs");
    stand.wait_for_events(events);
    let missing = "SELECT count() FROM (SELECT DISTINCT JSONExtractUInt(properties, 'number') FROM millrace.events)";
    stand.server.wait_for(missing, &events.to_string());
    let (result, code) = stand.result(&["reconcile", "events.ndjson"]);
    assert_eq!(code, Some(0), "{result}");
}
