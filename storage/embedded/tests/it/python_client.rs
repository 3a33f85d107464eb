//! Test of clickhouse-connect from PyPI, in the tests' Python environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use millrace_embedded::testing::shared;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

/// Interpreter of the tests' environment; the first call creates it.
pub fn python() -> PathBuf {
    run(&mut Command::new(workspace().join("deploy/test-python.sh")))
        .trim()
        .into()
}

pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}: {out}\n{err}");
    out.into_owned()
}

#[test]
fn the_python_client_clickhouse_connect_can_query_and_insert() {
    let engine = shared();
    let (host, port) = engine
        .url
        .trim_start_matches("http://")
        .rsplit_once(':')
        .unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/check_clickhouse_connect.py");
    let out =
        run(Command::new(python())
            .arg(script)
            .args([host, port, &engine.user, &engine.password]));
    assert_eq!(out.trim(), "all is well");
}
