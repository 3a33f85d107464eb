//! Commands of the README and of the guide, run as they are written there.
//!
//! A block behind `<!-- run: NAME -->` is taken from the file, with the default addresses
//! replaced by those of the test's own server, and run in the folder whose `millrace-data` it
//! speaks of.

use crate::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The workspace's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn block(name: &str, server: &Server) -> String {
    block_of("README.md", name, server)
}

fn guide_block(page: &str, name: &str, server: &Server) -> String {
    block_of(&format!("deploy/guide/{page}.md"), name, server)
}

/// The code block of a file with this name, for this server.
pub fn block_of(file: &str, name: &str, server: &Server) -> String {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let marker = format!("<!-- run: {name} -->\n```");
    let (_, rest) = text
        .split_once(&marker)
        .unwrap_or_else(|| panic!("{file} has no block {name}"));
    let (_, rest) = rest.split_once('\n').unwrap();
    let (code, _) = rest.split_once("\n```").unwrap();
    code.replace("http://127.0.0.1:8000", &server.credential("ingest_url"))
        .replace("http://127.0.0.1:8010", &server.credential("admin_url"))
        .replace(
            "http://127.0.0.1:8123",
            &server.credential("clickhouse_url"),
        )
}

/// Runs a command to its end and gives what it printed.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_first_events_of_the_readme_arrive() {
    let home = TempDir::new().unwrap();
    let server = Server::start(&home.path().join("millrace-data"));
    let shell = [block("key", &server), block("curl", &server)].join("\n");
    let printed = output(
        Command::new("bash")
            .args(["-ec", &shell])
            .current_dir(&home),
    );
    assert_eq!(printed, r#"{"status":"Ok"}"#);

    let python = root().join(".test-env/python/bin/python");
    output(
        Command::new(python)
            .args(["-c", &block("python", &server)])
            .current_dir(&home),
    );

    // Modules are looked up from the script's own folder.
    std::os::unix::fs::symlink(
        root().join("load-tests/clients/node_modules"),
        home.path().join("node_modules"),
    )
    .unwrap();
    std::fs::write(home.path().join("first.mjs"), block("node", &server)).unwrap();
    output(Command::new("node").arg("first.mjs").current_dir(&home));

    server.wait_for("SELECT count() FROM millrace.events", "3");
    let table = output(
        Command::new("bash")
            .args(["-ec", &block("query", &server)])
            .current_dir(&home),
    );
    for who in ["ada", "grace", "linus"] {
        assert!(table.contains(who), "{table}");
    }
}

#[test]
fn the_guide_joins_the_events_of_a_person() {
    let home = TempDir::new().unwrap();
    let server = Server::start(&home.path().join("millrace-data"));
    server.wait_for("EXISTS TABLE millrace.events_with_persons", "1");
    let shell = [
        block("key", &server),
        guide_block("querying", "persons", &server),
    ]
    .join("\n");
    crate::server::eventually("both events of one person", || {
        // Events come again and again until then, of the same person.
        let printed = output(
            Command::new("bash")
                .args(["-ec", &shell])
                .current_dir(&home),
        );
        (printed.matches("large").count() >= 2 && printed.contains("visitor-1")).then_some(())
    });
}

#[test]
fn the_guide_manages_an_organization() {
    let home = TempDir::new().unwrap();
    let server = Server::start(&home.path().join("millrace-data"));
    let run = |name: &str| -> serde_json::Value {
        let shell = [
            guide_block("organizations", "admin key", &server),
            guide_block("organizations", name, &server),
        ]
        .join("\n");
        let shell = shell.replace("curl ", "curl --fail-with-body --silent --show-error ");
        let printed = output(
            Command::new("bash")
                .args(["-ec", &shell])
                .current_dir(&home),
        );
        serde_json::from_str(&printed).unwrap()
    };
    let project = run("admin project");
    assert_eq!(project["name"], "Website");
    assert!(project["api_token"].as_str().unwrap().starts_with("phc_"));
    let invite = run("admin invite");
    assert_eq!(invite["target_email"], "grace@example.com");
    let reader = run("admin reader");
    assert!(reader["value"].as_str().unwrap().starts_with("phx_"));
    let activity = run("admin activity");
    let entries = activity["results"].as_array().unwrap();
    for scope in ["Project", "OrganizationInvite", "PersonalAPIKey"] {
        assert!(
            entries.iter().any(|entry| entry["scope"] == scope),
            "{scope} in {activity}"
        );
    }
}

/// Runs commands; returns the JSON values that they printed.
fn printed(shell: &str, home: &TempDir) -> Vec<serde_json::Value> {
    let shell = shell.replace("curl ", "curl --fail-with-body --silent --show-error ");
    let printed = output(Command::new("bash").args(["-ec", &shell]).current_dir(home));
    let values = serde_json::Deserializer::from_str(&printed).into_iter();
    values.map(Result::unwrap).collect()
}

fn all_passed(tested: &serde_json::Value, count: usize) {
    let steps = tested["steps"].as_array().unwrap();
    assert_eq!(steps.len(), count, "{tested}");
    for step in steps {
        assert_eq!(step["result"]["status"], "Passed", "{step}");
    }
}

/// A process that ends with the test.
struct ChildGuard(std::process::Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_guide_exports_to_a_folder_and_to_s3() {
    let (home, store) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::create_dir(store.path().join("my-bucket")).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let s3 = Command::new(root().join(".test-env/s3s-fs/bin/s3s-fs"))
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .args(["--access-key", "AKIA", "--secret-key", "s3cret"])
        .arg(store.path())
        .spawn()
        .unwrap();
    let _s3 = ChildGuard(s3);
    let exports = home.path().join("exports");
    let args = ["--export-root", exports.to_str().unwrap()];
    let args = [&args[..], &["--allow-private-destinations=true"]].concat();
    let server = Server::start_with(&home.path().join("millrace-data"), &args);
    let shell = [
        guide_block("exports", "admin key", &server),
        guide_block("exports", "export folder", &server),
    ]
    .join("\n");
    let [tested, runs] = printed(&shell, &home).try_into().unwrap();
    all_passed(&tested, 3);
    assert_eq!(runs["count"], 0, "{runs}");

    let key = format!(r#""AKIA", "endpoint_url": "http://127.0.0.1:{port}", "#);
    let to_s3 = guide_block("exports", "export s3", &server)
        .replace(r#""AKIA…", "#, &key)
        .replace(r#""…""#, r#""s3cret""#);
    crate::server::eventually("the S3 server", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let shell = [guide_block("exports", "admin key", &server), to_s3].join("\n");
    let [tested, backfilled] = printed(&shell, &home).try_into().unwrap();
    all_passed(&tested, 5);
    assert!(backfilled["backfill_id"].is_string(), "{backfilled}");
}
