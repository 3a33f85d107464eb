//! Statements that make the tables, for one server, clusters and ClickHouse Cloud, held against
//! files and parsed by the engine. Those for replicated tables and for ClickHouse Cloud are run by
//! no test.

use clickhouse::{Client, Compression};
use millrace_clickhouse::{Replication, Settings, schema_statements};
use millrace_embedded::testing::shared;
use std::path::Path;

/// File, cluster and replication.
type Case = (&'static str, Option<&'static str>, Replication);

const CASES: [Case; 5] = [
    ("server", None, Replication::Keeper),
    ("keeper", Some("main"), Replication::Keeper),
    ("database", Some("main"), Replication::Database),
    ("none", Some("main"), Replication::None),
    ("cloud", Some("default"), Replication::Cloud),
];

fn statements((_, cluster, replication): Case) -> Vec<String> {
    schema_statements(&Settings {
        cluster: cluster.map(str::to_owned),
        replication,
        ..Settings::new("http://h", "u", "p")
    })
}

#[test]
fn statements_are_those_of_the_files() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ddl");
    for case in CASES {
        let made: String = statements(case)
            .iter()
            .map(|sql| format!("{sql};\n"))
            .collect();
        let path = dir.join(format!("{}.sql", case.0));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(made, expected, "{}", path.display());
    }
}

#[test]
fn only_tables_with_a_path_in_keeper_are_made_by_on_cluster() {
    for case in CASES {
        let all = statements(case);
        let on_cluster = all.iter().filter(|sql| sql.contains("ON CLUSTER")).count();
        let expected = match case.0 {
            "keeper" => all.len(),
            // The database, which replicates the rest.
            "database" => 1,
            _ => 0,
        };
        assert_eq!(on_cluster, expected, "{}", case.0);
        let has_paths = all.iter().any(|sql| sql.contains("/clickhouse/tables/"));
        assert_eq!(has_paths, case.0 == "keeper", "{}", case.0);
    }
}

#[test]
fn events_of_one_person_go_to_one_shard() {
    for case in &CASES[1..4] {
        let all = statements(*case).join("\n");
        for needle in [
            "Distributed('main', 'millrace', 'events_local', sipHash64(distinct_id))",
            "Distributed('main', 'millrace', 'person_updates_local', sipHash64(distinct_id))",
            "Distributed('main', 'millrace', 'rejected_events_local', sipHash64(request_id))",
            "Distributed('main', 'millrace', 'persons')",
        ] {
            assert!(all.contains(needle), "{}: {needle}", case.0);
        }
    }
    for case in [CASES[0], CASES[4]] {
        assert!(!statements(case).join("\n").contains("Distributed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_parses_each_statement() {
    let engine = shared();
    let client = Client::default()
        .with_url(&engine.url)
        .with_user(&engine.user)
        .with_password(&engine.password)
        .with_compression(Compression::None);
    for case in CASES {
        for sql in statements(case) {
            let parsed = client.query_raw(&format!("EXPLAIN AST {sql}"));
            parsed
                .execute()
                .await
                .unwrap_or_else(|error| panic!("{}: {sql}: {error}", case.0));
        }
    }
}
