//! Third-party tools on the published document: Schemathesis, and a generated client. They take
//! long, so each runs on one of the two databases.
//!
//! Schemathesis makes up bodies of exports for minutes. Four families of pipeline resources and the
//! exports of a project have the operations of plugins and of the organization's exports, over the
//! same types: with `MILLRACE_SCHEMA_ALL`, as in `make torture-schema`, they are tried as well.

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

/// Parts of paths that the run on pipelines covers; the other run covers the rest.
const PIPELINES: [&str; 4] = [
    "/plugins/",
    "/pipeline_",
    "/batch_exports/",
    "/historical_migrations/",
];

/// Parts of paths whose operations are those of others, over the same types.
const FAMILIES: [&str; 5] = [
    "/pipeline_destinations/",
    "/pipeline_frontend_apps/",
    "/pipeline_import_apps/",
    "/pipeline_transformations/",
    "/api/projects/",
];

fn is_all_tried() -> bool {
    std::env::var_os("MILLRACE_SCHEMA_ALL").is_some()
}

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

/// Number of operations of the document, and those that succeeded at least once.
fn tried_and_done(
    document: &Value,
    statuses: &Value,
    is_here: impl Fn(&str) -> bool,
) -> (usize, Vec<String>) {
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
    let tried = operations.len();
    (tried, operations.into_iter().filter(is_done).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_deviation_from_the_document_for_people() {
    let is_here = |path: &str| !PIPELINES.iter().any(|part| path.contains(part));
    let filter = ["--exclude-path-regex", &PIPELINES.join("|")].map(str::to_owned);
    on(Sqlite, || find_nothing(&filter, is_here)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_deviation_from_the_document_for_pipelines() {
    let is_left = |path: &str| !is_all_tried() && FAMILIES.iter().any(|part| path.contains(part));
    let is_here = |path: &str| PIPELINES.iter().any(|part| path.contains(part)) && !is_left(path);
    let but = match is_all_tried() {
        true => String::new(),
        false => format!("(?!.*({}))", FAMILIES.join("|")),
    };
    let filter = [
        "--include-path-regex".to_owned(),
        format!("^{but}.*({})", PIPELINES.join("|")),
    ];
    on(Postgres, || find_nothing(&filter, is_here)).await;
}

/// Runs Schemathesis on a part of the document: it must find nothing, and most operations must
/// succeed.
async fn find_nothing(filter: &[String], is_here: impl Fn(&str) -> bool) {
    let server = TestServer::start_unthrottled().await;
    for number in 0..6 {
        let email = format!("member{number}@example.com");
        server.fixture.member(&email, Level::Member).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let statuses = folder.path().join("statuses.json");
    let key = server.fixture.owner_key();
    let said = succeed(
        tool("st", folder.path())
            .env("SCHEMATHESIS_HOOKS", file("hooks.py"))
            .env("MILLRACE_MINE", protected_ids(&server).await)
            .env("MILLRACE_STATUSES", &statuses)
            .arg("--config-file")
            .arg(file("schemathesis.toml"))
            .args(["run", "--no-color"])
            .args(filter)
            // The time to generate requests is not our concern, and long on a busy machine.
            .arg("--suppress-health-check=too_slow")
            .arg(format!("http://{}/api/schema/", server.address))
            .args(["--header", &format!("Authorization: Bearer {key}")]),
    )
    .await;
    for phase in ["Coverage", "Fuzzing", "Stateful"] {
        assert!(said.contains(&format!("✅ {phase}")), "{said}");
    }
    let document = server.fixture.get("/api/schema/").await.body;
    let statuses = std::fs::read_to_string(statuses).unwrap();
    let statuses: Value = serde_json::from_str(&statuses).unwrap();
    let (tried, done) = tried_and_done(&document, &statuses, is_here);
    // The rest needs what a run cannot have: a token of a mail, an operator's key, the engine.
    assert!(
        4 * done.len() >= 3 * tried,
        "{tried}: {done:#?}\n{statuses:#}"
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
