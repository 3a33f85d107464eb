//! Hostile queries: written by hand, and the same tricks in every position.

/// Sources other than the allowed tables.
#[rustfmt::skip]
const SOURCES: &[&str] = &[
    "system.tables", "system.one", "system.numbers", "system.query_log", "system.users",
    "information_schema.tables", "INFORMATION_SCHEMA.COLUMNS", "{db}.events", "`{db}`.`events`",
    "`{db}.events`", "default.events", "{db}.rejected_events", "rejected_events", "server_runs",
    "schema_migrations", "Events", "EVENTS", "`Events`", "events.events", "_table_function.file",
    "file('/etc/passwd')", "file('/etc/passwd', 'LineAsString', 's String')",
    "file('*', 'RawBLOB')", "url('http://127.0.0.1:9/', CSV, 'a String')",
    "urlCluster('c', 'http://127.0.0.1:9/', CSV)", "s3('http://127.0.0.1:9/b/k', 'CSV')",
    "s3Cluster('c', 'http://127.0.0.1:9/b/k')", "gcs('http://127.0.0.1:9/b/k')",
    "azureBlobStorage('a', 'b', 'c')", "hdfs('hdfs://127.0.0.1:9/f', 'CSV', 'a String')",
    "remote('127.0.0.1', '{db}', 'events')", "remoteSecure('127.0.0.1', {db}.events)",
    "cluster('default', {db}.events)", "clusterAllReplicas('default', {db}.events)",
    "mysql('127.0.0.1:9', 'd', 't', 'u', 'p')", "postgresql('127.0.0.1:9', 'd', 't', 'u', 'p')",
    "mongodb('127.0.0.1:9', 'd', 'c', 'u', 'p', 'a String')", "sqlite('/etc/x.db', 't')",
    "odbc('DSN=x', 'd', 't')", "jdbc('x', 'd', 't')", "redis('127.0.0.1:9', 'k', 'k String')",
    "iceberg('http://127.0.0.1:9/')", "deltaLake('http://127.0.0.1:9/')",
    "hudi('http://127.0.0.1:9/')", "executable('x', CSV, 'a String')", "input('a String')",
    "merge('{db}', '.*')", "merge('^events$')", "mergeTreeIndex('{db}', 'events')",
    "mergeTreeProjection('{db}', 'events', 'p')", "dictionary('d')", "view(SELECT * FROM {db}.events)",
    "viewIfPermitted(SELECT 1 ELSE null('a Int8'))", "numbers(1000000000000)", "numbers(10)",
    "numbers_mt(10)", "zeros(10)", "zeros_mt(10)", "generateRandom('a String')",
    "generateSeries(1, 1000000000)", "generate_series(1, 10)", "values('a String', 'x')",
    "null('a Int8')", "loop({db}.events)", "fuzzQuery('SELECT 1')", "timeSeriesData('t')",
    "(SELECT * FROM {db}.events)", "(SELECT * FROM events)", "((SELECT 1))", "(events)",
    "VALUES (1)", "(VALUES (1))", "TABLE events", "$1", "?", "{t:Identifier}", "@t", "''", "'events'",
    "`events` `x`.`y`", "events, persons", "events, system.one", "events CROSS JOIN persons",
    "events JOIN events AS b USING (uuid)", "events LEFT JOIN {db}.events AS b ON 1 = 1",
    "events ASOF JOIN persons USING (uuid)", "events GLOBAL ANY JOIN persons USING (uuid)",
    "events NATURAL JOIN persons", "events ARRAY JOIN [1, 2] AS n", "events LEFT ARRAY JOIN [1] AS n",
    "events FINAL", "events SAMPLE 0.1", "events AS final", "events AS sample", "events AS system",
    "events AS `a``b`", "events AS e (a, b)", "events AS $x$", "events TABLESAMPLE (10)",
    "events PIVOT (count() FOR event IN ('a'))", "events FOR SYSTEM_TIME AS OF now()",
    "LATERAL (SELECT 1)", "UNNEST([1])", "events WITH (NOLOCK)", "events PARTITION (p)",
    "events\u{a0}x\u{a0}y", "events\u{200b}", "еvents", "events MATCH_RECOGNIZE (PATTERN (a))",
];

/// Functions that read more than a row, or wait.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "file('/etc/passwd')", "dictGet('d', 'a', 1)", "dictGetOrDefault('d', 'a', 1, 2)",
    "dictGetHierarchy('d', 1)", "dictHas('d', 1)", "joinGet('{db}.t', 'a', 1)",
    "joinGetOrNull('t', 'a', 1)", "getSetting('max_threads')", "getSettingOrDefault('a', 1)",
    "getServerSetting('a')", "getMergeTreeSetting('a')", "getMacro('shard')", "getClientHTTPHeader('a')",
    "getOSKernelVersion()", "getServerPort('tcp_port')", "currentUser()", "user()", "currentRoles()",
    "currentProfiles()", "defaultRoles()", "enabledRoles()", "currentDatabase()", "database()",
    "currentSchemas(true)", "currentQueryID()", "queryID()", "initialQueryID()", "connectionId()",
    "hostName()", "hostname()", "fqdn()", "FQDN()", "displayName()", "serverUUID()", "version()",
    "buildId()", "uptime()", "timezone()", "timeZone()", "serverTimezone()", "tcpPort()", "revision()",
    "isMergeTreePartCoveredBy('a', 'b')", "showCertificate()", "sleep(3)", "sleepEachRow(3)",
    "throwIf(1)", "ignore(1)", "identity(1)", "materialize(1)", "rand()", "generateUUIDv4()",
    "rowNumberInAllBlocks()", "blockNumber()", "runningDifference(1)", "neighbor(uuid, 1)",
    "filesystemAvailable()", "filesystemCapacity()", "filesystemUnreserved()", "hasColumnInTable('{db}', 'events', 'uuid')",
    "evalMLMethod(1)", "catboostEvaluate('/etc/x', 1)", "naiveBayesClassifier('a', 'b')",
    "modelEvaluate('a', 1)", "in(1, {db}.events)", "in(uuid, events)", "globalIn(1, events)",
    "notIn(1, events)", "nullIn(1, events)", "transactionID()", "getSubcolumn(properties, 'size')",
    "shardNum()", "shardCount()", "zookeeperSessionUptime()", "initializeAggregation('sum', 1)",
    "finalizeAggregation(1)", "executeInternal(1)", "addressToLine(1)", "addressToSymbol(1)",
    "demangle('a')", "trap('a')", "logTrace('a')", "flattenTuple((1, 2))", "encrypt('a', 'b', 'c')",
    "decrypt('a', 'b', 'c')", "regionToName(1)", "detectLanguage('a')", "lemmatize('en', 'a')",
    "synonyms('a', 'b')", "JSON_QUERY(properties, '$')", "dynamicType(1)", "range(1000000000)",
    "arrayWithConstant(1000000000, 1)", "repeat('x', 1000000000)", "space(1000000000)",
    "replicate(1, [1])", "arrayResize([1], 1000000000)", "leftPad('a', 1000000000)",
    "rightPad('a', 1000000000)", "bitmapBuild([1])", "arrayMap(x -> x, [1])", "arrayFold((a, b) -> a, [1], 1)",
    "apply(1)", "formatRow('CSV', uuid)", "formatQuery('SELECT 1')", "url('a')", "remote('a')",
    "numbers(10)", "view(SELECT 1)", "(SELECT 1)", "(SELECT uuid FROM {db}.events LIMIT 1)",
    "EXISTS (SELECT 1)", "uuid IN (SELECT uuid FROM {db}.events)", "uuid IN {db}.events",
    "uuid IN events", "uuid IN (events)", "uuid IN (tuple(events))", "uuid GLOBAL IN (SELECT 1)",
    "uuid = ANY (SELECT 1)", "uuid IN UNNEST([1])", "ARRAY(SELECT 1)", "[(SELECT 1)]",
    "(1, (SELECT 1))", "if(1, (SELECT 1), 2)", "count() OVER ()", "row_number() OVER w",
    "sum(1) FILTER (WHERE 1)", "groupArray(1 ORDER BY 1)", "count(uuid RESPECT NULLS)", "a.b.c(1)",
    "`count`()", "`file`('a')", "system.file('a')", "count(*, *)", "uniq(*)", "tuple(*)",
    "cityHash64(*)", "{fn now()}", "CAST('a' AS Enum8('a' = 1))", "CAST(1 AS Array(UInt8))",
    "CAST(1, 'Array(UInt8)')", "CAST(1 AS Nested(a UInt8))", "CAST('{}' AS JSON)",
    "CAST(1 AS DateTime('UTC'))", "1::`String`", "x'41'", "0x41", "b'01'", "0b01", "N'a'", "E'a\\x41'",
    "U&'a'", "$$a$$", "$tag$ a $tag$", "\"a\"\"b\"", "`a\\`b`", "`a``b`", "`a\u{301}`", "`é`", "`_part`",
    "_part", "_table", "_database", "_partition_id", "_path", "_file", "e.uuid", "system.uuid",
    "{db}.events.uuid", "`events.uuid`.x", "@@version", "@a", ":a", "?", "$1", "{a:String}",
    "{team:Identifier}", "*", "events.*", "COLUMNS('.*')", "* EXCEPT (uuid)", "* REPLACE (1 AS uuid)",
    "* APPLY (toString)", "1 AS a AS b", "(1 AS a)", "uuid COLLATE en", "uuid AT TIME ZONE 'UTC'",
    "EXTRACT(YEAR FROM timestamp)", "uuid IS DISTINCT FROM 1", "uuid <=> 1", "uuid ~ 'a'",
    "1 ? 2 : 3", "1 << 2", "1 & 2", "1 XOR 2", "x -> x", "1 DIV 2", "1 IS UNKNOWN",
    "INTERVAL '1' DAY TO SECOND", "INTERVAL 1 FORTNIGHT", "'a' 'b' 'c' x", "'\\xff'", "'\\N'", "'", "`",
    "/* ", "*/ 1", "1 -- ", "1_000", "1e", "NaN()", "99999999999999999999999999999999n",
];

/// Texts around a query; `Q` is an allowed query.
#[rustfmt::skip]
const AROUND: &[&str] = &[
    "Q INTO OUTFILE 'a'", "Q INTO OUTFILE '/tmp/a' APPEND FORMAT CSV", "Q FORMAT CSV", "Q FORMAT Null",
    "Q SETTINGS max_threads = 99", "Q SETTINGS readonly = 0", "Q SETTINGS additional_table_filters = {}",
    "Q SETTINGS max_execution_time = 0 FORMAT CSV", "Q LIMIT 1", "Q LIMIT 1 BY uuid", "Q LIMIT 1, 2",
    "Q LIMIT 1 WITH TIES", "Q OFFSET 1", "Q FETCH FIRST 1 ROWS ONLY", "Q ORDER BY uuid",
    "Q ORDER BY uuid WITH FILL", "Q UNION ALL Q", "Q UNION DISTINCT SELECT * FROM {db}.events",
    "Q UNION SELECT 1", "Q INTERSECT Q", "Q EXCEPT SELECT * FROM system.one", "(Q)", "(Q) UNION ALL (Q)",
    "Q; Q", "Q; DROP TABLE {db}.events", "Q;; SELECT 1", "Q; --", "Q /*", "Q */", "/*/ Q", "/* /* */ Q",
    "Q WINDOW w AS (PARTITION BY event)", "Q QUALIFY 1", "Q GROUP BY ALL", "Q GROUP BY event WITH TOTALS",
    "Q GROUP BY ROLLUP(event)", "Q GROUP BY CUBE(event)", "Q GROUP BY event WITH ROLLUP",
    "Q GROUP BY GROUPING SETS ((event))", "Q PREWHERE 1", "Q FOR UPDATE", "Q FOR JSON AUTO",
    "Q PARALLEL WITH Q", "Q |> WHERE 1", "Q CLUSTER BY uuid", "Q CONNECT BY 1 = 1", "Q CREATE TABLE x",
    "WITH a AS (SELECT 1) Q", "WITH 1 AS team_id Q", "WITH (SELECT 1) AS a Q",
    "WITH events AS (SELECT * FROM {db}.events) Q", "WITH RECURSIVE a AS (SELECT 1) Q",
    "WITH events AS (SELECT * FROM {db}.events) SELECT * FROM events", "EXPLAIN Q", "EXPLAIN AST Q",
    "EXPLAIN PLAN Q", "DESCRIBE (Q)", "DESCRIBE TABLE events", "SHOW TABLES", "SHOW CREATE TABLE events",
    "INSERT INTO events Q", "INSERT INTO FUNCTION file('a') Q", "CREATE TABLE x AS Q", "CREATE VIEW x AS Q",
    "CREATE MATERIALIZED VIEW x TO y AS Q", "ALTER TABLE events DELETE WHERE 1", "DROP TABLE events",
    "TRUNCATE TABLE events", "OPTIMIZE TABLE events FINAL", "KILL QUERY WHERE 1", "SYSTEM SHUTDOWN",
    "SYSTEM FLUSH LOGS", "SET max_threads = 1", "USE system", "GRANT ALL ON *.* TO x", "BACKUP DATABASE {db} TO Disk('a', 'b')",
    "ATTACH TABLE x", "DETACH TABLE events", "RENAME TABLE events TO x", "EXCHANGE TABLES events AND x",
    "CREATE FUNCTION x AS (a) -> a", "CREATE DICTIONARY x", "EXECUTE AS x Q", "BEGIN; Q; COMMIT",
    "FROM events SELECT *", "FROM events", "SELECT", "SELECT *", "SELECT 1", "TABLE events", "VALUES (1)",
    "", " ", ";", "nonsense", "\u{feff}Q", "Q\0", "Q \u{0} UNION ALL Q", "Q\u{37e} Q", "SELECT ALL * FROM events",
    "SELECT DISTINCT ON (event) * FROM events", "SELECT TOP 1 * FROM events", "SELECT STRAIGHT_JOIN * FROM events",
    "SELECT AS STRUCT * FROM events", "SELECT SQL_NO_CACHE * FROM events", "SELECT /*+ HINT */ * FROM events FORMAT CSV",
    "SELECT * INTO x FROM events", "SELECT * EXCLUDE (a) FROM events", "SELECT * FROM events LATERAL VIEW x",
];

/// Queries that may be accepted, if they reveal nothing.
#[rustfmt::skip]
const TEMPTING: &[&str] = &[
    "SELECT 2 AS team_id FROM events", "SELECT 2 AS team_id, * FROM events",
    "SELECT uuid, 2 AS team_id FROM events WHERE team_id = 2",
    "SELECT * FROM events WHERE team_id = 2", "SELECT * FROM events WHERE team_id != 1 OR 1 = 1",
    "SELECT * FROM events WHERE 1 = 1 OR team_id = 2 OR team_id > 0", "SELECT * FROM events WHERE NOT team_id = 1",
    "SELECT max(team_id) AS m, count() AS n FROM events", "SELECT team_id, count() AS n FROM events GROUP BY team_id",
    "SELECT '2026-01-01' AS created_at, event FROM events WHERE created_at < now()",
    "SELECT toDateTime64('2000-01-01 00:00:00', 6) AS created_at, count() AS n FROM events GROUP BY created_at",
    "SELECT now() AS timestamp, event FROM events", "SELECT 0 AS uuid, event FROM events",
    "SELECT 'x' AS event, count() AS n FROM events GROUP BY event", "SELECT 1 AS events, event FROM events",
    "SELECT events.event FROM events WHERE events.team_id = 2", "SELECT team_id.event FROM events AS team_id",
    "SELECT event FROM events AS created_at WHERE created_at > 0", "SELECT e.event FROM events AS e WHERE e.team_id > 1",
    "SELECT 1 AS `team_id`, `event` FROM `events` WHERE `team_id` = 1",
    "SELECT \"team_id\" AS \"event\" FROM \"events\"", "SELECT event AS team_id, team_id AS x FROM events",
    "SELECT 'x) OR 1=1 --' AS a, event FROM events", "SELECT 'x\\') UNION ALL SELECT * FROM {db}.events --' AS a FROM events",
    "SELECT 'x'') UNION ALL SELECT * FROM {db}.events --' AS a FROM events", "SELECT '\\\\' AS a, ' FROM {db}.events --' AS b FROM events",
    "SELECT '\\\\\\' OR 1=1 --' AS a FROM events", "SELECT 'a\\\n' AS a FROM events", "SELECT '\u{2019} OR 1=1' AS a FROM events",
    "SELECT 'ʼ' AS a, '＇' AS b FROM events", "SELECT 1 AS `a-- `, event FROM events", "SELECT 1 AS `) FROM x`, 2 FROM events",
    "SELECT 1 AS ` UNION ALL SELECT `, event FROM events", "SELECT event FROM events WHERE event = '$$' OR event = '$$'",
    "SELECT $a, b$ FROM events", "SELECT 1 AS $a$, 2 AS b FROM events", "SELECT event -- ) UNION ALL SELECT * FROM {db}.events\n FROM events",
    "SELECT event /* ) */ FROM /* x */ events /* ( */", "SELECT event # x\n FROM events", "SELECT event FROM events -- {db}.events",
    "SELECT event FROM events WHERE event = '/*' OR event = '*/'", "SELECT event FROM events WHERE properties LIKE '%CANARY%'",
    "SELECT groupArray(properties) AS a FROM events", "SELECT groupUniqArray(distinct_id) AS a FROM events",
    "SELECT arrayJoin(groupArray(event)) AS a FROM events", "SELECT topK(100)(event) AS a FROM events",
    "SELECT any(properties) AS a, anyLast(event) AS b FROM events", "SELECT argMax(properties, created_at) AS a FROM events",
    "SELECT count() AS n, uniqExact(uuid) AS m, sum(cityHash64(uuid)) AS h FROM events",
    "SELECT min(created_at) AS a, max(created_at) AS b, min(timestamp) AS c, max(timestamp) AS d FROM events",
    "SELECT `properties.size` FROM events", "SELECT `event.lc` FROM events", "SELECT uuid FROM events WHERE `distinct_id.size` > 0",
    "SELECT toTypeName(event) AS t FROM events", "SELECT event FROM events WHERE event IN ('canary', 'seen')",
    "SELECT event FROM events HAVING 1 = 1", "SELECT event FROM events GROUP BY event, team_id HAVING team_id > 0",
    "SELECT JSONExtract(properties, 'Tuple(a String)') AS a FROM events", "SELECT extractAll(properties, '.') AS a FROM events",
    // Functions of dictionaries.
    "SELECT base64Decode(replaceRegexpOne(event, '^(|[^C].*)$', 'AAAA')) AS a FROM events",
    "SELECT toInt64(replaceRegexpOne(event, '^(|[^C].*)$', '1')) AS a FROM events",
    "SELECT count() AS n FROM events WHERE toInt64(replaceRegexpOne(event, '^(|[^C].*)$', '1')) = 1",
    // Bombs.
    "SELECT arrayJoin(splitByString('', properties)) AS a, arrayJoin(splitByString('', properties)) AS b, arrayJoin(splitByString('', properties)) AS c, arrayJoin(splitByString('', properties)) AS d FROM events",
    "SELECT hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(properties)))))))))))))))))))))))) AS a FROM events",
    "SELECT replaceAll(replaceAll(replaceAll(replaceAll(replaceAll(properties, 'a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') AS x FROM events",
    "SELECT groupArray(arrayJoin([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])) AS a FROM events GROUP BY arrayJoin([1, 2, 3]), arrayJoin([4, 5, 6])",
    "SELECT match('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '(a*)*(a*)*(a*)*(a*)*b') AS m FROM events",
    "SELECT match(properties, '((((a{1,100}){1,100}){1,100}){1,100}){1,100}') AS m FROM events",
    "SELECT extractAll(properties, '(.|.|.|.|.|.|.|.)*') AS m FROM events",
    "SELECT formatDateTime(timestamp, '%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y') AS t FROM events",
    "SELECT arrayConcat(arrayConcat([1], [2]), splitByChar(',', properties)) AS a FROM events",
    "SELECT pow(10, 308) * 10 AS a, 1 / 0 AS b, 0 / 0 AS c, intDiv(1, 0) AS d FROM events",
    "SELECT quantiles(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)(team_id) AS a FROM events",
    "SELECT topK(65536)(properties) AS a FROM events", "SELECT toDecimal64(1, 400) AS a FROM events",
    "SELECT toDateTime64('9999-99-99', 6) AS a FROM events", "SELECT JSONExtract(properties, 'Array(Array(Array(Array(Array(String)))))') AS a FROM events",
    "SELECT JSONExtract(properties, 'Nothing') AS a FROM events", "SELECT JSONExtract('[1]', 'Array(Enum(''a'' = 1))') AS a FROM events",
];

/// All hostile queries, for a database with canaries in it.
pub fn all(database: &str) -> Vec<String> {
    let ask = "SELECT event FROM events";
    let mut texts: Vec<String> = SOURCES
        .iter()
        .map(|it| format!("SELECT * FROM {it}"))
        .collect();
    texts.extend(
        SOURCES
            .iter()
            .map(|it| format!("SELECT count() FROM {it} WHERE 1 = 1")),
    );
    for it in FUNCTIONS {
        texts.push(format!("SELECT {it} FROM events"));
        texts.push(format!("SELECT uuid FROM events WHERE {it} = 1"));
        texts.push(format!("SELECT count() FROM events GROUP BY {it}"));
        texts.push(format!(
            "SELECT if(1 = 1, toString({it}), 'a') AS x FROM events"
        ));
    }
    texts.extend(AROUND.iter().map(|it| it.replace('Q', ask)));
    texts.extend(TEMPTING.iter().map(|it| (*it).to_owned()));
    texts.extend(bombs());
    texts
        .iter()
        .map(|text| text.replace("{db}", database))
        .collect()
}

/// Queries that are large, or become large.
fn bombs() -> Vec<String> {
    let doubling: String = (1..60)
        .map(|n| format!(", a{0} + a{0} AS a{n}", n - 1))
        .collect();
    let tuples: String = (1..60)
        .map(|n| format!(", tuple(a{0}, a{0}) AS a{n}", n - 1))
        .collect();
    let backwards: String = (1..60)
        .map(|n| format!("a{n} || a{n} AS a{}, ", n - 1))
        .collect();
    vec![
        format!("SELECT team_id AS a0{doubling} FROM events"),
        format!("SELECT team_id AS a0{tuples} FROM events"),
        format!("SELECT {backwards}event AS a59 FROM events"),
        format!("SELECT team_id AS a0{doubling} FROM events WHERE a59 > 0"),
        "SELECT a AS b, b AS a FROM events".to_owned(),
        "SELECT a + 1 AS a FROM events".to_owned(),
        format!("SELECT {}1{} FROM events", "(".repeat(39), ")".repeat(39)),
        format!(
            "SELECT {}1{} FROM events",
            "(".repeat(5_000),
            ")".repeat(5_000)
        ),
        format!(
            "SELECT {}1{} FROM events",
            "[".repeat(3_000),
            "]".repeat(3_000)
        ),
        format!(
            "SELECT {}1{} FROM events",
            "if(1, 2, ".repeat(300),
            ")".repeat(300)
        ),
        format!("SELECT {} 1 FROM events", "NOT ".repeat(1_500)),
        format!("SELECT {} 1 FROM events", "- ".repeat(1_500)),
        format!("SELECT {} END FROM events", "CASE WHEN 1 THEN ".repeat(300)),
        format!("SELECT {}1 FROM events", "1 + ".repeat(5_000)),
        format!("SELECT {}1 FROM events", "1 = ".repeat(900)),
        format!("SELECT {}'' FROM events", "'a' || ".repeat(900)),
        format!("SELECT [1]{} FROM events", "[1]".repeat(600)),
        format!("SELECT 1{} FROM events", "::String::UInt8".repeat(400)),
        format!("SELECT {} FROM events", vec!["uuid"; 900].join(", ")),
        format!("SELECT {} FROM events", vec!["*"; 900].join(", ")),
        format!(
            "SELECT uuid FROM events WHERE event IN ({})",
            vec!["'x'"; 900].join(", ")
        ),
        format!("SELECT '{}' FROM events", "x".repeat(30_000)),
        format!("SELECT 1 AS {} FROM events", "x".repeat(5_000)),
        format!("SELECT {} FROM events", "9".repeat(10_000)),
        format!("SELECT {}/* */ 1 FROM events", "/* ".repeat(4_000)),
        format!(
            "SELECT arrayJoin([{}]) AS a FROM events",
            vec!["1"; 900].join(", ")
        ),
    ]
}
