//! How it runs in production: the systemd unit, and what is fetched for it.

use crate::tidy::{files, root};
use std::process::Command;

/// How exposed the service may be, in tenths of 10: what it needs is the network and to listen.
const EXPOSURE_MAX: &str = "15";

fn unit() -> String {
    std::fs::read_to_string(root().join("deploy/systemd/millrace.service")).unwrap()
}

#[test]
fn the_service_runs_as_a_user_of_its_own_who_can_do_little() {
    let path = root().join("deploy/systemd/millrace.service");
    for line in [
        "DynamicUser=yes",
        "StateDirectoryMode=0700",
        "UMask=0077",
        "LimitCORE=0",
    ] {
        assert!(unit().lines().any(|found| found == line), "{line}");
    }
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let judged = Command::new("systemd-analyze")
        .args(["security", "--no-pager", "--offline=yes", &threshold])
        .arg(path)
        .output();
    match judged {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success(),
                "more exposed than {EXPOSURE_MAX}: {said}"
            );
        }
        Err(error) => eprintln!("NOT TESTED: how exposed the service is: systemd-analyze: {error}"),
    }
}

#[test]
fn systemd_knows_every_word_of_the_unit() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("millrace.service");
    let program = "ExecStart=/usr/local/bin/millrace";
    assert!(unit().contains(program));
    // A program that is there, as ours is not installed.
    std::fs::write(&path, unit().replace(program, "ExecStart=/bin/sh")).unwrap();
    let checked = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&path)
        .output();
    match checked {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let ours: Vec<_> = said
                .lines()
                .filter(|line| line.contains("millrace.service"))
                .collect();
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
