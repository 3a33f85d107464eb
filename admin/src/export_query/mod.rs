//! Queries of batch exports: one SELECT in ClickHouse's SQL over one of our tables.
//!
//! What is not known to be harmless is refused: every part of the parsed query is looked at, and
//! a part that a newer parser adds does not compile until somebody has decided on it. Whoever
//! runs a query writes it anew from what was parsed here, with the project and the window put in;
//! the text of the customer never reaches ClickHouse.
//!
//! | Module | Holds |
//! |---|---|
//! | `select` | the parts of a SELECT |
//! | `expression` | what stands in them |
//! | `names` | tables and functions that may be used |

mod expression;
mod names;
mod select;

use serde_json::{Value, json};
use sqlparser::ast::{Select, SelectItem, Statement};
use sqlparser::dialect::ClickHouseDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::fmt;
use thiserror::Error;

/// The longest query, in bytes.
const QUERY_BYTES_MAX: usize = 20_000;
/// The most words and signs of a query: long sums are deep trees, and trees are walked, written
/// and dropped by functions that call themselves.
const TOKENS_MAX: usize = 2_000;
/// How deep parentheses may nest.
const DEPTH_MAX: usize = 40;

/// Why a query is refused; for who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct QueryError(String);

/// A query that may be run for a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportQuery {
    text: String,
    select: Box<Select>,
}

impl ExportQuery {
    /// Reads a query.
    ///
    /// # Errors
    ///
    /// It is no SQL, or says anything that is not known to be harmless.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            let detail = format!("A query may have {QUERY_BYTES_MAX} bytes at most.");
            return Err(QueryError(detail));
        }
        let dialect = ClickHouseDialect {};
        let tokens = Tokenizer::new(&dialect, text).tokenize();
        let tokens = tokens.map_err(|error| unreadable(&error))?;
        let is_word = |token: &&Token| !matches!(token, Token::Whitespace(_));
        if tokens.iter().filter(is_word).count() > TOKENS_MAX {
            let detail = format!("A query may have {TOKENS_MAX} words and signs at most.");
            return Err(QueryError(detail));
        }
        let mut parser = Parser::new(&dialect)
            .with_recursion_limit(DEPTH_MAX)
            .with_tokens(tokens);
        let statements = parser.parse_statements();
        let statements = statements.map_err(|error| unreadable(&error))?;
        let Ok([Statement::Query(query)]) = <[Statement; 1]>::try_from(statements) else {
            return Err(refused("anything but one SELECT"));
        };
        Ok(Self {
            text: text.to_owned(),
            select: select::checked(*query)?,
        })
    }

    /// What the query says, taken apart: its columns, in the shape that existing clients know.
    #[must_use]
    pub fn schema(&self) -> Value {
        let fields: Vec<Value> = self.select.projection.iter().map(field).collect();
        json!({ "fields": fields, "values": {}, "hogql_query": self.text })
    }
}

fn field(item: &SelectItem) -> Value {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            json!({ "expression": expr.to_string(), "alias": alias.value })
        }
        other => json!({ "expression": other.to_string(), "alias": other.to_string() }),
    }
}

fn unreadable(error: &dyn fmt::Display) -> QueryError {
    QueryError(format!("The query cannot be read: {error}."))
}

fn refused(what: &str) -> QueryError {
    QueryError(format!("A query may not have {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_select_over_one_of_our_tables_is_taken() {
        let table = [
            "SELECT * FROM events",
            "select uuid, event from events",
            "SELECT e.uuid AS id, e.event FROM events AS e WHERE e.event = 'a''b'",
            "SELECT events.uuid FROM events",
            "SELECT DISTINCT distinct_id FROM events",
            "SELECT JSONExtractString(properties, '$browser') AS `the browser` FROM events",
            "SELECT toDate(timestamp) AS day, count() AS n, uniq(distinct_id) FROM events \
             WHERE event IN ('a', 'b') AND timestamp >= toDateTime('2026-01-01 00:00:00') \
             GROUP BY day HAVING n > 1",
            "SELECT quantile(0.9)(JSONExtractFloat(properties, 'x')) FROM events",
            "SELECT if(event LIKE '$%', 1, -2.5) + 3 * (4 - 1) AS x, NOT true FROM events",
            "SELECT CASE WHEN event = 'a' THEN 1 ELSE NULL END AS c FROM events",
            "SELECT CAST(properties AS String), CAST(1 AS Nullable(UInt8)) FROM events",
            "SELECT timestamp + INTERVAL 1 DAY, timestamp BETWEEN created_at AND now() FROM events",
            "SELECT [1, 2][1], (1, 'a'), event || 'x', event IS NOT NULL FROM events",
            // One text, in ClickHouse as here; it is written again with its quote doubled.
            r"SELECT 'a\' OR 1=1 --' FROM events",
            "SELECT person_id FROM persons",
            "SELECT properties FROM groups;",
        ];
        for text in table {
            ExportQuery::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    const REFUSED: &[&str] = &[
        "",
        ";",
        "SELECT 1",
        "SELECT uuid FROM millrace.events",
        "SELECT uuid FROM system.tables",
        "SELECT uuid FROM rejected_events",
        "SELECT uuid FROM Events",
        "SELECT uuid FROM `events`.`x`",
        "SELECT * FROM file('/etc/passwd')",
        "SELECT * FROM url('http://127.0.0.1/', CSV)",
        "SELECT * FROM remote('h', 'd', 't')",
        "SELECT * FROM events, events",
        "SELECT * FROM events JOIN persons ON true",
        "SELECT * FROM events ARRAY JOIN [1]",
        "SELECT * FROM (SELECT * FROM events)",
        "SELECT * FROM events UNION ALL SELECT * FROM events",
        "WITH a AS (SELECT 1) SELECT * FROM events",
        "WITH 1 AS a SELECT * FROM events",
        "SELECT (SELECT 1) FROM events",
        "SELECT * FROM events WHERE uuid IN (SELECT uuid FROM events)",
        "SELECT * FROM events WHERE uuid IN (persons)",
        "SELECT * FROM events WHERE uuid IN persons",
        "SELECT * FROM events WHERE EXISTS (SELECT 1)",
        "SELECT * FROM events PREWHERE event = 'a'",
        "SELECT * FROM events FINAL",
        "SELECT * FROM events SAMPLE 0.1",
        "SELECT * FROM events LIMIT 1",
        "SELECT * FROM events ORDER BY uuid",
        "SELECT * FROM events FORMAT CSV",
        "SELECT * FROM events SETTINGS max_threads = 1",
        "SELECT * FROM events INTO OUTFILE 'a'",
        "SELECT * FROM events GROUP BY event WITH TOTALS",
        "SELECT * FROM events GROUP BY ALL",
        "SELECT * EXCEPT (team_id) FROM events",
        "SELECT * REPLACE (1 AS team_id) FROM events",
        "SELECT events.* FROM events",
        "SELECT COLUMNS('.*') FROM events",
        "SELECT row_number() OVER (PARTITION BY event) FROM events",
        "SELECT arrayMap(x -> x, [1]) FROM events",
        "SELECT {team:Int64} FROM events",
        "SELECT ? FROM events",
        "SELECT @@version FROM events",
        "SELECT _part FROM events",
        "SELECT other.uuid FROM events",
        "SELECT events.uuid FROM events AS e",
        "SELECT a.b.c FROM events",
        r"SELECT '\\' FROM events",
        "SELECT `a``b` FROM events",
        "SELECT 1 AS `a\\` FROM events",
        "SELECT count(*) FILTER (WHERE true) FROM events",
        "SELECT CAST(1 AS Enum('a' = 1)) FROM events",
        "INSERT INTO events SELECT * FROM events",
        "DROP TABLE events",
        "SELECT * FROM events; SELECT * FROM events",
        "SELECT * FROM events; DROP TABLE events",
        "EXPLAIN SELECT * FROM events",
        "SELECT * FROM events AS system",
        "SELECT DISTINCT ON (event) * FROM events",
        "SELECT TOP 1 * FROM events",
    ];

    #[test]
    fn whatever_could_reach_further_is_refused() {
        for text in REFUSED {
            assert!(ExportQuery::parse(text).is_err(), "{text}");
        }
        for function in [
            "dictGet('d', 'a', 1)",
            "joinGet('t', 'a', 1)",
            "getSetting('SQL_team_id')",
            "currentUser()",
            "hostName()",
            "sleep(3)",
            "file('a')",
            "version()",
            "in(1, events)",
            "getMacro('shard')",
            "catboostEvaluate('a', 1)",
            "hasColumnInTable('a', 'b', 'c')",
            "evalMLMethod(1)",
            "throwIf(1)",
            "getServerPort('tcp_port')",
            "tcpPort()",
            "filesystemAvailable()",
            "database()",
            "a.b(1)",
            "count(DISTINCT uuid) OVER ()",
        ] {
            let text = format!("SELECT {function} FROM events");
            assert!(ExportQuery::parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = format!("SELECT {}1{} FROM events", "(".repeat(500), ")".repeat(500));
        ExportQuery::parse(&deep).unwrap_err();
        let long = format!("SELECT '{}' FROM events", "x".repeat(QUERY_BYTES_MAX));
        ExportQuery::parse(&long).unwrap_err();
        for (terms, is_taken) in [(900, true), (1_000, false), (9_000, false)] {
            let wide = format!("SELECT 1{} FROM events", "+1".repeat(terms));
            assert_eq!(ExportQuery::parse(&wide).is_ok(), is_taken, "{terms}");
        }
    }

    #[test]
    fn the_schema_names_the_columns() {
        let text = "SELECT uuid, toDate(timestamp) AS day FROM events";
        let expected = json!({
            "fields": [
                { "expression": "uuid", "alias": "uuid" },
                { "expression": "toDate(timestamp)", "alias": "day" },
            ],
            "values": {}, "hogql_query": text,
        });
        assert_eq!(ExportQuery::parse(text).unwrap().schema(), expected);
    }
}
