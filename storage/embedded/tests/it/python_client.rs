//! clickhouse-connect from PyPI, in a virtual environment that this test makes on its first run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use millrace_embedded::testing::shared;
use rustix::fs::{FlockOperation, flock};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

/// The Python of `.test-env/python`, with `load-tests/clients/requirements.txt` installed. Several test binaries may
/// make it at once, so a file lock is held; what is installed is remembered in it as the requirements' text.
fn python() -> PathBuf {
    let folder = workspace().join(".test-env");
    let requirements = workspace().join("load-tests/clients/requirements.txt");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("python.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let (venv, stamp) = (folder.join("python"), folder.join("python.installed"));
    let wanted = fs::read_to_string(&requirements).unwrap();
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted)
        && venv.join("bin/python").exists()
    {
        return venv.join("bin/python");
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    run(Command::new(venv.join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ])
        .arg(&requirements));
    fs::write(&stamp, wanted).unwrap();
    venv.join("bin/python")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}: {out}\n{err}");
    out.into_owned()
}

#[test]
fn clickhouse_connect_works() {
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
