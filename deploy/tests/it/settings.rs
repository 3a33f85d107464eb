//! Layers of settings: flags over variables over the file over defaults; unknown keys are errors.

use crate::server::millrace;
use std::process::Output;
use tempfile::TempDir;

/// Runs `millrace config` in a folder with this `millrace.toml`.
fn config(file: &str, variables: &[(&str, &str)], args: &[&str]) -> Output {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("millrace.toml"), file).unwrap();
    let mut command = millrace();
    command
        .current_dir(dir.path())
        .arg("config")
        .args(args)
        .envs(variables.iter().copied());
    command.output().unwrap()
}

fn line_of(output: &Output, key: &str) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text
        .lines()
        .find(|line| line.starts_with(key) || line.starts_with(&format!("# {key}")));
    found
        .unwrap_or_else(|| panic!("no {key} in {output:?}"))
        .to_owned()
}

#[test]
fn each_layer_overrides_the_ones_below_and_is_named() {
    let file = "workers = 3\n";
    let variable = [("MILLRACE_WORKERS", "4")];
    let flag = ["--workers", "5"];
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], &'a str);
    let cores = std::thread::available_parallelism().unwrap();
    let default = format!(r#"workers = "{cores}" # default"#);
    let table: [Case<'_>; 4] = [
        ("", &[], &[], &default),
        (file, &[], &[], r#"workers = "3" # file millrace.toml"#),
        (
            file,
            &variable,
            &[],
            r#"workers = "4" # variable MILLRACE_WORKERS"#,
        ),
        (file, &variable, &flag, r#"workers = "5" # flag --workers"#),
    ];
    for (file, variables, args, expected) in table {
        assert_eq!(line_of(&config(file, variables, args), "workers"), expected);
    }
}

#[test]
fn tables_of_the_file_are_prefixes() {
    let output = config("[clickhouse]\nmemory = \"3GiB\"\n", &[], &[]);
    assert_eq!(
        line_of(&output, "clickhouse_memory"),
        r#"clickhouse_memory = "3GiB" # file millrace.toml"#
    );
}

#[test]
fn all_bad_keys_are_reported_at_once() {
    let output = config(
        "colour = 1\nworkers = \"many\"\n",
        &[("MILLRACE_WORKER", "1")],
        &[],
    );
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for needle in ["`colour`", "`workers`", "many", "MILLRACE_WORKER "] {
        assert!(text.contains(needle), "{needle} is missing: {text}");
    }
}

/// Regression: a key within a table had the name of its setting, and a value that of its flag.
#[test]
fn an_error_names_a_key_as_the_file_has_it() {
    let table = [
        (
            "grace_seconds = \"10s\"",
            "key `grace_seconds` of the configuration: invalid value '10s': give a whole number",
        ),
        (
            "[clickhouse]\nmemory = \"lots\"",
            "key `clickhouse.memory` of the configuration: invalid value 'lots': give a size",
        ),
        (
            "ack = \"never\"",
            "invalid value 'never': give one of disk, clickhouse, memory",
        ),
        ("serve = 1", "no key `serve`; `millrace config` lists"),
        (
            "[clickhouse]\ncolour = 1",
            "no key `clickhouse.colour`; `millrace config` lists",
        ),
        (
            "[serve]\nworkers = 1",
            "no key `serve.workers`; write `workers` before the first table",
        ),
        ("config = \"other.toml\"", "no key `config`"),
        ("print_credentials = true", "no key `print_credentials`"),
    ];
    for (file, told) in table {
        let output = config(file, &[], &[]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{file}: {text}");
        assert!(
            text.contains(told) && !text.contains("--"),
            "{file}: {text}"
        );
    }
}

#[test]
fn variables_of_kubernetes_are_ignored() {
    let output = config(
        "",
        &[
            ("MILLRACE_PORT", "tcp://10.0.0.1:8000"),
            ("MILLRACE_SERVICE_HOST", "10.0.0.1"),
        ],
        &[],
    );
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn secrets_are_not_shown() {
    let output = config(
        "",
        &[("MILLRACE_CLICKHOUSE_PASSWORD", "canary-canary-canary")],
        &[
            "--database-url",
            "postgres://u:canary@h/d",
            "--smtp-url",
            "smtp://u:canary@h",
            "--mail-from",
            "a@example.com",
            "--secret-key",
            "Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2E=",
            "--admin-public-url",
            "https://millrace.example",
        ],
    );
    let text = format!("{output:?}");
    assert!(
        !text.contains("canary") && !text.contains("Y2FuYXJ5"),
        "{text}"
    );
    assert!(line_of(&output, "clickhouse_password").contains("MILLRACE_CLICKHOUSE_PASSWORD"));
}

#[test]
fn the_settings_are_printed_as_json_without_secrets() {
    let password = ("MILLRACE_CLICKHOUSE_PASSWORD", "canary-canary-canary");
    let output = config("workers = 3\n", &[password], &["--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("canary"), "{text}");
    let printed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let settings = printed["settings"].as_array().unwrap();
    let setting = |name: &str| settings.iter().find(|it| it["name"] == name).unwrap();
    let workers = setting("workers");
    assert_eq!(
        (&workers["value"], &workers["source"]),
        (&"3".into(), &"file millrace.toml".into())
    );
    let password = setting("clickhouse_password");
    assert_eq!(
        (&password["value"], &password["is_hidden"]),
        (&().into(), &true.into())
    );
}

fn assert_rejected(args: &[&str], needle: &str) {
    let output = config("", &[], args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{args:?}: {text}");
    assert!(text.contains(needle), "{args:?}: {text}");
}

#[test]
fn invalid_values_are_rejected_with_advice() {
    let table = [
        (vec!["--workers", "0"], "at least 1"),
        (vec!["--workers", "many"], "give a whole number"),
        (
            vec!["--grace-seconds", "10s"],
            "invalid value '10s' for '--grace-seconds <N>': give a whole number of seconds, such as 10",
        ),
        (vec!["--activity-log-kept-days", "2y"], "of days"),
        (vec!["--activity-log-kept-days", "4294967296"], "too large"),
        (vec!["--clickhouse-native-port", "65536"], "such as 9000"),
        (vec!["--workers", "99999999"], "at most 1024"),
        (vec!["--log-bytes-max", "1KiB"], "64 MiB"),
        (vec!["--clickhouse-url", "clickhouse:9000"], "http://"),
        (vec!["--database-url", "mysql://h/d"], "postgres://"),
        (vec!["--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (vec!["--trusted-proxies", "everyone"], "everyone"),
        (vec!["--smtp-url", "smtp://localhost"], "mail_from"),
        (vec!["--smtp-url", "smtp://localhost"], "admin_public_url"),
        (
            vec![
                "--smtp-url",
                "smtp://localhost",
                "--mail-from",
                "a@b.example",
            ],
            "admin_public_url",
        ),
        (
            vec!["--smtp-url", "localhost:25", "--mail-from", "a@b.example"],
            "smtp://host",
        ),
        (
            vec!["--smtp-url", "smtp://localhost", "--mail-from", "Ann"],
            "Ann",
        ),
        (vec!["--dns-nameserver", "resolver"], "resolver"),
        (vec!["--secret-key", "c2hvcnQ="], "openssl"),
        (vec!["--plugin-catalogue", "ftp://h/p"], "plugins.json"),
        (vec!["--proxy-base-name", "no domain"], "no domain"),
        (vec!["--ingest-addr", "localhost"], "127.0.0.1:8000"),
        (vec!["--ingest-addr", "127.0.0.256:9000"], "127.0.0.1:9000"),
        (vec!["--admin-addr", ":9000"], "0.0.0.0:9000"),
        (vec!["--health-addr", "9000"], "127.0.0.1:9000"),
        (vec!["--clickhouse-addr", "here"], "127.0.0.1:8000"),
        (vec!["--port", "9000"], "--ingest-addr"),
        (vec!["--clickhouse-memory", "lots"], "such as 2GiB"),
        (vec!["--clickhouse-memory", "2"], "at least 256 MiB"),
        (vec!["--log-bytes-max", "lots"], "such as 2GiB"),
        (vec!["--clickhouse-password", ""], "omit it"),
        (vec!["--public-url", "events.example.com"], "https://"),
        (vec!["--admin-public-url", "api.example.com"], "https://"),
        (vec!["--node-addr", "0.0.0.0:8002"], "give node_url"),
        (vec!["--node-url", "http://n1:8002"], "give also node_addr"),
        (
            vec!["--clickhouse-password", "nineteen characters"],
            "shorter than 20",
        ),
    ];
    for (args, needle) in table {
        assert_rejected(&args, needle);
    }
}

#[test]
fn invalid_settings_of_clusters_are_rejected_with_advice() {
    let table = [
        (vec!["--clickhouse-cluster", "c"], "clickhouse_url"),
        (vec!["--clickhouse-insert-quorum", "2"], "no replicas"),
        (vec!["--clickhouse-insert-quorum", "1"], "more than half"),
        (
            vec![
                "--clickhouse-insert-quorum",
                "auto",
                "--clickhouse-url",
                "http://h:8123",
            ],
            "clickhouse_cluster is not set",
        ),
        (
            vec!["--clickhouse-url", "http://a:8123,http://b:8123"],
            "clickhouse_cluster is not set",
        ),
        (
            vec![
                "--clickhouse-replication",
                "none",
                "--clickhouse-url",
                "http://h:8123",
            ],
            "clickhouse_cluster is not set",
        ),
        (vec!["--clickhouse-replication", "keeper"], "not a cluster"),
        (vec!["--clickhouse-replication", "zookeeper"], "`keeper`"),
    ];
    for (args, needle) in table {
        assert_rejected(&args, needle);
    }
}

#[test]
fn a_clickhouse_url_with_secrets_or_settings_is_rejected_and_not_printed() {
    let table = [
        (
            "http://me:canary@h:8123",
            "clickhouse_user and clickhouse_password",
        ),
        (
            "https://canary@h",
            "clickhouse_user and clickhouse_password",
        ),
        ("http://h:8123/?password=canary", "remove what follows"),
        ("http://h:8123/#canary", "remove what follows"),
        ("http://[canary", "clickhouse_url is not a URL"),
    ];
    for (url, needle) in table {
        let output = config("", &[], &["--clickhouse-url", url]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{url}: {text}");
        assert!(text.contains(needle) && !text.contains("canary"), "{text}");
    }
}

#[test]
fn a_clickhouse_ca_file_needs_a_certificate_and_https() {
    let table = [
        (Some("http://h"), "ca.pem", "begin it with https://"),
        (
            Some("https://h"),
            "/nonexistent.pem",
            "clickhouse_ca_file is /nonexistent.pem; give a PEM file",
        ),
        (
            Some("https://h"),
            "/dev/null",
            "clickhouse_ca_file is /dev/null; give a PEM file",
        ),
        (None, "ca.pem", "clickhouse_url is not"),
    ];
    for (url, file, needle) in table {
        let mut args = vec!["--clickhouse-ca-file", file];
        args.extend(url.iter().flat_map(|url| ["--clickhouse-url", url]));
        let output = config("", &[], &args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{args:?}: {text}");
        assert!(text.contains(needle), "{args:?}: {text}");
    }
}

#[test]
fn an_unknown_log_level_is_rejected_in_every_layer() {
    for wrong in ["chatty", "inf o", "", "info,millrace_pipelin=debug"] {
        let file = format!("log_level = {wrong:?}\n");
        let table = [
            config("", &[], &["--log-level", wrong]),
            config("", &[("MILLRACE_LOG_LEVEL", wrong)], &[]),
            config(&file, &[], &[]),
        ];
        for output in table {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(64), "{wrong:?}: {text}");
            for needle in ["log", "off, error, warn, info, debug or trace"] {
                assert!(text.contains(needle), "{wrong:?}: {text}");
            }
        }
    }
    for right in ["trace", "warn,millrace_pipeline=debug", "info,hyper=off"] {
        let output = config("", &[("MILLRACE_LOG_LEVEL", right)], &[]);
        assert!(line_of(&output, "log_level").contains(right), "{output:?}");
    }
}
