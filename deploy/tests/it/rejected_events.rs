//! Rejected events: listed, corrected and resent, whatever prevents one of them.

use crate::commands::{command, stdout};
use crate::server::{Server, eventually, millrace};
use millrace_load::proxy::Proxy;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Events per request of a resend.
const REQUEST_EVENTS: u64 = 100;
/// Query for the number of events that are recorded as sent.
const NOTED: &str = "SELECT uniqExact(`index`) FROM millrace.rejected_events_resent";

/// Sends events to a project and waits until `count` events in all are rejected.
pub fn refuse(server: &Server, key: &str, batch: &Value, count: u64) {
    let body = json!({"api_key": key, "batch": batch});
    eventually("the key", || {
        (server.post("/batch/", &body).0 != 401).then_some(())
    });
    server.wait_for_tables();
    server.wait_for(
        "SELECT count() FROM millrace.rejected_events",
        &count.to_string(),
    );
}

fn stderr(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Follow-up commands in a text.
fn commands(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(str::trim_start);
    let commands = lines.filter_map(|line| line.strip_prefix("millrace "));
    commands.map(|line| shlex::split(line).unwrap()).collect()
}

/// Asserts that the event with index 1 is unsent, or is not.
fn must_be_unsent(dir: &TempDir, is_unsent: bool) {
    let args = ["rejected", "list", "--unsent", "--index", "1"];
    let listed = stdout(&command(dir, &args));
    let is_none = listed.contains("Nothing is left to send: 1 refused event was sent again");
    assert_eq!(is_none, !is_unsent, "{listed}");
}

#[test]
fn nothing_is_sent_from_the_folder_of_a_server_that_takes_no_events() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    assert_eq!(server.credential("ingest_url"), "");
    let refused = stderr(&command(&dir, &["rejected", "resend"]));
    assert!(refused.contains("accepts no events"), "{refused}");
}

#[test]
fn a_request_that_an_earlier_version_left_is_refused_until_it_is_settled() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let left = dir.path().join("resending.json");
    std::fs::write(&left, "{}").unwrap();
    let refused = stderr(&command(&dir, &["rejected", "resend"]));
    assert!(refused.contains("resending.json"), "{refused}");
    // Empty, it is only the lock of a resend that was stopped before it sent anything.
    std::fs::write(&left, "").unwrap();
    stdout(&command(&dir, &["rejected", "resend"]));
}

#[test]
fn rejected_events_are_listed_shown_and_resent() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let key = server.credential("project_api_key");
    let batch =
        json!([{"event": "good", "distinct_id": "a"}, {"event": "lost", "properties": {"n": 1}}]);
    let (status, answer) = server.post("/batch/", &json!({"api_key": key, "batch": batch}));
    assert_eq!(
        (status, &answer["rejected"][0]["code"]),
        (200, &json!("missing_distinct_id")),
        "{answer}"
    );
    server.wait_for_tables();
    server.wait_for("SELECT count() FROM millrace.rejected_events", "1");
    assert!(stdout(&command(&dir, &["rejected", "list"])).contains("missing_distinct_id"));
    let shown = stdout(&command(
        &dir,
        &["rejected", "show", "--code", "missing_distinct_id"],
    ));
    assert!(shown.contains(r#""lost""#), "{shown}");
    assert_eq!(
        command(&dir, &["rejected", "resend"]).status.code(),
        Some(1),
        "it is as wrong as before"
    );
    must_be_unsent(&dir, true);
    // With --all it is sent twice: the second time stores the same row again, which is merged.
    let args = ["rejected", "resend", "--index", "1"];
    let args = [&args[..], &["--set", "distinct_id=ada"]].concat();
    for (all, words) in [
        (&[][..], "1 event sent, 0 refused again, 0 cannot be sent."),
        (
            &[],
            "Nothing is left to send: 1 refused event was sent again",
        ),
        (
            &["--all"],
            "1 event sent, 0 refused again, 0 cannot be sent.",
        ),
    ] {
        let sent = stdout(&command(&dir, &[&args[..], all].concat()));
        assert!(sent.contains(words), "{all:?}: {sent}");
    }
    server.wait_for(
        "SELECT distinct_id, count() FROM millrace.events FINAL WHERE event = 'lost' GROUP BY 1",
        "ada\t1",
    );
    must_be_unsent(&dir, false);
    let listed = stdout(&command(&dir, &["rejected", "list", "--index", "1"]));
    let sent_at = listed.lines().nth(1).unwrap().split_whitespace().last();
    assert!(listed.contains("SENT AGAIN"), "{listed}");
    assert!(sent_at.unwrap().ends_with('Z'), "{listed}");
    let shown = stdout(&command(&dir, &["rejected", "show", "--index", "1"]));
    assert!(
        shown.contains(&format!("Sent again {}", sent_at.unwrap())),
        "{shown}"
    );
    // It was rejected again, which makes no second rejected event.
    assert_eq!(
        server.query("SELECT count() FROM millrace.rejected_events"),
        "1"
    );
}

#[test]
fn every_rejected_event_is_tried_and_the_printed_next_commands_work() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let other = ["keys", "create", "--project", "Other"];
    let other = stdout(&command(&dir, &other)).trim().to_owned();
    refuse(&server, &other, &json!([{"event": "keyless"}]), 1);
    stdout(&command(&dir, &["keys", "revoke", &other]));
    let mut batch: Vec<_> = (0..250)
        .map(|number| json!({"event": "lost", "properties": {"n": number}}))
        .collect();
    batch[0] = json!(17);
    for nameless in [70, 170] {
        batch[nameless] = json!({"distinct_id": "nobody"});
    }
    let key = server.credential("project_api_key");
    refuse(&server, &key, &json!(batch), 251);

    let resent = resend(&dir, "ada").output().unwrap();
    let said = String::from_utf8_lossy(&resent.stdout).into_owned();
    let totals = "247 events sent, 2 refused again, 2 cannot be sent.";
    for part in [
        totals,
        " 0 cannot be sent: it is not a JSON object",
        " 70 refused again, missing_event",
        " 170 refused again, missing_event",
        " has no key",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    server.wait_for(
        "SELECT count(), uniqExact(uuid) FROM millrace.events WHERE event = 'lost'",
        "247\t247",
    );
    let refused = "SELECT count() FROM millrace.rejected_events";
    assert_eq!(server.query(refused), "251", "each is there once");

    // The printed command works.
    let next = commands(&stderr(&resent));
    let [mend, list] = next.as_slice() else {
        panic!("{next:?}");
    };
    let mend: Vec<_> = mend
        .iter()
        .map(|word| word.replace("FIELD=VALUE", "event=named"))
        .collect();
    let run = |words: &[String]| millrace().args(words).output().unwrap();
    assert!(stdout(&run(&mend)).contains("2 events sent, 0 refused again"));
    let left = stdout(&run(list));
    assert_eq!(left.lines().count(), 3, "a heading and two: {left}");
}

#[test]
fn an_interrupted_resend_reports_its_progress_and_resumes() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let key = server.credential("project_api_key");
    refuse(&server, &key, &json!([{"event": "a"}, {"event": "b"}]), 2);
    let url = server.credential("ingest_url");
    let written = std::fs::read_to_string(server.credentials_path()).unwrap();
    let elsewhere = written.replace(&url, "http://127.0.0.1:1");
    std::fs::write(server.credentials_path(), elsewhere).unwrap();
    let set = ["rejected", "resend", "--set", "distinct_id=ada"];
    let resent = command(&dir, &set);
    let said = String::from_utf8_lossy(&resent.stdout);
    assert!(
        said.contains("0 events sent, 0 refused again, 0 cannot be sent, 2 not tried."),
        "{said}"
    );
    let told = stderr(&resent);
    assert!(told.contains("cannot reach http://127.0.0.1:1"), "{told}");
    std::fs::write(server.credentials_path(), written).unwrap();
    let again = millrace().args(&commands(&told)[0]).output().unwrap();
    assert!(stdout(&again).contains("2 events sent"), "{again:?}");
}

/// Kills a resend of 450 events, with `distinct_id` ada, between the storing of a request and its
/// response. Returns the number of events that are not recorded as sent.
fn kill_a_resend(dir: &TempDir, server: &Server) -> u64 {
    let key = server.credential("project_api_key");
    let events: Vec<_> = (0..450)
        .map(|number| json!({"event": "lost", "properties": {"n": number}}))
        .collect();
    refuse(server, &key, &json!(events), 450);
    let url = server.credential("ingest_url");
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &url).unwrap();
    let written = std::fs::read_to_string(server.credentials_path()).unwrap();
    std::fs::write(
        server.credentials_path(),
        written.replace(&url, &proxy.url()),
    )
    .unwrap();
    proxy.set("slow=500ms".parse().unwrap());
    let mut child = resend(dir, "ada").stdout(Stdio::null()).spawn().unwrap();
    server.wait_for(NOTED, &REQUEST_EVENTS.to_string());
    // The next request, or the one after that, is stored without a response.
    proxy.set("silent".parse().unwrap());
    let requests = proxy.counts().requests;
    let until = (requests + 1) * REQUEST_EVENTS;
    let stored = "SELECT count() FROM millrace.events WHERE event = 'lost'";
    server.wait_for(stored, &until.to_string());
    server.wait_for(NOTED, &(requests * REQUEST_EVENTS).to_string());
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(server.credentials_path(), written).unwrap();
    assert!(until < 450, "it was killed midway: {until}");
    450 - requests * REQUEST_EVENTS
}

/// Command that resends all events with this `distinct_id`.
fn resend(dir: &TempDir, distinct_id: &str) -> Command {
    let mut command = millrace();
    command.args(["rejected", "resend", "--limit", "1000", "--data-dir"]);
    command.arg(dir.path());
    command.args(["--set", &format!("distinct_id={distinct_id}")]);
    command
}

#[test]
fn a_killed_resend_leaves_at_most_one_unrecorded_request_and_stores_nothing_twice() {
    for next in ["ada", "bob"] {
        let dir = TempDir::new().unwrap();
        let server = Server::start(dir.path());
        let left = kill_a_resend(&dir, &server);
        let unsent = ["rejected", "list", "--unsent", "--limit", "1000"];
        let unsent = stdout(&command(&dir, &unsent));
        assert_eq!(unsent.lines().count() as u64 - 1, left, "{next}");

        let sent = stdout(&resend(&dir, next).output().unwrap());
        let rest = left - REQUEST_EVENTS;
        for totals in [
            format!("{REQUEST_EVENTS} events of an interrupted resend: sent, as they were then."),
            format!("{rest} events sent, 0 refused again, 0 cannot be sent."),
        ] {
            assert!(sent.contains(&totals), "{next}: {sent}");
        }
        // Without FINAL: the unrecorded request is recognised by its fingerprint.
        let counts = "SELECT count(), uniqExact(uuid), countIf(distinct_id = 'ada') FROM millrace.events WHERE event = 'lost'";
        let of_ada = if next == "ada" { 450 } else { 450 - rest };
        server.wait_for(counts, &format!("450\t450\t{of_ada}"));
        server.wait_for(NOTED, "450");
    }
}

#[test]
fn an_empty_selection_reports_how_many_events_there_are() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    for verb in ["list", "show", "resend"] {
        let told = stdout(&command(&dir, &["rejected", verb, "--index", "99"]));
        assert_eq!(told, "No event was refused.\n", "{verb}");
    }
    let key = server.credential("project_api_key");
    refuse(&server, &key, &json!([{"event": "a"}, {"event": "b"}]), 2);
    let index = "No refused event has the index 99. Without --index there are 2 refused events";
    let none = "No refused event matches. In all there are 2 refused events";
    let table = [(["--index", "99"], index), (["--code", "other"], none)];
    for (which, words) in table {
        let asked = |verb| command(&dir, &[&["rejected", verb][..], &which].concat());
        let shown = stderr(&asked("show"));
        assert!(shown.contains(words), "{shown}");
        for verb in ["list", "resend"] {
            let told = stdout(&asked(verb));
            assert!(told.contains(words), "{told}");
            let listed = millrace().args(&commands(&told)[0]).output().unwrap();
            assert_eq!(stdout(&listed).lines().count(), 3, "{told}");
        }
    }
    let first = stdout(&command(&dir, &["rejected", "list", "--limit", "1"]));
    let more = "These are the newest of 2 refused events; --limit 2 shows all.";
    assert!(first.contains(more), "{first}");
    assert!(!first.contains("By project and code"), "{first}");
    // Regression: a project that sends many was all that was listed.
    let unnamed = json!([{"event": "a"}, {"distinct_id": "d"}]);
    refuse(&server, &key, &unnamed, 4);
    let first = stdout(&command(&dir, &["rejected", "list", "--limit", "1"]));
    assert!(first.contains("By project and code"), "{first}");
    let counted = |code: &str, events: &str| {
        let mut lines = first.lines().map(|line| line.split_whitespace().skip(1));
        lines.any(|words| words.eq([code, events]))
    };
    assert!(counted("missing_distinct_id", "3"), "{first}");
    assert!(counted("missing_event", "1"), "{first}");
}
