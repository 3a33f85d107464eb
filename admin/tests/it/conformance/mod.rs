//! Third-party tools on the published document: Schemathesis, and a generated client. They take
//! long, so each runs on one of the two databases.
//!
//! Schemathesis tries the fields of a body with all values at their limits, and an export has some
//! ten destinations with all their fields: all that it has takes ten minutes. So it gets two
//! minutes, of which each phase and each operation has a share. `MILLRACE_SCHEMA_SECONDS` is
//! another time; with 0 it goes on to the end, as in `make torture-schema`.

use crate::fixture::on;
use crate::servers::python;
use crate::test_server::TestServer;
use millrace_catalog::Level;
use millrace_catalog::testing::DatabaseKind::{Postgres, Sqlite};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use tokio::process::Command;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/conformance")
        .join(name)
}

/// Command of the tests' Python environment, which runs in `folder`.
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

/// Time of Schemathesis unless `MILLRACE_SCHEMA_SECONDS` says otherwise, in seconds.
const RUN_SECONDS: u64 = 120;

/// Phases of Schemathesis that are run together, the name of the last one in the output, and their
/// share of the time in percent: left to itself, the first ones take all of it.
const PHASES: [(&str, &str, u64); 3] = [
    ("examples,coverage", "Coverage", 60),
    ("fuzzing", "Fuzzing", 20),
    ("stateful", "Stateful", 20),
];

#[expect(clippy::disallowed_methods, reason = "a test's own setting")]
fn run_seconds() -> u64 {
    let seconds = std::env::var("MILLRACE_SCHEMA_SECONDS");
    seconds.map_or(RUN_SECONDS, |seconds| seconds.parse().unwrap())
}

/// Parts of paths that the run on pipelines covers; the other run covers the rest.
const PIPELINES: [&str; 4] = [
    "/plugins/",
    "/pipeline_",
    "/batch_exports/",
    "/historical_migrations/",
];

/// Ids that the run must neither change nor delete: the key, the user, the organization, the
/// project.
async fn protected_ids(server: &TestServer) -> String {
    let fixture = &server.fixture;
    let key = fixture.get("/api/personal_api_keys/@current/").await.body;
    let member = "/api/organizations/@current/members/@me/";
    let user = fixture.get(member).await.body["user"]["uuid"].clone();
    let (organization, project_id) = (fixture.made.organization_id, fixture.made.project_id);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!(
        "{},{},{organization},{project_id}",
        text(&key["id"]),
        text(&user)
    )
}

/// Operations of a part of the document.
struct Operations {
    all: usize,
    /// Those without any response.
    untried: Vec<String>,
    /// Those that succeeded at least once.
    done: Vec<String>,
}

fn tried_and_done(
    document: &Value,
    statuses: &Value,
    is_here: impl Fn(&str) -> bool,
) -> Operations {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations: Vec<String> = paths
        .filter(|(path, _)| is_here(path))
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let is_done = |name: &String| {
        let counts = statuses[name].as_object();
        counts.is_some_and(|counts| counts.keys().any(|status| status.starts_with('2')))
    };
    let is_untried = |name: &&String| !statuses[name.as_str()].is_object();
    Operations {
        all: operations.len(),
        untried: operations.iter().filter(is_untried).cloned().collect(),
        done: operations.into_iter().filter(is_done).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_deviation_from_the_document_for_people() {
    let is_here = |path: &str| !PIPELINES.iter().any(|part| path.contains(part));
    on(Sqlite, || find_nothing("--exclude-path-regex", is_here)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_deviation_from_the_document_for_pipelines() {
    let is_here = |path: &str| PIPELINES.iter().any(|part| path.contains(part));
    on(Postgres, || find_nothing("--include-path-regex", is_here)).await;
}

/// Returns true for operations of the phase `coverage`, which `schemathesis.toml` spares those over
/// the same types as others: chains try them, for which two minutes are too short.
fn is_covered(path: &str) -> bool {
    let same = [
        "/pipeline_destinations/",
        "/pipeline_frontend_apps/",
        "/pipeline_import_apps/",
        "/pipeline_transformations/",
    ];
    !same.iter().any(|part| path.contains(part)) && !path.starts_with("/api/projects/")
}

/// Runs Schemathesis on a part of the document: it must find nothing, try nearly all operations,
/// and most of them must succeed.
async fn find_nothing(filter: &str, is_here: impl Fn(&str) -> bool) {
    let server = TestServer::start_unthrottled().await;
    for number in 0..6 {
        let email = format!("member{number}@example.com");
        server.fixture.member(&email, Level::Member).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let statuses = folder.path().join("statuses.json");
    let key = server.fixture.owner_key();
    let mine = protected_ids(&server).await;
    for (phases, last, share) in PHASES {
        let mut run = tool("st", folder.path());
        run.env("SCHEMATHESIS_HOOKS", file("hooks.py"))
            .env("MILLRACE_MINE", &mine)
            .env("MILLRACE_STATUSES", &statuses)
            .arg("--config-file")
            .arg(file("schemathesis.toml"))
            .args(["run", "--no-color", filter, &PIPELINES.join("|")])
            .arg(format!("--phases={phases}"))
            // The time to generate requests is not our concern, and long on a busy machine.
            .arg("--suppress-health-check=too_slow")
            .arg(format!("http://{}/api/schema/", server.address))
            .args(["--header", &format!("Authorization: Bearer {key}")]);
        if run_seconds() > 0 {
            run.arg(format!("--max-time={}", run_seconds() * share / 100));
        }
        let said = succeed(&mut run).await;
        // To make up the first body of an export may take all of a short phase.
        let is_over = run_seconds() > 0 && said.contains("Time limit reached");
        assert!(is_over || said.contains(&format!("✅ {last}")), "{said}");
    }
    let document = server.fixture.get("/api/schema/").await.body;
    let statuses = std::fs::read_to_string(statuses).unwrap();
    let statuses: Value = serde_json::from_str(&statuses).unwrap();
    let is_counted = |path: &str| is_here(path) && (run_seconds() == 0 || is_covered(path));
    let Operations { all, untried, done } = tried_and_done(&document, &statuses, is_counted);
    // On a slow machine the time may be over before the last ones.
    assert!(10 * untried.len() <= all, "{all}: {untried:#?}");
    // The rest needs what a run cannot have: a token of a mail, an operator's key, the engine. In
    // two minutes most have bad bodies only.
    let (least, of) = if run_seconds() == 0 { (3, 4) } else { (1, 6) };
    assert!(
        of * done.len() >= least * all,
        "{all}: {done:#?}\n{statuses:#}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_client_creates_reads_changes_and_deletes() {
    on(Sqlite, generate_a_client_and_use_it).await;
}

async fn generate_a_client_and_use_it() {
    let server = TestServer::start_unthrottled().await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}", server.address);
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
            .args([&url, server.fixture.owner_key()]),
    )
    .await;
    assert_eq!(said.trim(), "created, read, changed, listed, deleted");
    server.stop().await;
}
