//! The migration guide's commands, run as they stand there.

use super::stores::Store;
use super::{Stand, write_events};
use crate::readme::{block_of, root};
use millrace_import::plan::Plan;
use millrace_sources::Format;
use millrace_sources::testing::{FakeApi, Service, generate};
use std::fs::File;
use std::io::Read;
use std::process::Command;

const GUIDE: &str = "deploy/migrations/README.md";

/// Runs a block of the guide in the stand's folder, with this program and this project.
fn run(stand: &Stand, name: &str) -> String {
    run_as(stand, name, &[], &[])
}

/// The same with other texts in place of some that no test has, such as a service's URL, and with an environment.
fn run_as(
    stand: &Stand,
    name: &str,
    texts: &[(&str, &str)],
    environment: &[(&str, String)],
) -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_millrace"));
    let mut code = block_of(GUIDE, name, &stand.server);
    for (text, other) in texts {
        assert!(code.contains(text), "{name} has no {text}");
        code = code.replace(text, other);
    }
    let code = code
        .replace("TEAM_ID", &stand.server.credential("team_id"))
        .replace("PROJECT_KEY", &stand.server.credential("project_api_key"));
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        program.parent().unwrap().display()
    );
    let output = Command::new("bash")
        .args(["-ec", &code])
        .env("PATH", path)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&stand.home)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {output:?}");
    text
}

/// An export as the tool writes it.
fn export(stand: &Stand, format: Format, name: &str) {
    std::fs::create_dir_all(stand.path("exports")).unwrap();
    let mut file = File::create(stand.path("exports").join(name)).unwrap();
    generate(format, 200, 7, &mut file).unwrap();
}

#[test]
fn the_guide_leads_from_approval_to_reconcile() {
    let stand = Stand::start();
    export(&stand, Format::Mixpanel, "mixpanel-2024-05-01.ndjson");
    run(&stand, "approve");
    let checked = run(&stand, "check");
    assert!(checked.contains("mixpanel"), "{checked}");
    run(&stand, "load");
    let reconciled = run(&stand, "reconcile");
    assert!(reconciled.contains("Every day and event"), "{reconciled}");
    let reported = run(&stand, "report");
    assert!(
        reported.contains(&stand.server.credential("project_api_key")),
        "{reported}"
    );
}

#[test]
fn the_guide_imports_each_source() {
    let table = [
        ("amplitude", Format::Amplitude, "amplitude.json"),
        ("segment", Format::Segment, "segment.json"),
        ("rudderstack", Format::Rudderstack, "rudderstack.json"),
        ("snowplow", Format::Snowplow, "snowplow.tsv"),
        ("csv", Format::Csv, "events.csv"),
        ("parquet", Format::Parquet, "events.parquet"),
    ];
    let stand = Stand::start();
    for (name, format, file) in table {
        export(&stand, format, file);
        let printed = run(&stand, name);
        assert!(printed.contains("events accepted"), "{name}: {printed}");
        std::fs::remove_dir_all(stand.path("exports")).unwrap();
    }
    write_events(&stand.path("events.ndjson"), 10);
    let printed = run(&stand, "own");
    assert!(printed.contains("10 events accepted"), "{printed}");
}

#[test]
fn the_guide_fetches_from_apis() {
    let stand = Stand::start();
    let secret = |name| (name, "canary".to_owned());
    let table = [
        (
            "mixpanel",
            Service::Mixpanel,
            "https://data.mixpanel.com",
            vec![secret("MIXPANEL_SECRET")],
            365,
        ),
        (
            "amplitude",
            Service::Amplitude,
            "https://amplitude.com",
            vec![secret("AMPLITUDE_API_KEY"), secret("AMPLITUDE_SECRET_KEY")],
            31 * 24,
        ),
    ];
    for (name, service, url, environment, events) in table {
        let api = FakeApi::start(service, 1);
        let texts = [(url, &*api.url)];
        let printed = run_as(&stand, &format!("fetch {name}"), &texts, &environment);
        assert!(printed.contains("parts fetched"), "{printed}");
        let printed = run(&stand, &format!("load {name}"));
        let expected = format!("{events} events accepted");
        assert!(printed.contains(&expected), "{name}: {printed}");
    }
}

#[test]
fn the_guide_fetches_from_object_stores() {
    let stand = Stand::start();
    let table = [
        (
            Store::s3s(),
            "segment",
            Format::Segment,
            "segment-logs/1696118400000/a.gz",
        ),
        (
            Store::google(),
            "google analytics",
            Format::GoogleAnalytics,
            "analytics/events-20231001.json",
        ),
    ];
    for (store, name, format, key) in table {
        let mut file = Vec::new();
        generate(format, 50, 7, &mut file).unwrap();
        if key.ends_with(".gz") {
            let mut packed = flate2::read::GzEncoder::new(&*file, flate2::Compression::fast());
            let mut bytes = Vec::new();
            packed.read_to_end(&mut bytes).unwrap();
            file = bytes;
        }
        store.put(key, &file);
        let environment = store.environment(&store.url);
        let printed = run_as(&stand, &format!("fetch {name}"), &[], &environment);
        assert!(printed.contains("1 part fetched"), "{printed}");
        let printed = run(&stand, &format!("load {name}"));
        assert!(printed.contains("50 events accepted"), "{name}: {printed}");
    }
}

#[test]
fn the_guide_fetches_from_another_clickhouse() {
    let stand = Stand::start();
    let server = &stand.server;
    server.query("CREATE DATABASE posthog");
    server.query(
        "CREATE TABLE posthog.events (uuid UUID, event String, properties String, \
         timestamp DateTime64(6, 'UTC'), team_id Int64, distinct_id String, elements_chain String, \
         created_at DateTime64(6, 'UTC')) ENGINE = MergeTree ORDER BY (team_id, toDate(timestamp))",
    );
    server.query(
        "INSERT INTO posthog.events SELECT generateUUIDv4(), 'old', '{\"a\":1}', \
         toDateTime64('2024-01-01 00:00:00', 6, 'UTC') + INTERVAL number HOUR, 2, 'somebody', '', now64() \
         FROM numbers(100)",
    );
    let credential = |name: &str| server.credential(name);
    let (url, user) = (credential("clickhouse_url"), credential("clickhouse_user"));
    let texts = [
        ("http://clickhouse.example.com:8123", &*url),
        ("reader", &*user),
    ];
    let password = [(
        "SOURCE_CLICKHOUSE_PASSWORD",
        credential("clickhouse_password"),
    )];
    run_as(&stand, "fetch clickhouse", &texts, &password);
    let printed = run(&stand, "load clickhouse");
    assert!(printed.contains("100 events accepted"), "{printed}");
}

#[test]
fn the_guide_sends_rejects_again() {
    let stand = Stand::start();
    std::fs::write(
        stand.path("bad.ndjson"),
        "{\"event\":\"a\",\"timestamp\":\"2024-01-05\"}\n",
    )
    .unwrap();
    stand.result(&["load", "bad.ndjson"]);
    let key = stand.server.credential("project_api_key");
    let rejects = stand.path(&format!("millrace-import/loads/{key}/rejects.ndjson"));
    let text = std::fs::read_to_string(&rejects).unwrap();
    std::fs::write(
        &rejects,
        text.replace(r#""raw":{"#, r#""raw":{"distinct_id":"b","#),
    )
    .unwrap();
    let printed = run(&stand, "rejects");
    assert!(
        printed.contains("1 event accepted") && printed.contains("0 records rejected"),
        "{printed}"
    );
}

/// The options of a table of a mapping file, as the error about one that is none lists them.
fn options(table: &str) -> Vec<String> {
    let head = if table.is_empty() {
        String::new()
    } else {
        format!("[{table}]\n")
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{head}\"?\" = 1\n")).unwrap();
    let error = Plan::read(Some(file.path()), None).unwrap_err();
    let error = format!("{error:#}");
    let (_, listed) = error
        .split_once("unknown field `?`, expected ")
        .unwrap_or_else(|| panic!("{error}"));
    let names = listed.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

#[test]
fn the_guide_names_every_option_of_a_mapping_file() {
    let text = std::fs::read_to_string(root().join(GUIDE)).unwrap();
    let mut tables = vec![String::new()];
    let mut found = 0;
    while let Some(table) = tables.pop() {
        for name in options(&table) {
            let path = if table.is_empty() {
                name
            } else {
                format!("{table}.{name}")
            };
            if [
                "source",
                "source.columns",
                "events",
                "properties",
                "persons",
                "time",
            ]
            .contains(&path.as_str())
            {
                tables.push(path);
                continue;
            }
            assert!(
                text.contains(&format!("\n| `{path}` | ")),
                "the guide has no {path}"
            );
            found += 1;
        }
    }
    let rows = text
        .split("\n| Option |")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    // Behind its heading and the line below that.
    assert_eq!(
        rows.lines().count() - 2,
        found,
        "the guide has options that are none"
    );
}

#[test]
fn the_mapping_file_of_the_guide_is_one() {
    let text = std::fs::read_to_string(root().join(GUIDE)).unwrap();
    let (_, block) = text.split_once("```toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), block).unwrap();
    let plan = Plan::read(Some(file.path()), None).unwrap();
    assert_eq!(plan.format, Some(Format::Mixpanel));
}

/// No command of the guide is one that no test runs.
#[test]
fn every_command_of_the_guide_is_run() {
    let text = std::fs::read_to_string(root().join(GUIDE)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    for (place, line) in lines.iter().enumerate() {
        if *line == "```sh" {
            assert!(lines[place - 1].starts_with("<!-- run: "), "line {place}");
        }
    }
}
