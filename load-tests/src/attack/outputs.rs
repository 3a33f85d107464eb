//! Checks that no output shows texts of tenants as a terminal would interpret them.
//!
//! | Output | Texts of tenants in it | Held by |
//! |---|---|---|
//! | lists of commands | names of organizations, projects, users and migrations; labels of keys; rejected events | `hostile_texts` in `deploy/tests/it`, from every column of the catalog; here |
//! | the log | names, ids, errors of events and of destinations | the same; here |
//! | metrics | none: labels are numbers and words of ours | here |
//! | `/_health/ready?verbose` | errors of parts | the attack's task `health` |
//! | activity | all fields of changed records, as JSON | here; what is refused, by `fields` |
//! | mails | names, messages of invites | `control_characters` in `admin/tests/it`; `mail_sink` |
//! | pages in HTML | none: the page of an invite is the same for all | `signup_page` in `admin/tests/it` |
//! | errors and links of the API | none of those that it refuses, or is asked with | `fields`, `parameters` |

use super::findings::{Findings, is_judged};
use super::hostile_text::is_hostile;
use super::subject::Subject;
use super::tenants::Tenants;
use crate::metrics;
use crate::runtime::current_thread_runtime;
use anyhow::Result;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Time for which an output is asked for again.
const ASKED_AGAIN_FOR: Duration = Duration::from_secs(60);
/// Pause before it is asked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// Commands that show texts of tenants.
const COMMANDS: [&[&str]; 6] = [
    &["keys", "list"],
    &["organizations", "list"],
    &["migrations", "list"],
    &["nodes", "list"],
    &["rejected", "list", "--limit", "1000"],
    &["rejected", "show", "--limit", "1000"],
];
/// Commands that show texts of one organization.
const COMMANDS_OF_ONE: [[&str; 2]; 2] = [["members", "list"], ["organizations", "features"]];

/// Checks the output of the commands, the server's log and metrics, and the activity.
pub(super) fn check(subject: &Subject, tenants: &Tenants, findings: &Findings) -> Result<()> {
    for words in COMMANDS {
        command(subject, words, findings)?;
    }
    for [one, other] in COMMANDS_OF_ONE {
        let organization = tenants.hostile.organization.as_str();
        let words = [one, other, "--organization", organization];
        command(subject, &words, findings)?;
    }
    check_text("the log", &subject.stderr_text(), findings);
    let read = || metrics::read(&subject.credentials.health_url);
    match until_judged(read, Result::is_ok) {
        Ok(text) => check_text("the metrics", &text, findings),
        Err(error) => findings.wrong(format!("no metrics in the end: {error}")),
    }
    activity(tenants, findings)
}

/// Asks again for a while: a server that was attacked, on a busy machine, may take its time.
fn until_judged<T>(ask: impl Fn() -> T, is_judged: impl Fn(&T) -> bool) -> T {
    let started = Instant::now();
    loop {
        let answer = ask();
        if is_judged(&answer) || started.elapsed() > ASKED_AGAIN_FOR {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Checks the output of a command.
fn command(subject: &Subject, words: &[&str], findings: &Findings) -> Result<()> {
    let output = subject.operate(words)?;
    let name = words.join(" ");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        findings.wrong(format!("`{name}` failed: {said}"));
    }
    for printed in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(printed);
        check_text(&format!("`{name}`"), &text, findings);
    }
    Ok(())
}

/// Checks that what the hostile tenant did is told in JSON, whose strings have no raw line ends or
/// escapes. A field whose text is free may hold any character.
fn activity(tenants: &Tenants, findings: &Findings) -> Result<()> {
    let runtime = current_thread_runtime()?;
    let ask = || {
        let asked = tenants
            .hostile
            .ask("GET", "activity/?limit=500", &Value::Null);
        runtime.block_on(asked)
    };
    let outcome = until_judged(ask, |outcome| is_judged(outcome.status()));
    let is_json = outcome.json().pointer("/results").is_some();
    if !is_json || outcome.text().contains(|c: char| c.is_ascii_control()) {
        findings.wrong(format!("the activity is not JSON in one line: {outcome}"));
    }
    Ok(())
}

/// Checks that a text shows no control characters and no forged lines.
fn check_text(what: &str, text: &str, findings: &Findings) {
    let raw = text.lines().find(|line| line.contains(is_hostile));
    if let Some(line) = raw {
        let line = line.escape_debug();
        findings.wrong(format!("{what} shows what terminals follow: {line}"));
    }
    if text.lines().any(|line| line.starts_with("9999-99-99")) {
        findings.wrong(format!("{what} has a line that somebody forged"));
    }
    let count = text.matches("9999-99-99").count();
    findings.count(
        "hostile texts shown, escaped",
        &format!("{what}: {}", count.min(1)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::hostile_text::HOSTILE_TEXT;

    #[test]
    fn terminal_control_characters_are_found() {
        for (text, wrongs) in [
            ("a table\nof two lines – with a dash\n", 0),
            ("evil\\u{1b}]0;pwned", 0),
            ("a\u{1b}[2J", 1),
            ("a\u{202e}b", 1),
            ("a\n9999-99-99 forged", 1),
            (HOSTILE_TEXT, 2),
        ] {
            let findings = Findings::default();
            check_text("it", text, &findings);
            assert_eq!(findings.wrongs().count, wrongs, "{text:?}");
        }
    }
}
