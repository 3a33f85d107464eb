//! Tables of allowed and refused statements.

/// Statements that stay in the database.
pub(super) const ALLOWED: &[&str] = &[
    "SELECT 1",
    "SELECT count() FROM t WHERE url LIKE '%background: url(x)%'",
    "SELECT format('{}', file) FROM t",
    "SELECT t.file, file FROM t WHERE file = 'file' AND event IN ('file', 'url')",
    "SELECT extractURLParameter('file', 'a'), profile(1)",
    "CREATE TABLE url (url String, file String) ENGINE = MergeTree ORDER BY url",
    "INSERT INTO url (url, file) SELECT a, b FROM t",
    "INSERT INTO TABLE db.url (url)",
    "CREATE TABLE IF NOT EXISTS s3 (a Int8) ENGINE Memory",
    "SELECT engine FROM system.tables WHERE engine = 'S3'",
    "CREATE VIEW v AS SELECT 1 FROM system.tables WHERE engine = 'Kafka'",
    "BACKUP DATABASE millrace TO File('/backups/today')",
    "RESTORE DATABASE millrace FROM File('/backups/today') SETTINGS base_backup = File('/b')",
    "CREATE TABLE t (a Int8) ENGINE = ReplicatedMergeTree('/a', 'b') ORDER BY a",
    "SELECT * FROM numbers(3)",
    "SELECT a FROM t WHERE event IN ('Uploaded file (PDF)', 'file(', 'remote(', 'url (x)', 'it''s \\'file (x)')",
    "SELECT a FROM t WHERE path LIKE '%/file(%' AND b = 'DEFAULT fi\\\\x6ce(1)'",
    "SELECT a -- file (x)\nFROM t WHERE b = $$file (x)$$ // file (x)",
    "SELECT format('{}: {}', lower(a), 'b') AS \"gr\u{f6}\u{df}e\" FROM t WHERE event = 'A file: (x)'",
    "SELECT a, format(pattern, lower(a)) FROM t ORDER BY a, format(pattern, upper(a))",
    "SELECT formatQuery('SELECT file(1)'), CAST(a, 'String') FROM t WHERE event = 'file (x)'",
    "SELECT * FROM format(JSONEachRow, 'a String', $$ {\"a\": \"b\"} $$) WHERE a = 'b'",
    "SELECT * FROM values('a UInt8, b String', (1, lower('A')), (2, 'b'))",
    "SELECT * FROM values((1, lower('A')), (2, 'b')), generateRandom('a UInt8', 1, -10, 2)",
    "CREATE VIEW v AS SELECT arraySum({c:Identifier}) FROM t WHERE a = {e:String}",
];

/// Statements that leave the database, and the part of them that the refusal names.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("SELECT file('/etc/passwd')", "function file"),
    ("SELECT FILE /* ( */ -- (\n # (\n ('a')", "function file"),
    ("SELECT `file`('a')", "function file"),
    ("SELECT \"fi\\x6ce\"('a')", "function file"),
    ("SELECT \u{201c}file\u{201d}('a')", "function file"),
    ("SELECT\u{a0}file\u{a0}('a')", "function file"),
    ("SELECT $$ ' $$, file('a'), $$ ' $$", "function file"),
    ("SELECT * APPLY(file) FROM t", "function file"),
    ("SELECT * APPLY file FROM t", "function file"),
    ("SELECT arrayMap(file, ['a'])", "function file"),
    ("SELECT mapApply( `file` , m)", "function file"),
    ("SELECT (x -> file(x))('a')", "function file"),
    (
        "SELECT * FROM format(JSON, 'a String DEFAULT file(\\'b\\')', '{}')",
        "function file",
    ),
    (
        "SELECT * FROM format(JSON, 'a String DEFAULT fi\\\\x6ce(1)', '{}')",
        "function file",
    ),
    (
        "SELECT * FROM generateRandom('a UInt8, b String ALIAS file(1)')",
        "function file",
    ),
    (
        "SELECT * FROM values('a UInt8, b String ALIAS file(1)', (1))",
        "function file",
    ),
    (
        "SELECT * FROM null('b String ALIAS file(1)')",
        "function file",
    ),
    (
        "INSERT INTO t SELECT * FROM input('b String ALIAS file(1)') FORMAT CSV",
        "function file",
    ),
    (
        "SELECT * FROM format(Values, 'a String', $a$(file(1))$a$)",
        "function file",
    ),
    ("SELECT 1 AS \"--\", file('a')", "function file"),
    ("SELECT '--', file('a')", "function file"),
    ("SELECT '/*', file('a')", "function file"),
    ("SELECT 1 /* /* */ ' */, file('a') -- '", "function file"),
    ("SELECT 1 // '\n, file('a') -- '", "function file"),
    ("SELECT arrayMap((file), ['a'])", "function file"),
    ("SELECT arrayMap(file AS q, ['a'])", "function file"),
    ("SELECT arrayMap(file AS `->`, ['a'])", "function file"),
    ("SELECT arrayMap(+file, ['a'])", "function file"),
    ("SELECT arrayMap(ALL file, ['a'])", "function file"),
    (
        "SELECT arrayMap(DISTINCT ((file) AS q), ['a'])",
        "function file",
    ),
    (
        "SELECT mapApply(x -> arrayMap(file AS q, x), m)",
        "function file",
    ),
    ("SET param_f = 'file'", "function file"),
    ("SET param_s = 'a String DEFAULT file(1)'", "function file"),
    (
        "SELECT * FROM format(Values, 'a String', concat('(fi', 'le(1))'))",
        "what format is given",
    ),
    (
        "SELECT * FROM format(Values, 'a String', x'2866')",
        "what format is given",
    ),
    (
        "SELECT 1 FROM t AS order, format(Values, 'a String', (SELECT b FROM t))",
        "what format is given",
    ),
    (
        "SELECT 1 FROM t, format(Values, 'a String', (SELECT b FROM t))",
        "what format is given",
    ),
    (
        "SELECT * FROM loop(format(Values, 'a String', 'a' || 'b'))",
        "what format is given",
    ),
    (
        "WITH 'a' || 'b' AS s SELECT * FROM format(Values, s, '1')",
        "what format is given",
    ),
    (
        "SELECT * FROM values(('a' || 'b'), (1))",
        "what values is given",
    ),
    (
        "SELECT * FROM values(concat('a', 'b'), (1))",
        "what values is given",
    ),
    (
        "SELECT * FROM values(('a', 'b')[1], (1))",
        "what values is given",
    ),
    (
        "SELECT * FROM generateRandom(\u{2018}a\u{2019})",
        "what generaterandom is given",
    ),
    (
        "CREATE VIEW v AS SELECT * FROM format(JSON, {s:String}, '{}')",
        "what format is given",
    ),
    (
        "CREATE VIEW v AS SELECT arrayMap({f:Identifier}, ['a'])",
        "what arraymap is given",
    ),
    (
        "CREATE VIEW v AS SELECT arrayMap({f:Identifier} AS q, ['a'])",
        "what arraymap is given",
    ),
    (
        "CREATE VIEW v AS SELECT arrayMap(ALL +({f:Identifier}), ['a'])",
        "what arraymap is given",
    ),
    ("CREATE FUNCTION f AS x -> file(x)", "function file"),
    ("SELECT aigenerate('a')", "function aigenerate"),
    ("SELECT * FROM url('http://a')", "table function url"),
    ("SELECT * FROM URL ('http://a')", "table function url"),
    ("DESCRIBE TABLE s3('a')", "table function s3"),
    (
        "INSERT INTO FUNCTION remote('a', b.c) SELECT 1",
        "table function remote",
    ),
    (
        "INSERT INTO TABLE FUNCTION remote('a', b.c) SELECT 1",
        "table function remote",
    ),
    (
        "CREATE TABLE t AS `remote`('a', b.c)",
        "table function remote",
    ),
    (
        "SELECT * FROM executable('x', TSV)",
        "table function executable",
    ),
    ("SELECT * FROM eval('SELECT 1')", "table function eval"),
    ("SELECT * FROM newOne()", "table function newone"),
    ("BACKUP TABLE t TO S3('http://a')", "table function s3"),
    ("BACKUP TABLE t TO Disk('a', 'b')", "table function disk"),
    (
        "CREATE TABLE t (a Int8) ENGINE = MergeTree SETTINGS disk = disk(type = local)",
        "table function disk",
    ),
    (
        "CREATE TABLE t (a Int8) ENGINE = EmbeddedRocksDB(0, '/x')",
        "engine embeddedrocksdb",
    ),
    ("CREATE TABLE t (a Int8) ENGINE Kafka", "engine kafka"),
    ("CREATE DATABASE d ENGINE = `SQLite`('/x')", "engine sqlite"),
    (
        "DROP TABLE x PARALLEL WITH CREATE TABLE t (a Int8) ENGINE = Kafka",
        "engine kafka",
    ),
    (
        "ATTACH TABLE t (a Int8) ENGINE = SomethingNew",
        "engine somethingnew",
    ),
    ("KILL QUERY WHERE query_id = 'a'", "KILL would"),
    (
        "DROP TABLE a PARALLEL WITH KILL QUERY WHERE 1",
        "KILL would",
    ),
];
