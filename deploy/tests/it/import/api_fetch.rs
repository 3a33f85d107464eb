//! Exports fetched from APIs on loopback, despite all faults, and then imported.

use super::faulty_proxy::{FaultyProxy, ResponseFault};
use super::{TestEnv, write_events};
use crate::server::{eventually, free_address};
use millrace_sources::testing::{FakeApi, Fault, Service};
use std::process::Stdio;

const EVENTS_PER_PART: u64 = 20;

/// Arguments that fetch from a service's API, from 2024-05-01 on.
fn arguments<'a>(service: Service, url: &'a str, until: &'a str) -> Vec<&'a str> {
    let own: &[&str] = match service {
        Service::Mixpanel => &["mixpanel", "--secret", "canary"],
        Service::Amplitude => &["amplitude", "--api-key", "key", "--api-secret", "canary"],
    };
    let range = ["--from", "2024-05-01", "--until", until];
    let how = ["--from-url", url, "--silence", "1"];
    [&["fetch"], own, &range, &how].concat()
}

/// Checks, loads and reconciles the staged files.
fn import(env: &TestEnv, events: u64) {
    let (checked, code) = env.result(&["check"]);
    assert_eq!((&checked["records"], code), (&events.into(), Some(0)));
    let (loaded, code) = env.result(&["load"]);
    assert_eq!((&loaded["accepted"], code), (&events.into(), Some(0)));
    let (reconciled, code) = env.result(&["reconcile"]);
    assert_eq!(code, Some(0), "{reconciled}");
    assert_eq!(reconciled["source"], events, "{reconciled}");
}

#[test]
fn an_export_is_fetched_whole_despite_every_fault_and_reconciled() {
    let faults = [
        Fault::Throttled(Some(1)),
        Fault::Cut(50),
        Fault::Stall(30),
        Fault::CutWithoutLength(70),
        Fault::Status(503),
        Fault::Throttled(None),
    ];
    let table = [
        (Service::Mixpanel, "2024-05-05", 5),
        (Service::Amplitude, "2024-05-01", 24),
    ];
    for (service, until, parts) in table {
        let env = TestEnv::start();
        let api = FakeApi::start(service, EVENTS_PER_PART);
        api.expect(&faults);
        let arguments = arguments(service, &api.url, until);
        let (fetched, code) = env.result(&arguments);
        assert_eq!((&fetched["parts_fetched"], code), (&parts.into(), Some(0)));
        assert_eq!(api.requests().len(), parts + faults.len());
        let (again, _) = env.result(&arguments);
        assert_eq!(again["parts_known"], parts);
        assert_eq!(api.requests().len(), parts + faults.len());
        import(&env, parts as u64 * EVENTS_PER_PART);
    }
}

#[test]
fn the_reason_of_a_wait_is_printed_without_a_terminal() {
    let env = TestEnv::start();
    let api = FakeApi::start(Service::Mixpanel, EVENTS_PER_PART);
    api.expect(&[Fault::Throttled(Some(2))]);
    let output = env.output(&arguments(Service::Mixpanel, &api.url, "2024-05-01"));
    let text = String::from_utf8_lossy(&output.stderr);
    let reason = " UTC: mixpanel-2024-05-01.ndjson.gz: The service answered 429 Too Many Requests: Rate limit \
                  exceeded; try 2 of 12 in 2 seconds";
    assert!(text.contains("fetch: waiting until "), "{text}");
    assert!(text.contains(reason) && output.status.success(), "{text}");
}

#[test]
fn a_killed_fetch_resumes_with_the_missing_parts() {
    const PARTS: usize = 10;
    let env = TestEnv::start();
    let api = FakeApi::start(Service::Mixpanel, EVENTS_PER_PART);
    // Four parts are fetched at once.
    api.expect(&[Fault::None, Fault::None]);
    api.expect(&[Fault::Stall(50); 4]);
    let mut arguments = arguments(Service::Mixpanel, &api.url, "2024-05-10");
    arguments.extend(["--staging", "millrace-import"]);
    let patient: Vec<_> = arguments
        .iter()
        .map(|it| if *it == "1" { "600" } else { it })
        .collect();
    let mut child = env.command(&patient);
    let mut child = child
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("four transfers that stall", || {
        (api.requests().len() == 6).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (fetched, code) = env.result(&arguments);
    assert_eq!(code, Some(0), "{fetched}");
    assert_eq!(
        (&fetched["parts_known"], &fetched["parts_fetched"]),
        (&2.into(), &8.into())
    );
    assert_eq!(api.requests().len(), 6 + PARTS - 2);
    import(&env, PARTS as u64 * EVENTS_PER_PART);
}

#[test]
fn the_table_of_another_instance_is_fetched_whole_despite_every_fault() {
    const EVENTS: u64 = 40;
    const BUSY: &str =
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy";
    let (source, target) = (TestEnv::start(), TestEnv::start());
    write_events(&source.path("events.ndjson"), EVENTS);
    source.result(&["load", "events.ndjson"]);
    source.wait_for_events(EVENTS);
    let credential = |name: &str| source.server.credential(name);
    let between = FaultyProxy::start(&credential("clickhouse_url"), "param_day");
    between.expect([
        ResponseFault::Cut(50),
        ResponseFault::None,
        ResponseFault::Replace(BUSY),
        ResponseFault::Stall(50),
    ]);
    let (user, password, project_id) = (
        credential("clickhouse_user"),
        credential("clickhouse_password"),
        credential("team_id"),
    );
    let whose = ["--from-user", &user, "--from-password", &password];
    let which = [
        "--table",
        "millrace.events",
        "--from-project-id",
        &project_id,
    ];
    let how = ["--from-url", &between.url, "--silence", "1"];
    let (fetched, code) =
        target.result(&[&["fetch", "clickhouse"], &whose[..], &which, &how].concat());
    assert_eq!(code, Some(0), "{fetched}");
    import(&target, EVENTS);
}

#[test]
fn a_failed_fetch_prints_its_reason_and_advice() {
    let env = TestEnv::start();
    let api = FakeApi::start(Service::Mixpanel, EVENTS_PER_PART);
    let gone = format!("http://{}", free_address());
    let range = ["--from", "2024-05-01", "--until", "2024-05-01"];
    let mixpanel = [&["mixpanel", "--from-url", &api.url], &range[..]].concat();
    let clickhouse = ["clickhouse", "--from-url", &gone, "--from-project-id", "2"];
    let secret = ["--secret", "canary"];
    let table: [(Vec<&str>, i32, &str); 7] = [
        // No secret, neither as an option nor in the environment.
        (mixpanel.clone(), 64, "--secret <SECRET>"),
        (
            vec!["amplitude", "--from", "2024-05-01", "--until", "2024-05-01"],
            64,
            "--api-key <KEY>",
        ),
        (
            [&mixpanel[..], &secret].concat(),
            1,
            "Check the credentials",
        ),
        (
            [
                &["mixpanel", "--from", "2024-5-1", "--until", "2024-05-01"],
                &secret[..],
            ]
            .concat(),
            1,
            "\"2024-5-1\" is not a day; write it as in 2024-05-31",
        ),
        (
            [
                &["mixpanel", "--from", "2024-05-02", "--until", "2024-05-01"],
                &secret[..],
            ]
            .concat(),
            1,
            "before it begins",
        ),
        (clickhouse.to_vec(), 1, "ClickHouse at"),
        (vec!["elsewhere"], 64, "unrecognized subcommand"),
    ];
    for (arguments, code, expected) in table {
        api.expect(&[Fault::Status(401)]);
        let output = env.output(&[&["fetch"], &arguments[..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{arguments:?}: {text}");
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn bodies_are_compressed_as_configured() {
    const EVENTS: u64 = 2_000;
    let env = TestEnv::start();
    write_events(&env.path("events.ndjson"), EVENTS);
    let key = env.server.credential("project_api_key");
    let table: [(&str, Option<&str>, &[u8]); 3] = [
        ("none", None, b"{\""),
        ("gzip", Some("gzip"), &[0x1f, 0x8b]),
        ("zstd", Some("zstd"), &[0x28, 0xb5, 0x2f, 0xfd]),
    ];
    let mut sizes = Vec::new();
    for (compress, encoding, beginning) in table {
        let between = FaultyProxy::start(&env.server.credential("ingest_url"), "/batch/");
        let to = ["--url", &between.url, "--project-key", &key];
        let how = ["--compress", compress, "--staging", compress];
        let (loaded, code) = env.result(&[&["load", "events.ndjson"], &to[..], &how].concat());
        assert_eq!((&loaded["accepted"], code), (&EVENTS.into(), Some(0)));
        let passed = between.passed();
        assert!(!passed.is_empty());
        for request in &passed {
            assert_eq!(request.encoding.as_deref(), encoding);
            assert!(request.body.starts_with(beginning), "{compress}");
        }
        sizes.push(passed.iter().map(|it| it.body.len()).sum::<usize>());
        // The same events each time, which are stored once.
        env.wait_for_events(EVENTS);
    }
    assert!(
        sizes[1] * 4 < sizes[0] && sizes[2] * 4 < sizes[0],
        "{sizes:?}"
    );
}
