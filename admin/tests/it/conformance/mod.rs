//! Others' tools over the published document: requests made from it, and a client made from it.

use crate::served::Served;
use crate::servers::python;
use std::path::{Path, PathBuf};
use std::process::Output;
use tokio::process::Command;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/conformance")
        .join(name)
}

/// A program of the tests' Python environment; it runs in a folder of its own.
fn tool(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(python().with_file_name(name));
    command.current_dir(folder).kill_on_drop(true);
    command
}

async fn succeed(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned();
    let complained = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}\n{said}\n{complained}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing_that_the_document_does_not_say() {
    let served = Served::start_unthrottled().await;
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(
        tool("st", folder.path())
            .arg("--config-file")
            .arg(file("schemathesis.toml"))
            .args(["run", "--no-color"])
            .arg(format!("http://{}/api/schema/", served.address))
            .arg("--header")
            .arg(format!(
                "Authorization: Bearer {}",
                served.fixture.owner_key()
            )),
    )
    .await;
    for phase in ["Coverage", "Fuzzing", "Stateful"] {
        assert!(said.contains(&format!("✅ {phase}")), "{said}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_made_from_the_document_creates_reads_changes_and_deletes() {
    let served = Served::start_unthrottled().await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}", served.address);
    let generated = succeed(
        tool("openapi-python-client", folder.path())
            .args(["generate", "--fail-on-warning", "--meta", "none"])
            .arg("--config")
            .arg(file("generator.yaml"))
            .arg("--url")
            .arg(format!("{url}/api/schema/")),
    )
    .await;
    assert!(folder.path().join("millrace_api").is_dir(), "{generated}");
    let said = succeed(
        tool("python", folder.path())
            .env("PYTHONPATH", folder.path())
            .arg(file("round.py"))
            .args([&url, served.fixture.owner_key()]),
    )
    .await;
    assert_eq!(said.trim(), "created, read, changed, listed, deleted");
    served.stop().await;
}
