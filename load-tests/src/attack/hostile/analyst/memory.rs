//! Queries that need more memory than the engine has, and rows that stay in its memory.

use super::{AttackContext, answer};
use std::sync::Arc;
use tokio::time::sleep;

/// Rows that a query needs memory for: a few, which even a busy machine has time for, and more than
/// the engine has memory for.
const FEW: &str = "100000";
const TOO_MANY: &str = "1000000000";

/// Queries by the part of them that needs memory, for `ROWS` rows. Settings keep them from the
/// disk, which would be filled instead.
const QUERIES: [(&str, &str); 4] = [
    (
        "an array",
        "SELECT length(groupArray(number)) FROM numbers(ROWS)",
    ),
    (
        "GROUP BY",
        "SELECT count() FROM (SELECT toString(number) AS key FROM numbers(ROWS) GROUP BY key) SETTINGS \
         max_bytes_before_external_group_by = 0, max_bytes_ratio_before_external_group_by = 0",
    ),
    (
        "ORDER BY",
        "SELECT sipHash64(number) AS key FROM numbers(ROWS) ORDER BY key SETTINGS \
         max_bytes_before_external_sort = 0, max_bytes_ratio_before_external_sort = 0 FORMAT Null",
    ),
    (
        "JOIN",
        "SELECT count() FROM numbers(ROWS) AS a JOIN numbers(ROWS) AS b ON a.number = b.number \
         SETTINGS join_algorithm = 'hash'",
    ),
];

/// Tables whose 64 MB stay in memory until they are dropped: name, path, statements around the one
/// that creates it.
const TABLES: [(&str, &str, [&str; 3]); 2] = [
    (
        "a table",
        "/",
        [
            "DROP TABLE IF EXISTS hostile_rows",
            "CREATE TABLE hostile_rows ENGINE = Memory AS SELECT repeat('x', 1000) AS a FROM numbers(64000)",
            "DROP TABLE IF EXISTS hostile_rows",
        ],
    ),
    (
        "a temporary table",
        "/?session_id=hostile",
        [
            "DROP TEMPORARY TABLE IF EXISTS hostile_temporary",
            "CREATE TEMPORARY TABLE hostile_temporary AS SELECT repeat('x', 1000) AS a FROM numbers(64000)",
            "DROP TEMPORARY TABLE IF EXISTS hostile_temporary",
        ],
    ),
];

/// Sends the queries and creates the tables in turn. A query that needs too much memory fails
/// alone, with code 241.
pub(in crate::attack::hostile) async fn all(context: Arc<AttackContext>) {
    loop {
        queries(&context, FEW).await;
        tables(&context).await;
        queries(&context, TOO_MANY).await;
    }
}

async fn queries(context: &AttackContext, rows: &str) {
    for (part, sql) in QUERIES {
        let outcome = context.query("POST", "/", &sql.replace("ROWS", rows)).await;
        let what = format!("queries that need memory: {part}");
        context.findings.count(&what, &answer(&outcome));
        sleep(context.pause * 10).await;
    }
}

async fn tables(context: &AttackContext) {
    for (table, path, [before, create, after]) in TABLES {
        context.query("POST", path, before).await;
        let outcome = context.query("POST", path, create).await;
        let what = format!("rows that stay in memory: {table}");
        context.findings.count(&what, &answer(&outcome));
        sleep(context.pause * 10).await;
        context.query("POST", path, after).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::findings::Outcomes;
    use crate::attack::hostile::unproved;

    #[test]
    fn each_query_and_table_has_a_proof_of_its_own() {
        let missing = unproved(&Outcomes::new(), &["memory".to_owned()]);
        let queries = QUERIES.iter().map(|(part, _)| *part);
        let tables = TABLES.iter().map(|(table, ..)| *table);
        let names: Vec<&str> = queries.chain(tables).collect();
        assert_eq!(missing.len(), names.len());
        for name in names {
            let attempt = format!(": {name}: ");
            assert!(missing.iter().any(|it| it.contains(&attempt)), "{name}");
        }
    }
}
