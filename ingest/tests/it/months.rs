//! Limit of older months: how many an organization may send at once, and that other organizations
//! do not notice.

use crate::test_env::{KEY, OTHER_KEY, TestEnv, batch};
use serde_json::json;

/// Builds a batch with one event of each of so many months, from the first of `year` on.
fn months(key: &str, year: u32, count: u32) -> String {
    let event = |month: u32| {
        let timestamp = format!("{}-{:02}-15T00:00:00Z", year + month / 12, month % 12 + 1);
        json!({"event": "old", "distinct_id": "a", "timestamp": timestamp})
    };
    let events: Vec<_> = (0..count).map(event).collect();
    json!({"api_key": key, "batch": events}).to_string()
}

#[test]
fn an_import_of_very_many_months_is_accepted_and_the_next_one_waits() {
    let env = TestEnv::start();
    let import = |year| {
        let mut body: serde_json::Value = serde_json::from_str(&months(KEY, year, 300)).unwrap();
        body["historical_migration"] = true.into();
        env.post("/batch/", body.to_string())
    };
    assert_eq!(import(1970).status, 200);
    let answer = import(1995);
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "too_many_months")
    );
    assert!(answer.header("retry-after").is_some());
    assert_eq!(env.rows().events.len(), 300);
}

#[test]
fn an_organization_that_spent_its_months_waits_in_all_projects_and_others_do_not() {
    let env = TestEnv::start();
    let send = |key: &str, year, count| {
        let answer = env.post("/batch/", months(key, year, count));
        let retry_after = answer
            .header("retry-after")
            .map(|it| it.parse::<u32>().unwrap());
        let code = (answer.status != 200).then(|| answer.code());
        (answer.status, code, retry_after)
    };
    let code = Some("too_many_months".to_owned());
    assert_eq!(
        send(KEY, 1970, 684),
        (413, code.clone(), None),
        "smaller batches will do"
    );
    assert_eq!(send(KEY, 1970, 120), (200, None, None));
    let (status, told, retry_after) = send(KEY, 1990, 120);
    assert_eq!((status, told), (503, code.clone()));
    assert!((1..=15).contains(&retry_after.unwrap()), "{retry_after:?}");
    let (status, told, _) = send(OTHER_KEY, 1990, 120);
    assert_eq!((status, told), (503, code), "its other project waits, too");
    assert_eq!(
        env.post("/batch/", batch(&["new"])).status,
        200,
        "what happens now costs nothing"
    );
    let other = env.other_organization();
    assert_eq!(send(&other, 1990, 60), (200, None, None));
    assert_eq!(
        env.rows().events.len(),
        181,
        "what was refused is not stored"
    );
}

#[test]
fn a_refused_import_is_charged_for_no_month() {
    let env = TestEnv::start();
    let refused = |year| {
        let mut body: serde_json::Value = serde_json::from_str(&months(KEY, year, 120)).unwrap();
        body["historical_migration"] = true.into();
        let events = body["batch"].as_array_mut().unwrap();
        let event = events[0].clone();
        events.resize(10_001, event);
        let answer = env.post("/batch/", body.to_string());
        (answer.status, answer.code())
    };
    for year in [1970, 1980, 1990] {
        assert_eq!(refused(year), (413, "batch_exceeds_rate".to_owned()));
    }
    let answer = env.post("/batch/", months(KEY, 2000, 120));
    assert_eq!(answer.status, 200, "as nothing was stored before");
}
