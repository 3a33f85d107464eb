//! Statements that are refused for what they do.
//!
//! `KILL` ends inserts of events, reads of exports and deletions in the middle. The engine's grants do not refuse it, as
//! all statements are of its one user, and anybody may end his own. Ending queries whose client has gone, and those that
//! Millrace itself does not want any more (`stop`), does not come this way.

use super::pieces::{Pieces, is_word};
use crate::sql::names::without_texts;

const REFUSED: &str = "KILL";

/// The refused word that a statement begins with, or one that runs beside it.
pub(super) fn find(sql: &[u8]) -> Option<&'static str> {
    let plain = without_texts(sql);
    let text = plain.as_deref().unwrap_or(sql);
    // Where the engine sees the end of a comment elsewhere, its text may begin the statement.
    let begins = |skips_comments| {
        let mut words = words(text, skips_comments);
        match words.next() {
            // Another user is named before the statement.
            Some(first) if first.eq_ignore_ascii_case("EXECUTE") => words.any(is_refused),
            first => first.is_some_and(is_refused),
        }
    };
    let runs_beside = |skips_comments| {
        let (mut before, mut last) = ("", "");
        words(text, skips_comments).any(|word| {
            let is_found = before.eq_ignore_ascii_case("PARALLEL")
                && last.eq_ignore_ascii_case("WITH")
                && is_refused(word);
            (before, last) = (last, word);
            is_found
        })
    };
    let is_found = [true, false]
        .into_iter()
        .any(|skips_comments| begins(skips_comments) || runs_beside(skips_comments));
    is_found.then_some(REFUSED)
}

fn is_refused(word: &str) -> bool {
    word.eq_ignore_ascii_case(REFUSED)
}

fn words(text: &[u8], skips_comments: bool) -> impl Iterator<Item = &str> {
    let pieces = Pieces::new(text, skips_comments).map(|piece| piece.text);
    pieces.filter(|text| is_word(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_is_refused_however_it_is_written() {
        for sql in [
            "KILL QUERY WHERE 1",
            "kill query where query_id = 'a' SYNC",
            "KILL MUTATION WHERE 1",
            "KILL TRANSACTION WHERE 1",
            "KILL PART_MOVE_TO_SHARD WHERE 1",
            " /* a */ -- b\n # c\n KILL /* d */ QUERY WHERE 1",
            "/* /* */ ' */ KILL QUERY WHERE 1 -- '",
            "\u{feff}KILL QUERY WHERE 1",
            "\u{a0}KILL\u{a0}QUERY WHERE 1",
            "; KILL QUERY WHERE 1",
            "EXECUTE AS default KILL QUERY WHERE 1",
            "DROP TABLE a PARALLEL WITH KILL QUERY WHERE 1",
            "DROP TABLE a parallel /* b */ with\nkill QUERY WHERE 1",
        ] {
            assert_eq!(find(sql.as_bytes()), Some("KILL"), "{sql}");
        }
    }

    #[test]
    fn other_statements_may_have_the_word() {
        for sql in [
            "",
            "SELECT kill FROM t",
            "SELECT 'KILL QUERY WHERE 1'",
            "SELECT 'a PARALLEL WITH KILL QUERY'",
            "INSERT INTO kill (kill)",
            "-- KILL\nSELECT 1 AS kill_count",
            "WITH kill AS (SELECT 1) SELECT * FROM kill",
            "DROP TABLE a PARALLEL WITH DROP TABLE kill",
        ] {
            assert_eq!(find(sql.as_bytes()), None, "{sql}");
        }
    }
}
