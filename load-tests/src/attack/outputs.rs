//! Checks that the operator's commands and logs show nothing that a terminal would interpret.

use super::findings::Findings;
use super::hostile::HOSTILE_TEXT;
use super::subject::Subject;
use anyhow::Result;

/// Commands that show texts of tenants.
const COMMANDS: [&[&str]; 6] = [
    &["keys", "list"],
    &["organizations", "list"],
    &["migrations", "list"],
    &["nodes", "list"],
    &["rejected", "list", "--limit", "1000"],
    &["rejected", "show", "--limit", "1000"],
];

/// Checks the output of the commands, and the server's log.
pub(super) fn check(subject: &Subject, findings: &Findings) -> Result<()> {
    for words in COMMANDS {
        let output = subject.operate(words)?;
        let name = words.join(" ");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            findings.wrong(format!("`{name}` failed: {said}"));
        }
        for printed in [&output.stdout, &output.stderr] {
            look(
                &format!("`{name}`"),
                &String::from_utf8_lossy(printed),
                findings,
            );
        }
    }
    look("the log", &subject.stderr_text(), findings);
    Ok(())
}

fn look(what: &str, text: &str, findings: &Findings) {
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

/// Returns true for control characters of the hostile text, which no text of ours contains.
fn is_hostile(c: char) -> bool {
    c != '\n' && HOSTILE_TEXT.contains(c) && (c.is_control() || c > '\u{2000}')
}

#[cfg(test)]
mod tests {
    use super::*;

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
            look("it", text, &findings);
            assert_eq!(findings.wrongs().count, wrongs, "{text:?}");
        }
    }
}
