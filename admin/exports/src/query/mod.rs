//! Queries of batch exports: one SELECT in ClickHouse's SQL over one of our tables.
//!
//! Anything that is not known to be harmless is refused: every part of the parsed query is checked,
//! and a part that a newer parser adds does not compile until somebody has decided on it. The
//! checked query is rewritten around the rows that it may see: a SELECT of its own, in which the
//! project and the window are conditions that no clause around it reaches. The text of the customer
//! never gets to ClickHouse.
//!
//! | Module | Holds |
//! |---|---|
//! | `select`, `from` | clauses of a SELECT |
//! | `expression`, `operator`, `call` | expressions in them |
//! | `literal` | texts, numbers, types, units |
//! | `pattern` | arguments that are patterns, and their size |
//! | `regex_size` | size of a regular expression with its repetitions expanded |
//! | `error` | reasons that a query is refused |
//! | `aliases` | size of a query with its aliases expanded |
//! | `names` | tables and functions that may be used |

mod aliases;
mod call;
mod error;
mod expression;
mod from;
mod literal;
mod names;
mod operator;
mod pattern;
mod regex_size;
mod select;

pub use error::QueryError;
pub use names::{Source, functions};

use error::{refused, unreadable};
use select::RewrittenQuery;
use serde_json::{Value, json};
use sqlparser::ast::{SelectItem, Statement};
use sqlparser::dialect::ClickHouseDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::thread;

/// Longest query, in bytes.
const QUERY_BYTES_MAX: usize = 20_000;
/// Words and signs of a query at most. The limit is checked before parsing, the limit on depth
/// during it.
const TOKENS_MAX: usize = 2_000;
/// Levels to which parentheses may nest.
const DEPTH_MAX: usize = 40;
/// Stack of the thread that parses a query, in bytes; its use grows with the query's depth. The
/// parser takes up to a hundred kilobytes for each level, and a stack overflow ends the process.
const STACK_BYTES: usize = 64 << 20;

/// Checked query that may be run for a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportQuery {
    rewritten: RewrittenQuery,
    schema: Value,
}

impl ExportQuery {
    /// Parses and checks a query.
    ///
    /// # Errors
    ///
    /// The text is no SQL, or contains anything that is not known to be harmless.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            let detail = format!("A query may have {QUERY_BYTES_MAX} bytes at most.");
            return Err(QueryError(detail));
        }
        if text.contains('\0') {
            return Err(refused("the character of code 0"));
        }
        // The tree is built, walked, printed and dropped on that thread; only texts leave it.
        let read = thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, || Self::read(text));
            thread.ok().and_then(|thread| thread.join().ok())
        });
        read.unwrap_or_else(|| Err(QueryError("The query cannot be read now.".to_owned())))
    }

    fn read(text: &str) -> Result<Self, QueryError> {
        let dialect = ClickHouseDialect {};
        // Escapes stay as they are, as ClickHouse's differ from the parser's.
        let tokens = Tokenizer::new(&dialect, text)
            .with_unescape(false)
            .tokenize();
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
        let select = select::only_select(*query)?;
        let rewritten = select::rewrite(&select)?;
        let fields: Vec<Value> = select.projection.iter().map(field).collect();
        let schema = json!({ "fields": fields, "values": {}, "hogql_query": text });
        Ok(Self { rewritten, schema })
    }

    /// Table that the query selects from.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.rewritten.source
    }

    /// Returns true if the query aggregates rows (GROUP BY, DISTINCT, sums): then its result over
    /// parts of a window differs from that over the whole.
    #[must_use]
    pub const fn is_aggregating(&self) -> bool {
        self.rewritten.is_aggregating
    }

    /// Text of the query over the rows of another SELECT.
    #[must_use]
    pub fn over(&self, rows: &str) -> String {
        format!("{}{rows}{}", self.rewritten.head, self.rewritten.tail)
    }

    /// Columns of the query, in the format that existing clients know.
    #[must_use]
    pub fn schema(&self) -> Value {
        self.schema.clone()
    }
}

/// Column of the schema: expression and name.
fn field(item: &SelectItem) -> Value {
    let expression = match item {
        SelectItem::ExprWithAlias { expr, .. } => expr.to_string(),
        other => other.to_string(),
    };
    json!({ "expression": expression, "alias": select::column_name(item) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_select_over_a_known_table_is_accepted() {
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
            r"SELECT 'a\' OR 1=1 --' FROM events",
            r"SELECT '\\', match(event, '^\d+$') FROM events",
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
    fn queries_that_could_read_anything_else_are_refused() {
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
        let calls = format!(
            "SELECT {}1{} FROM events",
            "hex(".repeat(30),
            ")".repeat(30)
        );
        // On the smallest stack of any thread of this process.
        let small = thread::Builder::new().stack_size(256 << 10);
        let read = small.spawn(move || ExportQuery::parse(&calls).map(|query| query.schema()));
        read.unwrap().join().unwrap().unwrap();
        let long = format!("SELECT '{}' FROM events", "x".repeat(QUERY_BYTES_MAX));
        ExportQuery::parse(&long).unwrap_err();
        for (terms, is_taken) in [(190, true), (200, false), (900, false), (9_000, false)] {
            let wide = format!("SELECT 1{} FROM events", "+1".repeat(terms));
            assert_eq!(ExportQuery::parse(&wide).is_ok(), is_taken, "{terms}");
        }
    }

    #[test]
    fn a_query_is_rewritten_around_its_rows() {
        let table = [
            ("SELECT * FROM events", "SELECT * FROM (ROWS) AS `events`"),
            (
                "select e.uuid, event as \"the name\" -- comment\n from events e where 1=1 or team_id=2;",
                "SELECT `e`.`uuid` AS `uuid`, `event` AS `the name` FROM (ROWS) AS `e` \
                 WHERE (1 = 1) OR (`team_id` = 2)",
            ),
            (
                "SELECT DISTINCT 1 - -2 - (3 - x), NOT a LIKE 'b%' FROM events",
                "SELECT DISTINCT 1 - (-2) - (3 - `x`) AS `1 - -2 - (3 - x)`, \
                 not(like(`a`, 'b%')) AS `NOT a LIKE 'b%'` FROM (ROWS) AS `events`",
            ),
            (
                r"SELECT 'a''b\'c\\d\e\q' AS t FROM events GROUP BY t HAVING count(*) > .5",
                "SELECT 'a\\'b\\'c\\\\d\u{1b}\\\\q' AS `t` FROM (ROWS) AS `events` GROUP BY `t` \
                 HAVING count() > 0.5",
            ),
        ];
        for (text, expected) in table {
            let query = ExportQuery::parse(text).unwrap();
            assert_eq!(query.over("ROWS"), expected, "{text}");
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
