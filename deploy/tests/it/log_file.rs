//! Log lines in a file, for machines where nobody keeps standard error.

use crate::server::{Server, millrace, on_own_ports, warnings};
use serde_json::json;
use std::fs::File;
use tempfile::TempDir;

#[test]
fn a_server_logs_to_its_file_alone_and_commands_to_standard_error() {
    let dir = TempDir::new().unwrap();
    let (data, log, errors) = (
        dir.path().join("data"),
        dir.path().join("millrace.log"),
        dir.path().join("stderr"),
    );
    let mut command = on_own_ports("serve", &data);
    command.arg("--log-file").arg(&log);
    command.stderr(File::create(&errors).unwrap());
    let server = Server::start_command(&mut command, &data);
    server.wait_for_tables();
    server.capture(&json!([{ "event": "seen", "distinct_id": "ann" }]));
    let written = std::fs::read_to_string(&log).unwrap().len();
    // A command with the same settings leaves the file alone.
    let output = millrace()
        .args(["nodes", "list", "--data-dir"])
        .arg(&data)
        .arg("--log-file")
        .arg(&log)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // Another server does not rotate it.
    let other = on_own_ports("serve", &dir.path().join("other"))
        .arg("--log-file")
        .arg(&log)
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(64), "{other:?}");
    let text = String::from_utf8_lossy(&other.stderr);
    assert!(
        text.contains("another process writes to log_file"),
        "{text}"
    );
    assert!(server.stop().success());
    assert_eq!(std::fs::read_to_string(&errors).unwrap(), "");
    assert_eq!(warnings(&log), "");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.len() > written, "{text}");
    assert!(text.contains(" stopped"), "{text}");
    assert!(!text.contains('\u{1b}'), "colours: {text}");
}

#[test]
fn settings_of_the_log_file_are_checked() {
    for (flag, value, told) in [
        ("--log-file-bytes-max", "1KiB", "give at least 64KiB"),
        (
            "--log-files-kept",
            "0",
            "give a whole number from 1 to 1000",
        ),
        (
            "--log-files-kept",
            "1001",
            "give a whole number from 1 to 1000",
        ),
        ("--log-file", "/nonexistent/log", "a folder that exists"),
    ] {
        let dir = TempDir::new().unwrap();
        let output = on_own_ports("serve", dir.path())
            .args([flag, value])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{flag}: {text}");
        assert!(text.contains(told), "{flag}: {text}");
    }
}
