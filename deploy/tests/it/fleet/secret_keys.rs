//! Processes with another key of secrets than the one that the catalog knows.

use super::test_env::{Fleet, NOWHERE};
use crate::server::millrace;
use std::fs;
use std::process::Output;

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const NEXT: &str = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=";

/// Runs `millrace secrets` with a key of the setting.
fn secrets(fleet: &Fleet, args: &[&str], key: &str) -> Output {
    let mut command = millrace();
    command.arg("secrets").args(args);
    command.args(["--database-url", &fleet.url(), "--secret-key", key]);
    command.arg("--data-dir").arg(fleet.folder("first"));
    command.output().unwrap()
}

#[test]
fn a_process_with_another_key_of_secrets_is_refused_and_makes_none() {
    let fleet = Fleet::new();
    let args = ["--clickhouse-url", NOWHERE];
    let first = fleet.start("admin", "first", &args);
    let kept = fleet.ask("SELECT fingerprint FROM secret_key_fingerprints");
    let key = fs::read_to_string(fleet.folder("first").join("secret.key")).unwrap();
    assert!(
        !key.contains(&kept[0]) && !kept[0].contains(key.trim()),
        "{kept:?}"
    );
    let (code, said) = fleet.refused("admin", "second", &args);
    assert_eq!(code, 64, "{said}");
    assert!(said.contains("there is no secret.key in"), "{said}");
    assert!(!fleet.folder("second").join("secret.key").exists());
    let with_key = [&args[..], &["--secret-key", KEY]].concat();
    let (code, said) = fleet.refused("admin", "second", &with_key);
    assert_eq!(code, 64, "{said}");
    assert!(
        said.contains("the setting secret_key is another key"),
        "{said}"
    );
    // Ingestion alone has no use for the key.
    let ingest = fleet.start("ingest", "third", &args);
    assert!(ingest.stop().success());
    fs::create_dir_all(fleet.folder("second")).unwrap();
    fs::write(fleet.folder("second").join("secret.key"), key).unwrap();
    let second = fleet.start("admin", "second", &args);
    for server in [first, second] {
        assert!(server.stop().success());
    }
}

#[test]
fn a_rotation_has_the_catalog_know_the_new_key_alone() {
    let fleet = Fleet::new();
    let with = |key| ["--clickhouse-url", NOWHERE, "--secret-key", key];
    let both = format!("{NEXT},{KEY}");
    for (key, starts) in [(KEY, true), (NEXT, false), (&*both, true), (KEY, true)] {
        match starts {
            true => assert!(fleet.start("admin", "first", &with(key)).stop().success()),
            false => assert_eq!(fleet.refused("admin", "first", &with(key)).0, 64),
        }
    }
    let rotated = secrets(&fleet, &["rotate"], &both);
    assert!(rotated.status.success(), "{rotated:?}");
    assert_eq!(fleet.refused("admin", "first", &with(KEY)).0, 64);
    assert!(fleet.start("admin", "first", &with(NEXT)).stop().success());
}

#[test]
fn a_lost_key_is_given_up_by_a_command_that_asks() {
    let fleet = Fleet::new();
    let with = |key| ["--clickhouse-url", NOWHERE, "--secret-key", key];
    assert!(fleet.start("admin", "first", &with(KEY)).stop().success());
    let unsure = secrets(&fleet, &["reset"], NEXT);
    assert_eq!(unsure.status.code(), Some(1), "{unsure:?}");
    assert_eq!(fleet.refused("admin", "first", &with(NEXT)).0, 64);
    let reset = secrets(&fleet, &["reset", "--yes"], NEXT);
    assert!(reset.status.success(), "{reset:?}");
    assert!(fleet.start("admin", "first", &with(NEXT)).stop().success());
}
