//! What the operator is shown after all that: nothing of it may be followed by a terminal.

use super::hostile::HOSTILE_TEXT;
use super::subject::Subject;
use super::tally::Tally;
use anyhow::Result;

/// Commands that show what tenants wrote.
const COMMANDS: [&[&str]; 6] = [
    &["keys", "list"],
    &["organizations", "list"],
    &["migrations", "list"],
    &["nodes", "list"],
    &["rejected", "list", "--limit", "1000"],
    &["rejected", "show", "--limit", "1000"],
];

/// Looks at what commands print and at the server's log.
pub(super) fn check(subject: &Subject, tally: &Tally) -> Result<()> {
    for words in COMMANDS {
        let output = subject.operate(words)?;
        let name = words.join(" ");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            tally.wrong(format!("`{name}` failed: {said}"));
        }
        for printed in [&output.stdout, &output.stderr] {
            look(
                &format!("`{name}`"),
                &String::from_utf8_lossy(printed),
                tally,
            );
        }
    }
    look("the log", &subject.said(), tally);
    Ok(())
}

fn look(what: &str, text: &str, tally: &Tally) {
    let raw = text.lines().find(|line| line.contains(is_hostile));
    if let Some(line) = raw {
        let line = line.escape_debug();
        tally.wrong(format!("{what} shows what terminals follow: {line}"));
    }
    if text.lines().any(|line| line.starts_with("9999-99-99")) {
        tally.wrong(format!("{what} has a line that somebody forged"));
    }
    let count = text.matches("9999-99-99").count();
    tally.count(
        "hostile texts shown, escaped",
        &format!("{what}: {}", count.min(1)),
    );
}

/// One of the characters that the hostile text has, and no text of ours.
fn is_hostile(c: char) -> bool {
    c != '\n' && HOSTILE_TEXT.contains(c) && (c.is_control() || c > '\u{2000}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_follow_is_found() {
        for (text, wrongs) in [
            ("a table\nof two lines – with a dash\n", 0),
            ("evil\\u{1b}]0;pwned", 0),
            ("a\u{1b}[2J", 1),
            ("a\u{202e}b", 1),
            ("a\n9999-99-99 forged", 1),
            (HOSTILE_TEXT, 2),
        ] {
            let tally = Tally::default();
            look("it", text, &tally);
            assert_eq!(tally.wrongs().count, wrongs, "{text:?}");
        }
    }
}
