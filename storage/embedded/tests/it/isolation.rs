//! Tests that a password gives access to the database and to nothing else of the machine: by the
//! engine's grants, by the missing working directory, and by the kernel's sandbox. Only for the
//! embedded engine.

use millrace_embedded::testing::{TestEngine, shared};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::client::{Response, post, query};

const FUNCTIONS: &str = include_str!("reviewed/functions.txt");
const TABLE_FUNCTIONS: &str = include_str!("reviewed/table_functions.txt");
const ENGINES: &str = include_str!("../../src/engines.txt");

/// Functions that leave the database, and fail: they read files and programs, query models over the
/// network, or inspect the engine's memory.
const FUNCTIONS_CLOSED: [&str; 15] = [
    "AIClassify",
    "AIExtract",
    "AIGenerate",
    "AITranslate",
    "addressToLine",
    "addressToLineWithInlines",
    "addressToSymbol",
    "aiClassify",
    "aiEmbed",
    "aiExtract",
    "aiGenerate",
    "aiTranslate",
    "catboostEvaluate",
    "demangle",
    "file",
];

fn listed(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn known(engine: &TestEngine, sql: &str) -> Vec<String> {
    query(engine, sql).lines().map(str::to_owned).collect()
}

fn is_embedded() -> bool {
    shared().data_dir().is_some()
}

#[test]
fn each_function_and_engine_of_the_pinned_library_was_reviewed() {
    if !is_embedded() {
        return;
    }
    let mut functions = known(
        shared(),
        "SELECT name FROM system.functions WHERE origin = 'System'",
    );
    functions.retain(|name| !listed(FUNCTIONS).contains(&name.as_str()));
    functions.sort();
    assert_eq!(
        functions, FUNCTIONS_CLOSED,
        "list them in functions.txt if they stay in the database"
    );
    let known_engines = "SELECT name FROM (SELECT name FROM system.table_engines UNION ALL SELECT name FROM \
                         system.database_engines)";
    for (sql, text) in [
        ("SELECT name FROM system.functions", FUNCTIONS),
        ("SELECT name FROM system.table_functions", TABLE_FUNCTIONS),
        (known_engines, ENGINES),
    ] {
        let found = known(shared(), sql);
        let gone: Vec<_> = listed(text)
            .into_iter()
            .filter(|name| !found.iter().any(|known| known == name))
            .collect();
        assert!(gone.is_empty(), "listed, and not found any more: {gone:?}");
    }
}

/// The library reads a configuration in its working directory, unless it is given another.
#[test]
fn a_configuration_in_the_working_directory_is_not_read() {
    if !is_embedded() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let planted = "<clickhouse><macros><planted>evil</planted></macros></clickhouse>";
    for name in ["config.xml", "config.yaml"] {
        let text = match name {
            "config.xml" => planted,
            _ => "macros:\n  planted: evil\n",
        };
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let engine = TestEngine::start_in(folder.path());
    assert_eq!(query(&engine, "SELECT 1"), "1\n");
    let found = query(&engine, "SELECT count() FROM system.macros");
    assert_eq!(found, "0\n");
}

#[test]
fn each_table_function_and_engine_that_is_not_listed_is_refused() {
    if !is_embedded() {
        return;
    }
    let refused = |sql: String| {
        let response = post(shared(), &[], sql.as_bytes());
        assert_ne!(response.status, 200, "{sql}: {}", response.text());
    };
    for name in known(shared(), "SELECT name FROM system.table_functions") {
        if !listed(TABLE_FUNCTIONS).contains(&name.as_str()) {
            refused(format!("SELECT * FROM {name}('a', 'b', 'c')"));
            refused(format!(
                "INSERT INTO FUNCTION {name}('a', 'b', 'c') SELECT 1"
            ));
            refused(format!("CREATE TABLE isolation AS {name}('a', 'b', 'c')"));
        }
    }
    for (kind, engines) in [("TABLE", "table_engines"), ("DATABASE", "database_engines")] {
        for name in known(shared(), &format!("SELECT name FROM system.{engines}")) {
            if !listed(ENGINES).contains(&name.as_str()) {
                refused(format!(
                    "CREATE {kind} isolation ENGINE = {name}('a', 'b', 'c')"
                ));
            }
        }
    }
}

/// Statements that would escape the database, by ways that were open or were tried. `PATH` is a
/// file of the service, `DIR` a folder of it.
const ESCAPES: &[&str] = &[
    "SELECT * FROM file('PATH', 'LineAsString')",
    "SELECT * FROM file('PATH', 'RawBLOB')",
    "SELECT * FROM file('/proc/self/environ', 'RawBLOB')",
    "SELECT file('PATH')",
    "SELECT `fi\\x6ce`('/proc/self/environ')",
    "SELECT * APPLY(file) FROM (SELECT 'PATH' AS a)",
    "SELECT arrayMap(file, ['PATH'])",
    "SELECT * FROM format(JSONEachRow, 'a UInt8, b String DEFAULT file(''PATH'')', '{\"a\":1}')",
    "SELECT dummy FROM system.one SETTINGS additional_table_filters = {'system.one': 'throwIf(1, lower(''PATH''))=0'}",
    "SELECT 1 SETTINGS additional_result_filter = 'throwIf(1)'",
    "SELECT 1 SETTINGS dialect = 'prql'",
    "SET dialect = 'kusto'",
    "INSERT INTO FUNCTION sqlite('PATH', 'personal_api_keys') SELECT 1",
    "SELECT * FROM sqlite('PATH', 'personal_api_keys')",
    "CREATE DATABASE isolation_sqlite ENGINE = SQLite('PATH')",
    "CREATE TABLE isolation_sqlite (a Int8) ENGINE = SQLite('PATH', 'a')",
    "INSERT INTO FUNCTION file('DIR/out', 'TSV') SELECT 1",
    "SELECT 1 INTO OUTFILE 'DIR/out'",
    "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')",
    "INSERT INTO FUNCTION url('http://127.0.0.1:9/', 'TSV') SELECT 1",
    "SELECT * FROM s3('http://127.0.0.1:9/bucket/key')",
    "SELECT * FROM remote('127.0.0.1:9', system.one)",
    "SELECT * FROM eval('SELECT 1') SETTINGS allow_experimental_eval_table_function = 1",
    "SELECT * FROM executable('x', 'TSV', 'a String')",
    "CREATE TABLE isolation_log (a String) ENGINE = FileLog('DIR', 'LineAsString')",
    "CREATE TABLE isolation_rocks (a Int8) ENGINE = EmbeddedRocksDB(0, 'DIR') PRIMARY KEY a",
    "CREATE TABLE isolation_disk (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = 'object_storage', \
     object_storage_type = 'local', path = 'DIR/disk/')",
    "CREATE DATABASE isolation_disk ENGINE = Atomic SETTINGS disk = disk(type = 'object_storage', object_storage_type = \
     'local', path = 'DIR/disk/')",
    "CREATE DICTIONARY isolation_d (a String) PRIMARY KEY a SOURCE(FILE(path 'PATH' format 'TSV')) LAYOUT(FLAT()) LIFETIME(0)",
    "CREATE NAMED COLLECTION isolation_n AS a = 1",
    "CREATE VIEW isolation_v AS SELECT file('PATH')",
    "BACKUP DATABASE default TO File('DIR/backup')",
    "BACKUP DATABASE default TO Disk('default', 'a')",
    "BACKUP DATABASE default TO S3('http://127.0.0.1:9/a/b', 'a', 'b')",
    "RESTORE DATABASE isolation FROM S3('http://127.0.0.1:9/a/b', 'a', 'b')",
    "RESTORE DATABASE isolation FROM File('DIR/backup')",
    "CREATE USER isolation",
    "GRANT ALL ON *.* TO default",
    "SYSTEM SHUTDOWN",
    "SELECT 1 SETTINGS output_format_schema = 'DIR/a.proto' FORMAT Protobuf",
    "ATTACH TABLE isolation_a FROM 'DIR' (a Int8) ENGINE = MergeTree ORDER BY a",
    "INSERT INTO FUNCTION null('a String') FROM INFILE 'PATH' FORMAT LineAsString",
    "INSERT INTO FUNCTION null('a String') FROM /* /* */ ' */ INFILE $$PATH$$ FORMAT LineAsString -- '",
    "SELECT 1 SETTINGS format_schema_source = 'query'",
    "SELECT 1 SETTINGS format_template_row = 'PATH' FORMAT Template",
    "SELECT 1 SETTINGS format_template_resultset = 'PATH' FORMAT Template",
    "SELECT 1 SETTINGS format_avro_schema_registry_url = 'http://127.0.0.1:9/' FORMAT AvroConfluent",
    "SELECT 1 SETTINGS input_format_record_errors_file_path = 'DIR/errors'",
    "SELECT 1 SETTINGS rename_files_after_processing = 'a'",
    "SELECT 1 SETTINGS dynamic_disk_allow_from_env = 1",
    "SELECT '--', file('PATH')",
    "SELECT 1 AS \"--\", file('PATH')",
    "SELECT 1 /* /* */ ' */, file('PATH') -- '",
    "SELECT 1 // '\n, file('PATH') -- '",
    "SELECT arrayMap((file), ['PATH'])",
    "SELECT arrayMap(file AS q, ['PATH'])",
    "SELECT arrayMap(file AS `->`, ['PATH'])",
    "SELECT arrayMap(+file, ['PATH'])",
    "SELECT arrayMap(ALL file, ['PATH'])",
    "SELECT b FROM generateRandom('a UInt8, b String ALIAS file(''PATH'')') LIMIT 1",
    "SELECT b FROM values('a UInt8, b String ALIAS file(''PATH'')', (1))",
    "SELECT * FROM format(Values, 'a String', '(file(''PATH''))')",
    "SELECT * FROM format(Values, 'a String', concat('(fi', 'le(''PATH''))'))",
    "SELECT * FROM format(Values, 'a String', (SELECT concat('(fi', 'le(''PATH''))')))",
    "WITH concat('a UInt8, b String ALIAS fi', 'le(''PATH'')') AS s SELECT b FROM values(s, (1))",
    "SELECT * FROM format(JSONEachRow, {s:String}, '{\"a\":1}')",
    "SELECT arrayMap({f:Identifier}, ['PATH'])",
    "SELECT $ a $ ' $ a $",
    "SELECT \u{2018} ' \u{2019}, a FROM format(Values, 'a String', concat('(fi', 'le(''PATH''))')) -- '",
    "SELECT a FROM\u{b}format(Values, 'a String', concat('(fi', 'le(''PATH''))'))",
    "SELECT a FROM\u{a0}format(Values, 'a String', concat('(fi', 'le(''PATH''))'))",
    "SELECT a FROM numbers(1) AS \u{201c}a WHERE b\u{201d}, format(Values, 'a String', concat('(fi', 'le(''PATH''))'))",
    "SELECT a, $b$ ' FROM format(Values, 'a String', concat('(fi', 'le(''PATH''))')) -- '",
];

/// Parameters that every such statement is try_statement with.
const PARAMETERS: [(&str, &str); 2] = [
    ("param_f", "file"),
    ("param_s", "a UInt8, b String DEFAULT file('PATH')"),
];

fn try_statement(engine: &TestEngine, sql: &str, folder: &Path) -> Response {
    let path = folder.join("catalog.db");
    let path = path.to_str().unwrap();
    let sql = sql.replace("PATH", path);
    let parameters = PARAMETERS.map(|(name, value)| (name, value.replace("PATH", path)));
    let parameters = parameters
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    post(
        engine,
        &parameters,
        sql.replace("DIR", folder.to_str().unwrap()).as_bytes(),
    )
}

#[test]
fn the_password_gives_access_to_nothing_but_the_database() {
    if !is_embedded() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.db"), "canary").unwrap();
    for sql in ESCAPES {
        let response = try_statement(shared(), sql, folder.path());
        assert_ne!(response.status, 200, "{sql}: {}", response.text());
        assert!(
            !response.text().contains("canary"),
            "{sql}: {}",
            response.text()
        );
    }
    let found: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(found, ["catalog.db"], "nothing was written");
}

/// Views with parameters, which the engine reads no sooner than somebody reads the view, and those
/// parameters.
const PARAMETERIZED: &[(&str, &str)] = &[
    (
        "SELECT * FROM format(JSONEachRow, {s:String}, '{\"a\":1}')",
        "s = 'a UInt8, b String DEFAULT file(''PATH'')'",
    ),
    ("SELECT arrayMap({f:Identifier}, ['PATH'])", "f = 'file'"),
    (
        "SELECT arrayMap({f:Identifier} AS q, ['PATH'])",
        "f = 'file'",
    ),
];

#[test]
fn a_view_with_parameters_reads_no_file() {
    if !is_embedded() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.db"), "canary").unwrap();
    for (number, (select, parameters)) in PARAMETERIZED.iter().enumerate() {
        let view = format!("isolation_parameters_{number}");
        // Made or not, it does no harm by itself.
        let create = format!("CREATE VIEW {view} AS {select}");
        try_statement(shared(), &create, folder.path());
        let read = format!("SELECT * FROM {view}({parameters})");
        let response = try_statement(shared(), &read, folder.path());
        let text = response.text();
        assert_ne!(response.status, 200, "{create}: {text}");
        assert!(!text.contains("canary"), "{create}: {text}");
        query(shared(), &format!("DROP VIEW IF EXISTS {view}"));
    }
}

/// Statements of users that must keep working.
const ALLOWED: &[&str] = &[
    "CREATE DATABASE isolation_in",
    "CREATE TABLE isolation_in.t (a Int64, url String, file String DEFAULT lower(url)) ENGINE = MergeTree ORDER BY a",
    "INSERT INTO isolation_in.t (a, url) VALUES (1 + 1, lower('A')), (2, 'file(x)')",
    "INSERT INTO isolation_in.t (a, url) SELECT number, format('{}', number) FROM numbers(10)",
    "CREATE MATERIALIZED VIEW isolation_in.m ENGINE = ReplacingMergeTree ORDER BY a AS SELECT a FROM isolation_in.t",
    "CREATE VIEW isolation_in.v AS SELECT a, file FROM isolation_in.t WHERE url = 'url(x)'",
    "CREATE TABLE isolation_in.r (a Int8) ENGINE = Null",
    "CREATE FUNCTION isolation_plus AS x -> x + 1",
    "SELECT count() FROM isolation_in.t WHERE url IN ('Uploaded file (PDF)', 'remote(', 'url (x)') OR url LIKE '%/file(%'",
    "SELECT count() FROM isolation_in.t WHERE url = 'file (x)' AND format('{}', lower(url)) != 'file(x)' -- file (x)",
    "SELECT * FROM format(JSONEachRow, 'a String', $$ {\"a\": \"b\"} $$) LIMIT 1",
    "SELECT * FROM values('a UInt8, b String', (1, lower('A')), (2, 'b')) LIMIT 1",
    "SELECT $a, $b FROM (SELECT 1 AS $a, 2 AS $b) GROUP BY $a, $b",
    "SELECT \u{2018}a b\u{2019}, isolation_plus(1), arrayMap(x -> x + 1, [1]), JSONExtractString('{}', 'file')",
    "SELECT arrayMap(x -> concat(x, file), [url]), arrayElement(splitByChar('/', file), 1) FROM isolation_in.t",
    "ALTER TABLE isolation_in.t ADD COLUMN b Int8, MODIFY SETTING merge_with_ttl_timeout = 100",
    "ALTER TABLE isolation_in.t UPDATE b = 1 WHERE a = 2 SETTINGS mutations_sync = 1",
    "OPTIMIZE TABLE isolation_in.t FINAL",
    "SYSTEM STOP MERGES isolation_in.t",
    "SYSTEM START MERGES isolation_in.t",
    "EXPLAIN SELECT * FROM isolation_in.v",
    "SELECT * FROM merge('isolation_in', 't')",
    "SELECT * FROM system.query_log LIMIT 0 SETTINGS log_queries = 0",
    "SELECT name, value FROM system.settings LIMIT 1",
    "BACKUP DATABASE isolation_in TO File('OWN/backups/isolation')",
    "DROP DATABASE isolation_in SYNC",
    "RESTORE DATABASE isolation_in FROM File('OWN/backups/isolation')",
    "TRUNCATE TABLE isolation_in.t",
    "DROP DATABASE isolation_in",
    "DROP FUNCTION isolation_plus",
];

#[test]
fn statements_inside_the_database_are_allowed() {
    let Some(own) = shared().data_dir().and_then(Path::to_str) else {
        return;
    };
    for sql in ALLOWED.iter().filter(|sql| !sql.contains("query_log")) {
        query(shared(), &sql.replace("OWN", own));
    }
}

#[test]
fn the_kernel_confines_the_process_to_its_folders_with_sources_opened() {
    if !is_embedded() {
        return;
    }
    let engine = TestEngine::start_with_sources("file,sqlite,url");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.db"), "canary").unwrap();
    let parent = format!("SELECT file('/proc/{}/environ')", std::process::id());
    let own = engine.data_dir().unwrap();
    symlink(folder.path().join("catalog.db"), own.join("link")).unwrap();
    symlink(folder.path(), own.join("folder")).unwrap();
    for sql in [
        "SELECT file('PATH')",
        "SELECT * FROM file('PATH', 'LineAsString')",
        "SELECT file('OWN/link')",
        "SELECT file('OWN/folder/catalog.db')",
        "INSERT INTO FUNCTION file('OWN/folder/out', 'TSV') SELECT 1",
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM file('/proc/self/environ', 'RawBLOB')",
        "SELECT file('/proc/self/environ')",
        "SELECT file('/proc/thread-self/environ')",
        "SELECT file('/proc/self/cwd/Cargo.toml')",
        &parent,
        "SELECT * FROM sqlite('PATH', 'personal_api_keys')",
        "INSERT INTO FUNCTION file('DIR/out', 'TSV') SELECT 1",
    ] {
        let sql = sql.replace("OWN", own.to_str().unwrap());
        let response = try_statement(&engine, &sql, folder.path());
        assert_ne!(response.status, 200, "{sql}: {}", response.text());
        assert!(
            !response.text().contains("canary"),
            "{sql}: {}",
            response.text()
        );
        assert_ne!(
            response.header("x-clickhouse-exception-code"),
            "497",
            "{sql}: it was not the kernel"
        );
        // The working directory exists here.
        assert!(!response.text().contains("getcwd"), "{sql}");
    }
    // The engine's own folder stays accessible, and so does a source that was opened.
    let own = own.join("out");
    let own = own.to_str().unwrap();
    query(
        &engine,
        &format!("INSERT INTO FUNCTION file('{own}', 'TSV') SELECT 7"),
    );
    assert_eq!(query(&engine, &format!("SELECT file('{own}')")), "7\\n\n");
    let url = format!("SELECT * FROM url('{}/ping', 'LineAsString')", engine.url);
    assert_eq!(query(&engine, &url), "Ok.\n");
}
