//! Texts of others on the operator's terminal: names from before control characters were refused, events as
//! they were sent, files as they are called. None forges a line, moves a cursor or turns the direction of text.

use crate::server::{Server, millrace, on_own_ports};
use crate::untouched::COMMANDS;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, NewUser};
use millrace_rows::is_control;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// What is in every text, in lower case as addresses are; its second line would be a row that is none.
const HOSTILE: &str = "evil\u{1b}]0;pwned\u{7}\u{1b}[2j\r\n9999-99-99 forged\u{7f}\u{9b}31mred\u{202e}\u{2066}\u{2028}z";
/// The same as it may be shown.
const SHOWN: &str = r"evil\u{1b}]0;pwned\u{7}\u{1b}[2j\u{d}\u{a}9999-99-99 forged\u{7f}\u{9b}31mred\u{202e}\u{2066}\u{2028}z";
/// Columns of the catalog that a command shows, or that an error of one could.
const COLUMNS: [(&str, &str); 13] = [
    ("organizations", "name"),
    ("projects", "name"),
    ("users", "first_name"),
    ("users", "last_name"),
    ("users", "email"),
    ("personal_api_keys", "label"),
    ("organization_invites", "target_email"),
    ("organization_invites", "first_name"),
    ("organization_invites", "message"),
    ("historical_migrations", "source"),
    ("historical_migrations", "method"),
    ("ingest_nodes", "name"),
    ("ingest_nodes", "host"),
];
/// Commands that show such a text, in what must be one line of theirs.
const SHOWING: [&str; 13] = [
    "keys list",
    "keys revoke KEY",
    "organizations list",
    "members list",
    "members set-level --user EMAIL --level 8",
    "members remove --user EMAIL",
    "invites create --email a@example.com",
    "migrations list",
    "nodes list",
    "nodes forget EMAIL --yes",
    "rejected show",
    "import check FILE",
    "import load FILE",
];

struct Stand {
    dir: TempDir,
    database: TestDatabase,
    server: Server,
    runtime: tokio::runtime::Runtime,
}

impl Stand {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let database = TestDatabase::sqlite();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let data_dir = dir.path().join("data");
        let mut command = on_own_ports("serve", &data_dir);
        command.args(["--database-url", database.url()]);
        command.stderr(File::create(dir.path().join("log")).unwrap());
        let server = Server::start_command(&mut command, &data_dir);
        Self {
            dir,
            database,
            server,
            runtime,
        }
    }

    fn execute(&self, sql: &str) {
        let executed = self.database.execute(sql);
        self.runtime.block_on(executed).unwrap();
    }

    /// A member, an invite and a migration.
    fn fill(&self) {
        self.runtime.block_on(async {
            let catalog = Catalog::open(self.database.url()).await.unwrap();
            let organization = catalog.list_organizations().await.unwrap()[0].id;
            let new = NewUser {
                email: "member@example.com".to_owned(),
                ..NewUser::default()
            };
            let user = catalog.create_user(new).await.unwrap();
            let level = millrace_catalog::Level::Member;
            catalog
                .add_member(organization, user.id, level)
                .await
                .unwrap();
            catalog.close().await.unwrap();
        });
        for command in [
            "invites create --email invited@example.com",
            "migrations approve --team-id 1 --total-events 9 --events-per-minute 9",
        ] {
            let output = self.run(command, Path::new(""));
            assert!(output.status.success(), "{command}: {output:?}");
        }
    }

    /// Has the hostile text in every column.
    fn poison(&self) {
        let hex: String = HOSTILE.bytes().map(|byte| format!("{byte:02x}")).collect();
        // The server has made its node anew since the last time.
        let had = format!("DELETE FROM ingest_nodes WHERE name = CAST(x'{hex}' AS TEXT)");
        self.execute(&had);
        for (table, column) in COLUMNS {
            // The owner's address stays, so that commands which need one go on.
            let which = match (table, column) {
                ("users", "email") => "WHERE email = 'member@example.com'",
                _ => "",
            };
            self.execute(&format!(
                "UPDATE {table} SET {column} = CAST(x'{hex}' AS TEXT) {which}"
            ));
        }
    }

    fn run(&self, command: &str, file: &Path) -> Output {
        let args = command.split(' ').map(|word| match word {
            "FOLDER" => self.dir.path().to_str().unwrap(),
            "EMAIL" => HOSTILE,
            "FILE" => file.to_str().unwrap(),
            word => word,
        });
        let mut run = millrace();
        run.args(args).current_dir(&self.dir);
        if !command.contains("--data-dir") {
            run.arg("--data-dir").arg(self.dir.path().join("data"));
        }
        run.args(["--database-url", self.database.url()]);
        run.output().unwrap()
    }

    /// A file that is called so, with a good and a bad record.
    fn file(&self) -> PathBuf {
        let path = self.dir.path().join(format!("{HOSTILE}.json"));
        let records = [
            json!({ "event": HOSTILE, "distinct_id": "a", "timestamp": "2026-01-01T00:00:00Z" }),
            json!({ "event": HOSTILE, "distinct_id": "", "timestamp": "2026-01-01T00:00:00Z" }),
        ];
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    }
}

/// Fails if what was printed has a control character but line feeds, or a line that somebody forged.
fn must_be_plain(output: &Output, case: &str) -> String {
    let mut all = String::new();
    for printed in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(printed.clone()).unwrap();
        let found = text.chars().find(|c| *c != '\n' && is_control(*c));
        assert_eq!(found, None, "{case}: {text:?}");
        let forged = text.lines().find(|line| line.starts_with("9999"));
        assert_eq!(forged, None, "{case}: {text}");
        all += &text;
    }
    all
}

#[test]
fn no_command_shows_a_text_of_others_raw() {
    let stand = Stand::new();
    stand.fill();
    let event = json!({ "event": HOSTILE, "properties": { HOSTILE: HOSTILE } });
    let key = stand.server.credential("project_api_key");
    let body = json!({ "api_key": key, "batch": [event] });
    assert_eq!(stand.server.post("/batch/", &body).0, 400);
    let sql = "SELECT count() FROM millrace.rejected_events";
    stand.server.wait_for(sql, "1");
    let file = stand.file();
    stand.poison();
    let id = stand.runtime.block_on(async {
        let catalog = Catalog::open(stand.database.url()).await.unwrap();
        let keys = catalog.list_personal_keys(None).await.unwrap();
        keys[0].id.to_string()
    });
    for command in SHOWING {
        // The node's name comes back with its next word to the catalog.
        if command.starts_with("nodes") {
            stand.poison();
        }
        let named = command.replace("KEY", &id);
        let output = stand.run(&named, &file);
        let text = must_be_plain(&output, command);
        if command == "rejected show" {
            let line = text.lines().find(|line| line.starts_with('{')).unwrap();
            let shown: Value = serde_json::from_str(line).unwrap();
            assert_eq!(shown["event"], event["event"], "its JSON means the same");
            continue;
        }
        let is_silent = command.starts_with("import load");
        assert!(is_silent || text.contains(SHOWN), "{command}: {text}");
    }
    for command in COMMANDS {
        stand.poison();
        must_be_plain(&stand.run(command, &file), command);
    }
    let path = stand.dir.path().join("log");
    assert!(stand.server.stop().success());
    let log = std::fs::read_to_string(path).unwrap();
    assert!(!log.contains(|c| c != '\n' && is_control(c)), "{log:?}");
    assert!(!log.contains("closed="), "{log}");
}

#[test]
fn what_is_refused_is_said_in_one_line() {
    let stand = Stand::new();
    for command in [
        "keys create --project EMAIL",
        "keys create --user owner@localhost --label EMAIL",
        "keys create --user EMAIL",
        "organizations create --name EMAIL",
        "organizations create --name Acme --owner EMAIL",
        "invites create --email EMAIL",
        "invites create --email a@example.com --first-name EMAIL",
        "migrations approve --team-id 1 --total-events 1 --events-per-minute 1 --note EMAIL",
        "members remove --user EMAIL",
    ] {
        let output = stand.run(command, Path::new(""));
        must_be_plain(&output, command);
        assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
    }
}
