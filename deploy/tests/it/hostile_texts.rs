//! Untrusted texts on the operator's terminal: names from before control characters were rejected,
//! events as sent, file names. None forges a line, moves the cursor or changes the direction of
//! text.

use crate::read_only_commands::COMMANDS;
use crate::server::{Server, millrace, on_own_ports};
use millrace_catalog::Catalog;
use millrace_catalog::testing::TestDatabase;
use millrace_organizations::{NewUser, Organizations, PersonalKeys, Users};
use millrace_rows::is_control;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Hostile text, in lower case as email addresses are; its second line imitates a row of a table.
const HOSTILE: &str = "evil\u{1b}]0;pwned\u{7}\u{1b}[2j\r\n9999-99-99 forged\u{7f}\u{9b}31mred\u{202e}\u{2066}\u{2028}z";
/// Escaped form of [`HOSTILE`], as it may be printed.
const SHOWN: &str = r"evil\u{1b}]0;pwned\u{7}\u{1b}[2j\u{d}\u{a}9999-99-99 forged\u{7f}\u{9b}31mred\u{202e}\u{2066}\u{2028}z";
/// Columns of the catalog that a command, or an error of one, could print.
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
/// Commands that print such a text, in one line.
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
    "nodes deregister EMAIL --yes",
    "rejected show",
    "import check FILE",
    "import load FILE",
];

struct TestEnv {
    dir: TempDir,
    database: TestDatabase,
    server: Server,
    runtime: tokio::runtime::Runtime,
}

impl TestEnv {
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

    /// Creates a member, an invite and a migration.
    fn fill(&self) {
        self.runtime.block_on(async {
            let catalog = Catalog::open(self.database.url()).await.unwrap();
            let organization = Organizations::new(&catalog).list_all().await.unwrap()[0].id;
            let new = NewUser {
                email: "member@example.com".to_owned(),
                ..NewUser::default()
            };
            let user = Users::new(&catalog).create(new).await.unwrap();
            let level = millrace_catalog::Level::Member;
            catalog
                .add_member(organization, user.id, level)
                .await
                .unwrap();
            catalog.close().await.unwrap();
        });
        for command in [
            "invites create --email invited@example.com",
            "migrations approve --project-id 1 --total-events 9 --events-per-minute 9",
        ] {
            let output = self.run(command, Path::new(""));
            assert!(output.status.success(), "{command}: {output:?}");
        }
    }

    /// Writes the hostile text to every column.
    fn inject(&self) {
        let hex: String = HOSTILE.bytes().map(|byte| format!("{byte:02x}")).collect();
        for (table, column) in COLUMNS {
            // The owner's address stays, for commands that need an owner.
            let which = match (table, column) {
                ("users", "email") => "WHERE email = 'member@example.com'",
                _ => "",
            };
            // The server may have registered its node again since the last time.
            self.execute(&format!(
                "UPDATE OR REPLACE {table} SET {column} = CAST(x'{hex}' AS TEXT) {which}"
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

    /// Creates a file with a hostile name, a valid and an invalid record.
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

/// Asserts that the output has no control character but line feeds, and no forged line.
fn assert_plain(output: &Output, case: &str) -> String {
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
fn no_command_prints_an_untrusted_text_unescaped() {
    let env = TestEnv::new();
    env.fill();
    let event = json!({ "event": HOSTILE, "properties": { HOSTILE: HOSTILE } });
    let key = env.server.credential("project_api_key");
    let body = json!({ "api_key": key, "batch": [event] });
    assert_eq!(env.server.post("/batch/", &body).0, 400);
    let sql = "SELECT count() FROM millrace.rejected_events";
    env.server.wait_for(sql, "1");
    let file = env.file();
    env.inject();
    let id = env.runtime.block_on(async {
        let catalog = Catalog::open(env.database.url()).await.unwrap();
        let keys = PersonalKeys::new(&catalog).list(None).await.unwrap();
        keys[0].id.to_string()
    });
    for command in SHOWING {
        // The node restores its name with its next report to the catalog.
        if command.starts_with("nodes") {
            env.inject();
        }
        let named = command.replace("KEY", &id);
        let output = env.run(&named, &file);
        let text = assert_plain(&output, command);
        if command == "rejected show" {
            let line = text.lines().find(|line| line.starts_with('{')).unwrap();
            let shown: Value = serde_json::from_str(line).unwrap();
            assert_eq!(shown["event"], event["event"], "its JSON means the same");
            continue;
        }
        let is_silent = command.starts_with("import load");
        assert!(is_silent || text.contains(SHOWN), "{command}: {text}");
    }
    // A drain would end the server.
    let others = COMMANDS.into_iter().filter(|it| !it.starts_with("drain"));
    for command in others {
        env.inject();
        assert_plain(&env.run(command, &file), command);
    }
    let path = env.dir.path().join("log");
    assert!(env.server.stop().success());
    let log = std::fs::read_to_string(path).unwrap();
    assert!(!log.contains(|c| c != '\n' && is_control(c)), "{log:?}");
    assert!(!log.contains("closed="), "{log}");
}

#[test]
fn rejected_texts_are_reported_in_one_line() {
    let env = TestEnv::new();
    for command in [
        "keys create --project EMAIL",
        "keys create --user owner@localhost --label EMAIL",
        "keys create --user EMAIL",
        "organizations create --name EMAIL",
        "organizations create --name Acme --owner EMAIL",
        "invites create --email EMAIL",
        "invites create --email a@example.com --first-name EMAIL",
        "migrations approve --project-id 1 --total-events 1 --events-per-minute 1 --note EMAIL",
        "members remove --user EMAIL",
        "sign-in-link --email EMAIL",
    ] {
        let output = env.run(command, Path::new(""));
        assert_plain(&output, command);
        assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
    }
}
