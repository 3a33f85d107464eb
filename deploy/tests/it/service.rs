//! How it runs in production: the systemd units, and what is fetched for it.

use crate::tidy::{files, root};
use std::path::PathBuf;
use std::process::Command;

/// How exposed the service may be, in tenths of 10: what it needs is the network and to listen.
const EXPOSURE_MAX: &str = "15";

/// The server, and the engine by itself.
const UNITS: [&str; 2] = ["millrace.service", "millrace-clickhouse.service"];

fn path(unit: &str) -> PathBuf {
    root().join("deploy/systemd").join(unit)
}

fn text(unit: &str) -> String {
    std::fs::read_to_string(path(unit)).unwrap()
}

/// Rights that a unit takes away: all behind the line that makes a user of its own.
fn walls(unit: &str) -> Vec<String> {
    let text = text(unit);
    let lines = text.lines().skip_while(|line| *line != "DynamicUser=yes");
    let lines = lines.filter(|line| !line.starts_with('#') && !line.starts_with("StateDirectory="));
    lines.map(str::to_owned).collect()
}

#[test]
fn services_run_as_users_of_their_own_who_can_do_little() {
    for unit in UNITS {
        is_walled(unit);
    }
}

/// Its statements are of whoever has the password: it has no right that the server has not.
#[test]
fn the_engine_by_itself_has_the_walls_of_the_server() {
    let walls = UNITS.map(walls);
    assert!(walls[0].len() > 20, "{walls:?}");
    assert_eq!(walls[0], walls[1]);
    let own = text(UNITS[1]);
    for line in [
        "StateDirectory=millrace-clickhouse",
        "ExecStart=/usr/local/bin/millrace clickhouse --config /etc/millrace/millrace.toml --data-dir /var/lib/millrace-clickhouse",
        "RestartPreventExitStatus=64 78",
    ] {
        assert!(own.lines().any(|found| found == line), "{line}");
    }
}

fn is_walled(unit: &str) {
    for line in [
        "DynamicUser=yes",
        "StateDirectoryMode=0700",
        "UMask=0077",
        "LimitCORE=0",
        "SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    ] {
        let text = text(unit);
        assert!(text.lines().any(|found| found == line), "{unit}: {line}");
    }
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let judged = Command::new("systemd-analyze")
        .args(["security", "--no-pager", "--offline=yes", &threshold])
        .arg(path(unit))
        .output();
    match judged {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success(),
                "{unit} is more exposed than {EXPOSURE_MAX}: {said}"
            );
        }
        Err(error) => eprintln!("NOT TESTED: how exposed the service is: systemd-analyze: {error}"),
    }
}

#[test]
fn systemd_knows_every_word_of_the_units() {
    for unit in UNITS {
        is_known(unit);
    }
}

fn is_known(unit: &str) {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join(unit);
    let (text, program) = (text(unit), "ExecStart=/usr/local/bin/millrace");
    assert!(text.contains(program));
    // A program that is there, as ours is not installed.
    std::fs::write(&path, text.replace(program, "ExecStart=/bin/sh")).unwrap();
    let checked = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&path)
        .output();
    match checked {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let ours: Vec<_> = said.lines().filter(|line| line.contains(unit)).collect();
            assert!(ours.is_empty(), "{ours:?}");
        }
        Err(error) => eprintln!("NOT TESTED: whether systemd reads the unit: {error}"),
    }
}

#[test]
fn whatever_is_fetched_has_a_checksum() {
    let locks = files("package-lock.json");
    assert!(locks.len() >= 2, "the engine's and the clients'");
    for (name, text) in locks {
        let lock: serde_json::Value = serde_json::from_str(&text).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        for (package, entry) in packages.iter().filter(|(package, _)| !package.is_empty()) {
            let integrity = entry["integrity"].as_str().unwrap_or_default();
            assert!(integrity.starts_with("sha512-"), "{package} in {name}");
        }
    }
    // Crates have theirs in Cargo.lock, which cargo holds them to.
    let (_, lock) = files("Cargo.lock")
        .into_iter()
        .find(|(name, _)| name == "Cargo.lock")
        .unwrap();
    let fetched = lock.matches("\nsource = ").count();
    assert!(fetched > 100);
    assert_eq!(
        lock.matches("\nchecksum = ").count(),
        fetched,
        "crates without a checksum"
    );
}
