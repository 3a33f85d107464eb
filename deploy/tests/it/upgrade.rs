//! Data folders of earlier versions: this version opens them, ships their events, and accepts their
//! keys. It rejects data folders of later versions, and of those before commit 4bbccd5, with a
//! reason.
//!
//! An archive is what `fixtures/make.py` leaves with the program of that time, stopped while
//! ClickHouse was down. A change of a format adds one. The catalog of 4bbccd5's was made by an
//! earlier program, and brought to that commit by its migrations m0020 to m0026.

use crate::server::{Server, ask, on_own_ports};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const VERSIONS: [&str; 1] = ["4bbccd5"];

/// Unpacks the data folder of an archive to a temporary folder.
fn unpacked(name: &str) -> (TempDir, PathBuf) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let home = TempDir::new().unwrap();
    let unpacked = Command::new("tar")
        .arg("xzf")
        .arg(fixtures.join(name).with_extension("tar.gz"))
        .arg("--directory")
        .arg(home.path())
        .status();
    assert!(unpacked.unwrap().success());
    let data_dir = home.path().join("data");
    (home, data_dir)
}

/// Events that `make.py` posted, as lines of uuid, event, distinct id, time, properties and lane.
fn expected() -> String {
    let line = |n: usize, time: String, lane: &str| {
        let text = "é\u{2028}\"\\".repeat(n);
        let properties = json!({"n": n, "text": text}).to_string();
        let uuid = format!("01890000-0000-7000-8000-{n:012}");
        json!([
            uuid,
            format!("e{n}"),
            format!("d{n}"),
            time,
            properties,
            lane
        ])
        .to_string()
    };
    let live = (0..6).map(|n| {
        let time = format!("2026-{}-0{} 12:00:00.123456", 10 + n % 2, 1 + n);
        line(n, time, "live")
    });
    let past = (6..10).map(|n| line(n, format!("2023-0{}-15 00:00:00.000000", n - 5), "past"));
    live.chain(past).collect::<Vec<_>>().join("\n")
}

/// Stored events in the same form, without the server's own property.
fn stored(server: &Server) -> String {
    let rows = server.query(
        "SELECT toString(uuid), event, distinct_id, toString(timestamp), properties, \
         if(historical_migration, 'past', 'live') FROM millrace.events ORDER BY uuid \
         FORMAT JSONCompactEachRow",
    );
    let without_address = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let mut properties: Value = serde_json::from_str(row[4].as_str().unwrap()).unwrap();
        properties.as_object_mut().unwrap().remove("$ip");
        row[4] = json!(properties.to_string());
        row.to_string()
    };
    rows.lines()
        .map(without_address)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn events_of_earlier_versions_are_stored_and_their_keys_stay_valid() {
    for version in VERSIONS {
        let (_home, data_dir) = unpacked(version);
        let before: Value =
            serde_json::from_slice(&std::fs::read(data_dir.join("credentials.json")).unwrap())
                .unwrap();
        std::fs::create_dir_all(data_dir.join("poison/live")).unwrap();
        std::fs::write(data_dir.join("poison/live/row.json"), "{}").unwrap();
        let server = Server::start(&data_dir);
        let names = ["dead-letters/live/row.json", "poison"];
        let exist = names.map(|name| data_dir.join(name).exists());
        assert_eq!(exist, [true, false], "the folder has its new name");
        server.wait_for("SELECT count() FROM millrace.events", "10");
        server.wait_for("SELECT count() FROM millrace.rejected_events", "1");
        assert_eq!(stored(&server), expected(), "{version}");
        for name in ["organization_id", "project_api_key", "personal_api_key"] {
            assert_eq!(
                json!(server.credential(name)),
                before[name],
                "{name} of {version}"
            );
        }
        let (status, organizations) = ask(&server, "GET", "/api/organizations/", &Value::Null);
        assert_eq!(status, 200, "{organizations}");
        assert_eq!(organizations["results"][0]["id"], before["organization_id"]);
        server.capture(&json!([{"event": "today", "distinct_id": "a"}]));
        server.wait_for("SELECT count() FROM millrace.events", "11");
    }
}

/// Starts on a folder that a script has changed; returns the error output.
fn refused_after(script: &str) -> String {
    let (_home, data_dir) = unpacked(VERSIONS[0]);
    let changed = Command::new("python3")
        .args(["-c", script])
        .current_dir(&data_dir)
        .status();
    assert!(changed.unwrap().success());
    let output = on_own_ports("serve", &data_dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn data_of_later_versions_is_rejected_by_name() {
    let segment = r#"
import glob, zlib
name, = glob.glob("log/live/*.log")
data = bytearray(open(name, "rb").read())
data[8:10] = (3).to_bytes(2, "little")
data[60:64] = zlib.crc32(data[:60]).to_bytes(4, "little")
open(name, "wb").write(data)
"#;
    let said = refused_after(segment);
    assert!(
        said.contains("live/00000000000000000001.log: format version 3 is newer"),
        "{said}"
    );
    let catalog = r#"
import sqlite3
catalog = sqlite3.connect("catalog.db")
catalog.execute("INSERT INTO seaql_migrations VALUES ('m9999_of_tomorrow', 0)")
catalog.commit()
"#;
    let said = refused_after(catalog);
    assert!(said.contains("m9999_of_tomorrow"), "{said}");
}

#[test]
fn data_of_versions_before_4bbccd5_is_rejected_with_the_next_step() {
    let catalog = r#"
import sqlite3
catalog = sqlite3.connect("catalog.db")
catalog.execute("DELETE FROM seaql_migrations WHERE version > 'm0019_latest_runs'")
catalog.commit()
"#;
    let said = refused_after(catalog);
    for expected in ["m0020_ingest_nodes", "start the millrace of that commit"] {
        assert!(said.contains(expected), "{said}");
    }
}
