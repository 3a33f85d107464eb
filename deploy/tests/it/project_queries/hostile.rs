//! Hostile queries: no row of another project, no word about one, and nothing but reading.

use super::tenants::{CANARY, TABLES, Tenants};

/// Queries that read what there is of a table. `TABLE` is one with its database, `NAME` without.
const READS: &[&str] = &[
    "SELECT * FROM TABLE",
    "SELECT * FROM TABLE WHERE team_id = 2 OR 1 = 1",
    "SELECT * FROM TABLE FINAL",
    "SELECT * FROM TABLE PREWHERE team_id = 2",
    "SELECT team_id, count() FROM TABLE GROUP BY team_id WITH TOTALS",
    "SELECT groupArray(toString(tuple(*))) FROM TABLE GROUP BY team_id WITH ROLLUP",
    "SELECT any(toString(tuple(*))) FROM TABLE",
    "SELECT DISTINCT toString(tuple(*)) FROM TABLE ORDER BY 1 DESC LIMIT 5 OFFSET 40",
    "SELECT a.*, b.* FROM TABLE AS a CROSS JOIN TABLE AS b LIMIT 3000",
    "SELECT b.* FROM (SELECT 1 AS one) AS a RIGHT JOIN TABLE AS b ON 1 = 1",
    "SELECT * FROM TABLE AS a ASOF JOIN TABLE AS b ON a.team_id = b.team_id AND a.team_id >= b.team_id",
    "WITH x AS (SELECT * FROM TABLE) SELECT * FROM x UNION ALL SELECT * FROM x",
    "WITH RECURSIVE x AS (SELECT team_id FROM TABLE UNION ALL SELECT team_id FROM x WHERE 0) SELECT * FROM x",
    "SELECT (SELECT groupArray(toString(tuple(*))) FROM TABLE)",
    "SELECT arrayJoin((SELECT groupArray(toString(tuple(*))) FROM TABLE))",
    "SELECT * FROM view(SELECT * FROM TABLE)",
    "SELECT * FROM merge('project', '^NAME$')",
    "SELECT * FROM merge(REGEXP('.*'), '^NAME$')",
    "SELECT * FROM merge('millrace', '^NAME$')",
    "SELECT * FROM loop(TABLE) LIMIT 200",
    "SELECT * FROM mergeTreeIndex('millrace', 'NAME')",
    "SELECT * FROM mergeTreeProjection('millrace', 'NAME', 'p')",
    "SELECT * FROM mergeTreeAnalyzeIndexes('millrace', 'NAME')",
    "SELECT * FROM remote('127.0.0.1', 'millrace', 'NAME')",
    "SELECT * FROM cluster('default', 'millrace', 'NAME')",
    "SELECT * FROM TABLE SETTINGS additional_table_filters = {'project.tokens': '1'}",
    "SELECT * FROM TABLE SETTINGS query_cache_tag = 'x'",
    "SELECT * FROM TABLE SETTINGS readonly = 0",
    "SELECT * FROM project.tokens",
    "SELECT t.*, e.* FROM project.tokens AS t JOIN TABLE AS e ON t.team_id = e.team_id",
    "SELECT dictGet('millrace.NAME', 'event', toUInt64(2))",
    "SELECT joinGet('millrace.NAME', 'event', 2)",
    "SELECT count() FROM TABLE WHERE team_id IN (SELECT team_id FROM project.tokens WHERE 1)",
    "SELECT estimateCompressionRatio(team_id) FROM TABLE",
    "SELECT * FROM TABLE WHERE EXISTS (SELECT 1 FROM millrace.NAME)",
    "SELECT * FROM TABLE QUALIFY row_number() OVER (ORDER BY team_id DESC) < 9",
    "SELECT lagInFrame(toString(tuple(*))) OVER (ORDER BY team_id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM TABLE",
    "SELECT COLUMNS('.*') FROM TABLE",
    "SELECT * APPLY(toString) FROM TABLE",
    "SELECT _part, _table FROM TABLE",
    "EXPLAIN SELECT * FROM TABLE",
    "EXPLAIN indexes = 1, actions = 1 SELECT * FROM TABLE",
    "EXPLAIN ESTIMATE SELECT * FROM TABLE",
    "SHOW CREATE TABLE TABLE",
    "DESCRIBE TABLE TABLE",
];

/// Queries that fail if a condition is evaluated on a row of another project: they must succeed.
const ORACLES: &[&str] = &[
    "SELECT count() FROM TABLE WHERE throwIf(toString(tuple(*)) LIKE '%CAN%') = 0",
    "SELECT count() FROM TABLE WHERE throwIf(team_id = OTHER) = 0",
    "SELECT count() FROM TABLE WHERE intDiv(1, toInt8(toString(tuple(*)) NOT LIKE '%CAN%')) != 7",
    "SELECT sum(throwIf(team_id = OTHER)) FROM TABLE",
    "SELECT count() FROM TABLE WHERE ignore(throwIf(team_id = OTHER)) = 0 GROUP BY team_id",
    "SELECT count() FROM (SELECT * FROM TABLE) WHERE throwIf(team_id = OTHER) = 0",
    "SELECT count() FROM TABLE AS a JOIN TABLE AS b ON a.team_id = b.team_id WHERE throwIf(a.team_id = OTHER) = 0",
    "SELECT team_id FROM TABLE ORDER BY throwIf(team_id = OTHER) LIMIT 1",
];

/// Queries that are refused, whatever the table.
const REFUSED: &[&str] = &[
    "SELECT * FROM millrace.NAME",
    "SELECT count() FROM millrace.NAME WHERE throwIf(team_id = OTHER)",
    "SELECT 1 FROM TABLE INTO OUTFILE '/tmp/x'",
    "INSERT INTO TABLE SELECT * FROM TABLE",
    "INSERT INTO millrace.NAME SELECT * FROM TABLE",
    "DROP TABLE TABLE",
    "TRUNCATE TABLE millrace.NAME",
    "ALTER TABLE millrace.NAME DELETE WHERE 1",
    "OPTIMIZE TABLE millrace.NAME FINAL",
    "CREATE VIEW project.mine AS SELECT * FROM millrace.NAME",
    "CREATE TABLE mine ENGINE = Memory AS SELECT * FROM TABLE",
    "BACKUP TABLE millrace.NAME TO File('x')",
    "DETACH TABLE TABLE",
    "RENAME TABLE TABLE TO project.x",
    "EXCHANGE TABLES TABLE AND millrace.NAME",
    "CHECK TABLE millrace.NAME",
    "SHOW CREATE TABLE millrace.NAME",
];

/// Queries without a table that are refused.
const ALWAYS_REFUSED: &[&str] = &[
    "SELECT file('/etc/hostname')",
    "SELECT * FROM file('/etc/hostname', 'LineAsString')",
    "SELECT * FROM filesystem('/etc')",
    "SELECT * FROM url('http://127.0.0.1:9/', 'CSV', 'x String')",
    "SELECT * FROM s3('http://127.0.0.1:9/bucket/key')",
    "SELECT * FROM mysql('127.0.0.1:3306', 'a', 'b', 'c', 'd')",
    "SELECT * FROM postgresql('127.0.0.1:5432', 'a', 'b', 'c', 'd')",
    "SELECT * FROM sqlite('/etc/x.db', 't')",
    "SELECT * FROM executable('x', 'TSV', 'a String')",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.users",
    "SELECT * FROM system.row_policies",
    "SELECT * FROM system.parts",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.server_settings",
    "KILL QUERY WHERE 1",
    "SYSTEM SHUTDOWN",
    "SYSTEM STOP LISTEN HTTP",
    "SET readonly = 0",
    "SET max_threads = 9",
    "USE millrace",
    "GRANT SELECT ON *.* TO project_query",
    "CREATE USER x",
    "SHOW CREATE USER millrace",
    "EXECUTE AS millrace SELECT 1",
    "SELECT addressToLine(1)",
    "SELECT 1 FORMAT TSV",
];

fn filled(template: &str, name: &str, other: i64) -> String {
    let table = format!("project.{name}");
    let sql = template.replace("TABLE TABLE", &format!("TABLE {table}"));
    let sql = sql.replace("TABLES TABLE", &format!("TABLES {table}"));
    // The word of the language stays, and every other one is the table.
    let sql = sql.replace("TABLE millrace", "\u{1} millrace");
    let sql = sql.replace("TABLE mine", "\u{1} mine");
    let sql = sql.replace(&format!("TABLE {table}"), &format!("\u{1} {table}"));
    let sql = sql.replace("TABLES", "\u{2}").replace("TABLE", &table);
    let sql = sql.replace('\u{1}', "TABLE").replace('\u{2}', "TABLES");
    sql.replace("NAME", name)
        .replace("OTHER", &other.to_string())
}

#[test]
fn no_hostile_query_sees_another_project_or_changes_anything() {
    let tenants = Tenants::start();
    let before = tenants.own("SELECT count(), uniq(team_id) FROM millrace.events");
    let ask = |sql: &str| {
        let answer = tenants.query(tenants.first, "application/x-ndjson", sql);
        assert!(
            answer.status == 200 || answer.status == 400,
            "{sql}: {answer:?}"
        );
        let text = answer.text();
        assert!(!text.contains(CANARY), "{sql}: {text}");
        (answer.status, text)
    };
    let mut asked = 0;
    for name in TABLES {
        let of_table = |template: &&str| filled(template, name, tenants.second);
        for sql in READS.iter().map(of_table) {
            ask(&sql);
            asked += 1;
        }
        for sql in ORACLES.iter().map(of_table) {
            let (status, text) = ask(&sql);
            assert_eq!(status, 200, "{sql}: {text}");
            asked += 1;
        }
        for sql in REFUSED.iter().map(of_table) {
            let (status, text) = ask(&sql);
            assert_eq!(status, 400, "{sql}: {text}");
            asked += 1;
        }
    }
    for sql in ALWAYS_REFUSED {
        let (status, text) = ask(sql);
        assert_eq!(status, 400, "{sql}: {text}");
        asked += 1;
    }
    assert!(asked >= 500, "{asked}");
    assert_eq!(
        tenants.own("SELECT count(), uniq(team_id) FROM millrace.events"),
        before
    );
    // The rows are there: the second project sees them.
    let own = tenants.query(
        tenants.second,
        "text/csv",
        "SELECT DISTINCT event FROM events",
    );
    assert!(own.text().contains(CANARY), "{own:?}");
}

#[test]
fn placeholders_are_filled_and_words_of_the_language_stay() {
    let table = [
        ("DROP TABLE TABLE", "DROP TABLE project.events"),
        (
            "TRUNCATE TABLE millrace.NAME",
            "TRUNCATE TABLE millrace.events",
        ),
        (
            "SELECT * FROM TABLE AS a, TABLE",
            "SELECT * FROM project.events AS a, project.events",
        ),
        (
            "INSERT INTO TABLE SELECT 1",
            "INSERT INTO project.events SELECT 1",
        ),
        (
            "EXCHANGE TABLES TABLE AND x",
            "EXCHANGE TABLES project.events AND x",
        ),
        (
            "CREATE TABLE mine AS SELECT OTHER",
            "CREATE TABLE mine AS SELECT 2",
        ),
    ];
    for (template, expected) in table {
        assert_eq!(filled(template, "events", 2), expected, "{template}");
    }
}
