//! Stages of an import, in order and one by one.

use super::{TestEnv, write_events};
use crate::server::{Server, ask, millrace, post};
use serde_json::{Value, json};
use std::io::Write;
use tempfile::TempDir;

const BAD: &str = "{\"event\":\"nobody's\",\"timestamp\":\"2024-01-05\"}\n\
    {\"event\":\"broken\",\"distinct_id\":\"a\",\"timestamp\":\"2024-01-05\",\"properties\":{\"a\":tru}}\n\
    {\"event\":\"never\",\"distinct_id\":\"a\"}\nnonsense\n";

pub fn rejects(env: &TestEnv) -> String {
    let key = env.server.credential("project_api_key");
    format!("millrace-import/loads/{key}/rejects.ndjson")
}

#[test]
fn the_same_import_run_twice_adds_nothing() {
    let env = TestEnv::start();
    write_events(&env.path("events.ndjson"), 5_000);
    let (first, code) = env.result(&["load", "events.ndjson"]);
    assert_eq!((&first["accepted"], code), (&json!(5_000), Some(0)));
    env.wait_for_events(5_000);
    let (again, code) = env.result(&["load", "events.ndjson"]);
    assert_eq!((&again["accepted_now"], code), (&json!(0), Some(0)));
    let (anew, code) = env.result(&["load", "events.ndjson", "--restart"]);
    assert_eq!((&anew["accepted_now"], code), (&json!(5_000), Some(0)));
    // A compressed copy in another folder counts as the same file.
    let packed = zstd::encode_all(&*std::fs::read(env.path("events.ndjson")).unwrap(), 1).unwrap();
    std::fs::create_dir(env.path("other")).unwrap();
    std::fs::write(env.path("other/events.ndjson.zst"), packed).unwrap();
    let args = [
        "load",
        "other",
        "--staging",
        "other-staging",
        "--request-events",
        "77",
    ];
    let (other, code) = env.result(&args);
    assert_eq!((&other["accepted_now"], code), (&json!(5_000), Some(0)));
    env.server
        .capture(&json!([{"event": "last", "distinct_id": "a"}]));
    env.server.wait_for(
        "SELECT count() FROM millrace.events WHERE event = 'last'",
        "1",
    );
    env.wait_for_events(5_000);
    let (result, code) = env.result(&["reconcile", "events.ndjson"]);
    assert_eq!(code, Some(0), "{result}");
}

#[test]
fn rejects_are_predicted_by_check_kept_by_load_and_resent() {
    let env = TestEnv::start();
    let path = env.path("events.ndjson");
    write_events(&path, 300);
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    // More than the server lists in one response.
    file.write_all(BAD.repeat(150).as_bytes()).unwrap();
    let by_code = json!({
        "invalid_json": 300, "missing_distinct_id": 150, "missing_timestamp": 150,
    });

    let (checked, code) = env.result(&["check", "events.ndjson"]);
    assert_eq!((&checked["rejected"], code), (&by_code, Some(1)));
    assert_eq!(checked["records"], 900);
    assert_eq!(checked["rejects"].as_array().unwrap().len(), 9);
    for (allowed, expected) in [("599", 1), ("600", 0), ("66%", 1), ("67%", 0)] {
        let (_, code) = env.result(&["check", "events.ndjson", "--max-bad", allowed]);
        assert_eq!(code, Some(expected), "{allowed}");
    }

    let (loaded, code) = env.result(&["load", "events.ndjson"]);
    assert_eq!((&loaded["rejected_by_code"], code), (&by_code, Some(0)));
    env.wait_for_events(300);

    // Corrected by hand in the file: events without a user get one.
    let path = env.path(&rejects(&env));
    let text = std::fs::read_to_string(&path).unwrap();
    let ordinals = text.lines().map(|line| {
        let reject: Value = serde_json::from_str(line).unwrap();
        assert_eq!(reject["file"], "events.ndjson");
        reject["ordinal"].as_u64().unwrap()
    });
    let mut ordinals: Vec<_> = ordinals.collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, (300..900).collect::<Vec<_>>());
    let mended = text.replace(r#""nobody's","#, r#""nobody's","distinct_id":"somebody","#);
    assert_ne!(mended, text);
    std::fs::write(&path, mended).unwrap();
    let (replayed, code) = env.result(&["load", "--rejects", &rejects(&env)]);
    assert_eq!(
        (&replayed["accepted"], code),
        (&json!(450), Some(0)),
        "{replayed}"
    );
    let left = json!({ "invalid_json": 300, "missing_timestamp": 150 });
    assert_eq!(
        (&replayed["rejected_by_code"], &replayed["records"]),
        (&left, &json!(900))
    );
    env.wait_for_events(450);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 450);
}

#[test]
fn a_record_rejected_twice_and_then_corrected_makes_no_difference() {
    let env = TestEnv::start();
    let good = r#"{"event":"a","distinct_id":"b","timestamp":"2024-01-05"}"#;
    std::fs::write(
        env.path("bad.ndjson"),
        format!("{good}\n{{\"event\":\"a\",\"timestamp\":\"2024-01-05\"}}\n"),
    )
    .unwrap();
    env.result(&["load", "bad.ndjson"]);
    let path = env.path(&rejects(&env));
    std::fs::copy(&path, env.path("copy.ndjson")).unwrap();
    let (again, _) = env.result(&["load", "--rejects", "copy.ndjson"]);
    assert_eq!(again["rejected"], 1, "{again}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    std::fs::write(
        &path,
        text.replace(r#""raw":{"#, r#""raw":{"distinct_id":"b","#),
    )
    .unwrap();
    let (mended, _) = env.result(&["load", "--rejects", &rejects(&env)]);
    let counts = (&mended["records"], &mended["accepted"], &mended["rejected"]);
    assert_eq!(counts, (&json!(2), &json!(2), &json!(0)), "{mended}");
    let (copied, _) = env.result(&["load", "--rejects", "copy.ndjson"]);
    let counts = (&copied["accepted"], &copied["left_out_now"]);
    assert_eq!(counts, (&json!(2), &json!(1)), "{copied}");
    let (result, code) = env.result(&["reconcile", "bad.ndjson"]);
    assert_eq!((&result["stored"], code), (&json!(2), Some(0)), "{result}");
}

#[test]
fn an_import_of_an_earlier_version_is_resumed_and_its_rejects_are_converted() {
    let env = TestEnv::start();
    write_events(&env.path("events.ndjson"), 100);
    let path = env.path("events.ndjson");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    file.write_all(BAD.as_bytes()).unwrap();
    drop(file);
    // State of an earlier version: other lists in its journal, and compressed.
    env.result(&["load", "events.ndjson"]);
    let own = env.path(&rejects(&env));
    let journal = own.with_file_name("journal.ndjson");
    let text = std::fs::read_to_string(&own).unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["raw"].is_object() {
            line["raw"] = json!(line["raw"].to_string());
        }
        // Each reject is there twice, as after a resend.
        write!(packer, "{line}\n{line}\n").unwrap();
    }
    let packed = packer.finish().unwrap();
    std::fs::remove_file(&own).unwrap();
    // A crash left a part of the next line behind it.
    std::fs::write(
        own.with_extension("ndjson.gz"),
        [&*packed, &packed[..20]].concat(),
    )
    .unwrap();
    let lines = std::fs::read_to_string(&journal).unwrap();
    let lines = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(passed) = line.get_mut("passed").and_then(Value::as_object_mut) {
            passed.retain(|name, _| !["refused", "settled", "left_out"].contains(&name.as_str()));
            passed.insert("rejects_bytes".to_owned(), json!(packed.len()));
        }
        format!("{line}\n")
    });
    std::fs::write(&journal, lines.collect::<String>()).unwrap();

    let (same, code) = env.result(&["load", "events.ndjson"]);
    assert_eq!((&same["rejected"], code), (&json!(4), Some(0)), "{same}");
    let unpacked = std::fs::read_to_string(&own).unwrap();
    assert_eq!(unpacked.lines().count(), 4, "{unpacked}");
    assert!(unpacked.contains(r#""raw":"nonsense""#), "{unpacked}");
    let mended = unpacked.replace(r#""nobody's","#, r#""nobody's","distinct_id":"a","#);
    assert_ne!(mended, unpacked);
    std::fs::write(&own, mended).unwrap();
    // Name of the file as the earlier version printed it.
    let printed = own.with_extension("ndjson.gz");
    let (mended, code) = env.result(&["load", "--rejects", printed.to_str().unwrap()]);
    let counts = (&mended["records"], &mended["accepted"], &mended["rejected"]);
    assert_eq!(counts, (&json!(104), &json!(101), &json!(3)), "{mended}");
    assert_eq!(code, Some(0));
    let (result, code) = env.result(&["reconcile", "events.ndjson"]);
    assert_eq!(code, Some(0), "{result}");
}

#[test]
fn rejects_without_a_journal_are_left_unchanged() {
    let env = TestEnv::start();
    std::fs::write(env.path("bad.ndjson"), BAD).unwrap();
    env.result(&["load", "bad.ndjson"]);
    let path = env.path(&rejects(&env));
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path.with_file_name("journal.ndjson")).unwrap();
    for _ in 0..2 {
        let output = env.output(&["load", "bad.ndjson"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("whose journal is gone"), "{told}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    }
    std::fs::rename(&path, env.path("mine.ndjson")).unwrap();
    let (loaded, code) = env.result(&["load", "bad.ndjson"]);
    assert_eq!((&loaded["rejected"], code), (&json!(4), Some(0)));
}

#[test]
fn a_mapping_is_the_same_for_the_dry_run_and_the_import() {
    let env = TestEnv::start();
    write_events(&env.path("events.ndjson"), 300);
    let mapping = "[events]\ndrop = [\"click\"]\nrename = { \"Sign Up\" = \"signed_up\" }\n\
        [properties]\ndrop = [\"pad\"]\nset = { imported = true }\n";
    std::fs::write(env.path("mapping.toml"), mapping).unwrap();
    let with = ["events.ndjson", "--mapping", "mapping.toml"];
    let (checked, code) = env.result(&[&["check"], &with[..]].concat());
    assert_eq!((&checked["skipped"], code), (&json!(100), Some(0)));
    assert_eq!(checked["rules"]["rename event Sign Up"], 100);
    let (loaded, code) = env.result(&[&["load"], &with[..]].concat());
    assert_eq!((&loaded["accepted"], code), (&json!(200), Some(0)));
    env.wait_for_events(200);
    let sql = "SELECT DISTINCT event, JSONExtractBool(properties, 'imported'), JSONHas(properties, 'pad') \
               FROM millrace.events ORDER BY event";
    assert_eq!(env.server.query(sql), "$pageview\t1\t0\nsigned_up\t1\t0");
    let output = env.output(&["load", "events.ndjson"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("another mapping") && text.contains("--restart"),
        "{text}"
    );
}

/// Creates a second project; returns its id and key.
pub fn project(server: &Server) -> (String, String) {
    let (status, made) = ask(
        server,
        "POST",
        "/api/organizations/@current/projects/",
        &json!({ "name": "Trial" }),
    );
    assert_eq!(status, 201, "{made}");
    let key = made["api_token"].as_str().unwrap().to_owned();
    (made["id"].to_string(), key)
}

#[test]
fn a_trial_is_compared_with_the_real_import_and_counts_that_differ_are_found() {
    let env = TestEnv::start();
    write_events(&env.path("events.ndjson"), 600);
    let (trial, key) = project(&env.server);
    env.approve(&trial);
    let with = ["events.ndjson", "--project-key", &key];
    let (loaded, _) = env.result(&[&["load"], &with[..]].concat());
    assert_eq!(loaded["accepted"], 600);
    let (result, code) = env.result(&[&["reconcile"], &with[..]].concat());
    assert_eq!(
        (&result["stored"], code),
        (&json!(600), Some(0)),
        "{result}"
    );
    env.result(&["load", "events.ndjson"]);
    let (report, _) = env.result(&["report"]);
    assert_eq!(report["loads"].as_array().unwrap().len(), 2);
    assert_eq!(report["different_counts"], 0);

    let stray = json!({ "api_key": key, "historical_migration": true, "batch": [
        { "event": "stray", "distinct_id": "a", "timestamp": "2024-02-01" },
    ]});
    let url = format!("{}/batch/", env.server.credential("ingest_url"));
    assert_eq!(post(&url, &stray.to_string()).0, 200);
    let sql = "SELECT count() FROM millrace.events WHERE event = 'stray'";
    env.server.wait_for(sql, "1");
    let (result, code) = env.result(&[&["reconcile", "--wait", "0"], &with[..]].concat());
    assert_eq!(
        (&result["differences"][0]["event"], code),
        (&json!("stray"), Some(1))
    );
    let args = [&["reconcile", "--allow-more"], &with[..]].concat();
    assert_eq!(env.result(&args).1, Some(0));
}

#[test]
fn another_instance_is_fetched_day_by_day_and_imported() {
    let (source, target) = (TestEnv::start(), TestEnv::start());
    write_events(&source.path("events.ndjson"), 700);
    source.result(&["load", "events.ndjson"]);
    source.wait_for_events(700);
    let credential = |name: &str| source.server.credential(name);
    let (url, user, password, project_id) = (
        credential("clickhouse_url"),
        credential("clickhouse_user"),
        credential("clickhouse_password"),
        credential("team_id"),
    );
    let args = [
        "fetch",
        "clickhouse",
        "--from-url",
        &url,
        "--from-user",
        &user,
        "--from-password",
        &password,
        "--table",
        "millrace.events",
        "--from-project-id",
        &project_id,
        "--page-rows",
        "3",
    ];
    let (fetched, code) = target.result(&args);
    assert_eq!((&fetched["parts_fetched"], code), (&json!(84), Some(0)));
    let (again, _) = target.result(&args);
    assert_eq!(
        (&again["parts_fetched"], &again["parts_known"]),
        (&json!(0), &json!(84))
    );
    let (checked, code) = target.result(&["check"]);
    assert_eq!(
        (&checked["formats"], code),
        (&json!({ "clickhouse": 84 }), Some(0))
    );
    let (loaded, _) = target.result(&["load"]);
    assert_eq!(loaded["accepted"], 700);
    target.wait_for_events(700);
    let sql = "SELECT sum(cityHash64(uuid, event, timestamp, distinct_id, \
               JSONExtractRaw(properties, 'number'), JSONExtractRaw(properties, 'pad'))) \
               FROM millrace.events FINAL";
    assert_eq!(target.server.query(sql), source.server.query(sql));
    let (result, code) = target.result(&["reconcile"]);
    assert_eq!(code, Some(0), "{result}");
}

#[test]
fn rejects_interrupted_by_a_full_disk_are_written_once() {
    const RECORDS: usize = 3_000;
    let env = TestEnv::start();
    // All different, so that they do not compress.
    let record = |number: u64| {
        let noise: Vec<_> = (1..9_u64)
            .map(|it| {
                (number + it)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(it as u32)
            })
            .collect();
        json!({ "event": "timeless", "distinct_id": "a", "properties": { "noise": noise } })
    };
    let lines: String = (0..RECORDS as u64)
        .map(|it| format!("{}\n", record(it * 9)))
        .collect();
    std::fs::write(env.path("events.ndjson"), lines).unwrap();
    // The limit of 64 KiB per file is an error like that of a full disk, and does not end the
    // process.
    let program = env.command(&["load", "events.ndjson", "--chunk-bytes", "50000"]);
    let mut limited = std::process::Command::new("bash");
    limited
        .args(["-c", r#"trap '' XFSZ; ulimit -f 64; exec "$@""#, "bash"])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(&env.home);
    let output = limited.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("rejects.ndjson; free some space and run the same command again"),
        "{text}"
    );
    let (loaded, code) = env.result(&["load", "events.ndjson", "--chunk-bytes", "50000"]);
    assert_eq!((&loaded["rejected"], code), (&json!(RECORDS), Some(0)));
    let text = std::fs::read_to_string(env.path(&rejects(&env))).unwrap();
    assert_eq!(text.lines().count(), RECORDS);
}

#[test]
fn an_empty_file_has_no_records_and_no_effect() {
    let env = TestEnv::start();
    write_events(&env.path("events.ndjson"), 10);
    std::fs::write(env.path("empty.txt"), "").unwrap();
    let (checked, code) = env.result(&["check", "events.ndjson", "empty.txt"]);
    assert_eq!(
        (&checked["records"], code),
        (&json!(10), Some(0)),
        "{checked}"
    );
    let (loaded, code) = env.result(&["load", "events.ndjson", "empty.txt"]);
    assert_eq!(
        (&loaded["accepted"], code),
        (&json!(10), Some(0)),
        "{loaded}"
    );
    let (reconciled, code) = env.result(&["reconcile", "events.ndjson", "empty.txt"]);
    assert_eq!(code, Some(0), "{reconciled}");
}

#[test]
fn the_size_of_standard_input_is_its_bytes_read_or_unknown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("events.ndjson");
    write_events(&path, 300);
    let bytes = path.metadata().unwrap().len();
    let check = |with: &[&str]| {
        let file = std::fs::File::open(&path).unwrap();
        let mut command = millrace();
        command.current_dir(&folder).args(["import", "check"]);
        let output = command.args(with).stdin(file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let size = |said: &str| {
        let json: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        json["result"]["file_bytes"].clone()
    };
    let table = [
        (&["events.ndjson"][..], json!(bytes)),
        (&["-"], json!(bytes)),
        (&["events.ndjson", "-"], json!(bytes * 2)),
    ];
    for (files, expected) in table {
        let said = check(files);
        assert!(
            !said.contains("unknown") && !said.contains("(0 B)"),
            "{said}"
        );
        assert_eq!(size(&check(&[files, &["--json"]].concat())), expected);
    }
    let many: String = (0..200_000)
        .map(|_| "{\"event\":\"a\",\"distinct_id\":\"b\",\"timestamp\":\"2024-01-05\"}\n")
        .collect();
    std::fs::write(&path, many).unwrap();
    let said = check(&["-", "--records", "1"]);
    assert!(said.contains("(of unknown size)\n"), "{said}");
}
