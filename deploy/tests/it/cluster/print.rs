//! Statements that `millrace migrate --print` writes.

use crate::server::run;

/// Statements for a ClickHouse, with these further arguments.
fn printed(args: &[&str]) -> Vec<String> {
    let output = run(&[&["migrate", "--print"][..], args].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_tables_of_each_kind_of_clickhouse_are_printed_and_nothing_is_changed() {
    let server = printed(&["server"]);
    // Without a word: the ClickHouse of the settings, which is the embedded one.
    assert_eq!(printed(&[]), server);
    assert!(server.iter().all(|sql| sql.ends_with(';')), "{server:?}");
    for (target, has, has_not) in [
        ("cluster", "ON CLUSTER 'main'", "ENGINE = Memory ORDER"),
        (
            "replicated-database",
            "ENGINE = Replicated(",
            "/clickhouse/tables/",
        ),
        ("shards", "Distributed('main'", "Replicated"),
        ("cloud", "replicated_deduplication_window", "fsync"),
    ] {
        let text = printed(&[target]).join("\n");
        assert!(text.contains(has), "{target}: {text}");
        assert!(!text.contains(has_not), "{target}: {text}");
    }
    let settings = [
        "--clickhouse-url",
        "http://127.0.0.1:9,http://127.0.0.2:9",
        "--clickhouse-cluster",
        "ours",
        "--clickhouse-replication",
        "none",
    ];
    let ours = printed(&settings).join("\n");
    assert!(ours.contains("Distributed('ours'"), "{ours}");
}
