//! Statements that are refused for their effect.
//!
//! `KILL` cancels inserts of events, reads of exports and deletions. The engine's grants do not
//! refuse it, as all statements belong to its one user, and any user may cancel its own. Cancelling
//! queries whose client has disconnected, and those that Millrace itself stops (`stop`), does not
//! pass this check.

use super::raw_tokens::{RawTokens, is_word};
use crate::sql::names::without_literals;

const REFUSED: &str = "KILL";

/// Returns the refused word that a statement, or one that runs in parallel with it, begins with.
pub(super) fn find(sql: &[u8]) -> Option<&'static str> {
    let plain = without_literals(sql);
    let text = plain.as_deref().unwrap_or(sql);
    // If the engine sees a comment's end elsewhere, the statement may begin inside it.
    let begins = |skips_comments| {
        let mut words = words(text, skips_comments);
        match words.next() {
            // `EXECUTE AS user` precedes the statement.
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
    let tokens = RawTokens::new(text, skips_comments).map(|token| token.text);
    tokens.filter(|text| is_word(text))
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
    fn statements_other_than_kill_may_contain_the_word() {
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
