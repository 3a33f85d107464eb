//! Killed importers resume where they stopped.

use super::{TestEnv, write_events};
use millrace_rows::testing::number_from_env;
use rand::RngExt;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;

/// Longest time that an import runs before it is killed.
const FUSE_MAX: Duration = Duration::from_secs(3);

#[test]
fn an_import_killed_repeatedly_stores_every_event_once() {
    let events: u64 = number_from_env("MILLRACE_IMPORT_EVENTS", 20_000);
    let kills: u64 = number_from_env("MILLRACE_IMPORT_KILLS", 6);
    let seed = number_from_env("SEED", 7);
    let mut random: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(seed);
    let env = TestEnv::start();
    write_events(&env.path("events.ndjson"), events);
    // Small chunks, so that there are many points to be killed at.
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
        // An import that is done too early begins anew: nothing of it may be stored twice.
        let anew: &[&str] = if is_done { &["--restart"] } else { &[] };
        let mut child = env
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
            // Long enough for some progress on a busy machine.
            fuse_max = (fuse_max * 5 / 4).min(FUSE_MAX);
        }
    }
    println!("{killed} kills in {runs} runs");
    env.wait_for_events(events);
    let missing = "SELECT count() FROM (SELECT DISTINCT JSONExtractUInt(properties, 'number') FROM millrace.events)";
    env.server.wait_for(missing, &events.to_string());
    let (result, code) = env.result(&["reconcile", "events.ndjson"]);
    assert_eq!(code, Some(0), "{result}");
}

/// Loads invalid records, and corrects two of three; returns the rejects file.
fn correct_rejects(env: &TestEnv, records: u64) -> String {
    let line = |number: u64| {
        let (event, month) = (["a", "b"][number as usize % 2], number % 3 + 1);
        json!({ "event": event, "timestamp": format!("2024-{month:02}-05"), "properties": { "number": number } })
    };
    let lines: String = (0..records).map(|it| format!("{}\n", line(it))).collect();
    std::fs::write(env.path("events.ndjson"), lines).unwrap();
    let (loaded, _) = env.result(&["load", "events.ndjson"]);
    assert_eq!(loaded["rejected"], records, "{loaded}");
    let rejects = loaded["rejects"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(env.path(&rejects)).unwrap();
    let corrected: String = (0..)
        .zip(text.lines())
        .map(|(place, line)| match place % 3 {
            0 => format!("{line}\n"),
            _ => line.replace(r#""raw":{"#, r#""raw":{"distinct_id":"b","#) + "\n",
        })
        .collect();
    std::fs::write(env.path(&rejects), corrected).unwrap();
    rejects
}

#[test]
fn a_resend_killed_repeatedly_counts_and_stores_every_record_once() {
    const RECORDS: u64 = 6_000;
    let kills: u64 = number_from_env("MILLRACE_IMPORT_KILLS", 3);
    let mut random: rand::rngs::StdRng =
        rand::SeedableRng::seed_from_u64(number_from_env("SEED", 7));
    let env = TestEnv::start();
    let rejects = correct_rejects(&env, RECORDS);
    let args = format!(
        "load --rejects {rejects} --request-events 50 --parallel-requests 2 --chunk-bytes 9000"
    );
    let args: Vec<_> = args.split(' ').collect();
    let (mut killed, mut fuse_max) = (0, Duration::from_millis(80));
    loop {
        let mut child = env
            .command(&args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if killed < kills {
            std::thread::sleep(random.random_range(Duration::ZERO..fuse_max));
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        if status.success() {
            break;
        }
        assert!(killed < kills, "it failed by itself: {status}");
        killed += 1;
        fuse_max = (fuse_max * 5 / 4).min(FUSE_MAX);
    }
    println!("{killed} kills");
    let (result, _) = env.result(&args[..3]);
    let counts = (&result["records"], &result["accepted"], &result["rejected"]);
    let (all, taken, left) = (RECORDS, RECORDS / 3 * 2, RECORDS / 3);
    assert_eq!(
        counts,
        (&json!(all), &json!(taken), &json!(left)),
        "{result}"
    );
    env.wait_for_events(taken);
    let text = std::fs::read_to_string(env.path(&rejects)).unwrap();
    let lines: std::collections::HashSet<&str> = text.lines().collect();
    assert_eq!(
        (lines.len() as u64, text.lines().count() as u64),
        (left, left)
    );
    let (result, code) = env.result(&["reconcile", "events.ndjson"]);
    assert_eq!(code, Some(0), "{result}");
}
