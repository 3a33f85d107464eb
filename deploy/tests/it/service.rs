//! Production setup: the systemd units, and checksums of downloads.

use crate::tidy::{files, root};
use std::path::PathBuf;
use std::process::Command;

/// Highest exposure of the service in `systemd-analyze security`, in tenths: it needs the network.
const EXPOSURE_MAX: &str = "15";

/// Units of the server, and of the engine alone.
const UNITS: [&str; 2] = ["millrace.service", "millrace-clickhouse.service"];

fn path(unit: &str) -> PathBuf {
    root().join("deploy/systemd").join(unit)
}

fn text(unit: &str) -> String {
    std::fs::read_to_string(path(unit)).unwrap()
}

/// Restrictions of a unit: all directives after the one for its user.
fn restrictions(unit: &str) -> Vec<String> {
    let text = text(unit);
    let lines = text.lines().skip_while(|line| *line != "DynamicUser=yes");
    let lines = lines.filter(|line| !line.starts_with('#') && !line.starts_with("StateDirectory="));
    lines.map(str::to_owned).collect()
}

#[test]
fn services_run_as_unprivileged_users_of_their_own() {
    for unit in UNITS {
        assert_confined(unit);
    }
}

/// The engine runs statements of anybody with the password, so it has no right that the server
/// lacks.
#[test]
fn the_engine_unit_is_as_confined_as_the_server_unit() {
    let restrictions = UNITS.map(restrictions);
    assert!(restrictions[0].len() > 20, "{restrictions:?}");
    assert_eq!(restrictions[0], restrictions[1]);
    let own = text(UNITS[1]);
    for line in [
        "StateDirectory=millrace-clickhouse",
        "ExecStart=/usr/local/bin/millrace clickhouse --config /etc/millrace/millrace.toml --data-dir /var/lib/millrace-clickhouse",
        "RestartPreventExitStatus=64 78",
    ] {
        assert!(own.lines().any(|found| found == line), "{line}");
    }
}

fn assert_confined(unit: &str) {
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
    let analysis = Command::new("systemd-analyze")
        .args(["security", "--no-pager", "--offline=yes", &threshold])
        .arg(path(unit))
        .output();
    match analysis {
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
fn systemd_accepts_every_directive_of_the_units() {
    for unit in UNITS {
        assert_valid(unit);
    }
}

fn assert_valid(unit: &str) {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join(unit);
    let (text, program) = (text(unit), "ExecStart=/usr/local/bin/millrace");
    assert!(text.contains(program));
    // An installed program in place of ours.
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
fn every_download_has_a_checksum() {
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
    // Checksums of crates are in Cargo.lock, which cargo enforces.
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
