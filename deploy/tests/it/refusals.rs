//! Starts that cannot succeed say why in one sentence and end with a number that is not 0.

use crate::server::{Server, millrace, on_own_ports};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use tempfile::TempDir;

/// Starts `serve` where it must fail.
fn refused(dir: &TempDir, args: &[&str]) -> Output {
    let output = on_own_ports("serve", dir.path())
        .args(args)
        .output()
        .unwrap();
    assert!(!output.status.success(), "it started: {output:?}");
    output
}

/// The last line of what it said; everything before it is log.
fn sentence(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_missing_engine_is_named_with_its_setting() {
    let dir = TempDir::new().unwrap();
    let output = refused(&dir, &["--libchdb", "/nonexistent/libchdb.so"]);
    let text = sentence(&output);
    assert!(
        text.contains("/nonexistent/libchdb.so") && text.contains("MILLRACE_LIBCHDB"),
        "{text}"
    );
}

#[test]
fn a_busy_port_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for flag in [
        "--ingest-addr",
        "--admin-addr",
        "--health-addr",
        "--clickhouse-addr",
    ] {
        let dir = TempDir::new().unwrap();
        // A flag given twice: the later one counts.
        let args = [flag, &addr];
        let output = millrace()
            .args(["serve", "--data-dir", dir.path().to_str().unwrap()])
            .args(
                [
                    "--ingest-addr",
                    "--admin-addr",
                    "--health-addr",
                    "--clickhouse-addr",
                ]
                .iter()
                .filter(|other| **other != flag)
                .flat_map(|other| [*other, "127.0.0.1:0"]),
            )
            .args(args)
            .output()
            .unwrap();
        let text = sentence(&output);
        assert!(!output.status.success(), "{flag}: {output:?}");
        assert!(
            text.contains(&addr) && text.contains(flag),
            "{flag}: {text}"
        );
    }
}

#[test]
fn two_servers_on_one_port_do_not_share_it() {
    let (first_dir, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = Server::start(first_dir.path());
    let addr = first.credential("ingest_url").replace("http://", "");
    let output = millrace()
        .args([
            "serve",
            "--data-dir",
            dir.path().to_str().unwrap(),
            "--ingest-addr",
            &addr,
        ])
        .args([
            "--admin-addr",
            "127.0.0.1:0",
            "--health-addr",
            "127.0.0.1:0",
            "--clickhouse-addr",
            "127.0.0.1:0",
        ])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(sentence(&output).contains(&addr), "{}", sentence(&output));
}

#[test]
fn a_second_process_on_the_same_folder_is_refused() {
    let dir = TempDir::new().unwrap();
    let _first = Server::start(dir.path());
    let text = sentence(&refused(&dir, &[]));
    assert!(
        text.contains("another millrace") && text.contains("--data-dir"),
        "{text}"
    );
}

#[test]
fn a_data_folder_that_is_a_file_is_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let output = millrace()
        .args(["serve", "--data-dir", file])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = sentence(&output);
    assert!(text.contains(file) && text.contains("--data-dir"), "{text}");
}

#[test]
fn a_damaged_catalog_is_named() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("catalog.db"), vec![7; 8192]).unwrap();
    let text = sentence(&refused(&dir, &[]));
    assert!(text.contains("catalog.db"), "{text}");
}

#[test]
fn an_unreadable_data_folder_is_named() {
    // Root may read everything, so the folder is made unusable in a way that binds root too.
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("log"), "in the way").unwrap();
    std::fs::set_permissions(dir.path().join("log"), PermissionsExt::from_mode(0o000)).unwrap();
    let text = sentence(&refused(&dir, &[]));
    assert!(text.contains("log"), "{text}");
}
