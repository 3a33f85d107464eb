//! Commands of the guide to imports, run unchanged.

use super::object_stores::Store;
use super::{TestEnv, write_events};
use crate::readme::{block_of, root};
use millrace_import::plan::Plan;
use millrace_sources::Format;
use millrace_sources::testing::{FakeApi, Service, generate};
use std::fs::File;
use std::io::Read;
use std::process::Command;

const GUIDE: &str = "deploy/guide/importing.md";

/// Runs a block of the guide in the test's folder, with this program and this project.
fn run(env: &TestEnv, name: &str) -> String {
    run_as(env, name, &[], &[])
}

/// Runs a block of the guide with replaced texts, such as a service's URL, and with an environment.
fn run_as(
    env: &TestEnv,
    name: &str,
    texts: &[(&str, &str)],
    environment: &[(&str, String)],
) -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_millrace"));
    let mut code = block_of(GUIDE, name, &env.server);
    for (text, other) in texts {
        assert!(code.contains(text), "{name} has no {text}");
        code = code.replace(text, other);
    }
    let code = code
        .replace("PROJECT_ID", &env.server.credential("team_id"))
        .replace("PROJECT_KEY", &env.server.credential("project_api_key"));
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        program.parent().unwrap().display()
    );
    let output = Command::new("bash")
        .args(["-ec", &code])
        .env("PATH", path)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&env.home)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {output:?}");
    text
}

/// Writes an export in the tool's format.
fn export(env: &TestEnv, format: Format, name: &str) {
    std::fs::create_dir_all(env.path("exports")).unwrap();
    let mut file = File::create(env.path("exports").join(name)).unwrap();
    generate(format, 200, 7, &mut file).unwrap();
}

#[test]
fn the_guide_covers_approval_to_reconcile() {
    let env = TestEnv::start();
    export(&env, Format::Mixpanel, "mixpanel-2024-05-01.ndjson");
    run(&env, "approve");
    let checked = run(&env, "check");
    assert!(checked.contains("mixpanel"), "{checked}");
    run(&env, "load");
    let reconciled = run(&env, "reconcile");
    assert!(reconciled.contains("Every day and event"), "{reconciled}");
    let reported = run(&env, "report");
    assert!(
        reported.contains(&env.server.credential("project_api_key")),
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
    let env = TestEnv::start();
    for (name, format, file) in table {
        export(&env, format, file);
        let printed = run(&env, name);
        assert!(printed.contains("events accepted"), "{name}: {printed}");
        std::fs::remove_dir_all(env.path("exports")).unwrap();
    }
    write_events(&env.path("events.ndjson"), 10);
    let printed = run(&env, "own");
    assert!(printed.contains("10 events accepted"), "{printed}");
}

#[test]
fn the_guide_fetches_from_apis() {
    let env = TestEnv::start();
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
        let printed = run_as(&env, &format!("fetch {name}"), &texts, &environment);
        assert!(printed.contains("parts fetched"), "{printed}");
        let printed = run(&env, &format!("load {name}"));
        let expected = format!("{events} events accepted");
        assert!(printed.contains(&expected), "{name}: {printed}");
    }
}

#[test]
fn the_guide_fetches_from_object_stores() {
    let env = TestEnv::start();
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
        let printed = run_as(&env, &format!("fetch {name}"), &[], &environment);
        assert!(printed.contains("1 part fetched"), "{printed}");
        let printed = run(&env, &format!("load {name}"));
        assert!(printed.contains("50 events accepted"), "{name}: {printed}");
    }
}

#[test]
fn the_guide_fetches_from_another_clickhouse() {
    let env = TestEnv::start();
    let server = &env.server;
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
    run_as(&env, "fetch clickhouse", &texts, &password);
    let printed = run(&env, "load clickhouse");
    assert!(printed.contains("100 events accepted"), "{printed}");
}

#[test]
fn the_guide_sends_rejects_again() {
    let env = TestEnv::start();
    std::fs::write(
        env.path("bad.ndjson"),
        "{\"event\":\"a\",\"timestamp\":\"2024-01-05\"}\n",
    )
    .unwrap();
    env.result(&["load", "bad.ndjson"]);
    let key = env.server.credential("project_api_key");
    let rejects = env.path(&format!("millrace-import/loads/{key}/rejects.ndjson"));
    let text = std::fs::read_to_string(&rejects).unwrap();
    std::fs::write(
        &rejects,
        text.replace(r#""raw":{"#, r#""raw":{"distinct_id":"b","#),
    )
    .unwrap();
    let printed = run(&env, "rejects");
    assert!(
        printed.contains("1 event accepted") && printed.contains("0 records rejected"),
        "{printed}"
    );
}

/// Options of a table of a mapping file, as the error about an unknown option lists them.
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
    // After its heading and the line below that.
    assert_eq!(
        rows.lines().count() - 2,
        found,
        "the guide has options that are none"
    );
}

#[test]
fn the_guides_mapping_file_is_valid() {
    let text = std::fs::read_to_string(root().join(GUIDE)).unwrap();
    let (_, block) = text.split_once("```toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), block).unwrap();
    let plan = Plan::read(Some(file.path()), None).unwrap();
    assert_eq!(plan.format, Some(Format::Mixpanel));
}

/// Asserts that a test runs each command of the guide.
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
