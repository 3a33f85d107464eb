//! Numbers of events through the API, over numbers that are made up. Those of a real server are
//! tested with the program.

use crate::Fixture;
use crate::fake_stats::{FakeStats, SLOW};
use millrace_admin::project_stats::{StatsGrouping, StatsQuestion, StatsStep};
use millrace_catalog::UtcTime;
use serde_json::{Value, json};
use std::sync::Arc;

on_both!(
    a_question_has_whole_steps_of_the_projects_of_its_path,
    sums_have_names_and_add_up_to_the_totals,
    questions_without_an_answer_are_refused,
    the_usage_of_a_month_is_a_table_of_days_and_projects,
);

const PROJECT: &str = "/api/projects/@current/stats/";
const ORGANIZATION: &str = "/api/organizations/@current/stats/";

/// Fixture whose questions can be looked at.
pub async fn watched() -> (Fixture, Arc<FakeStats>) {
    let fake = Arc::new(FakeStats::default());
    let stats = Arc::clone(&fake);
    let fixture =
        Fixture::with_services(move |services| services.project_stats = Some(stats)).await;
    (fixture, fake)
}

fn at(text: &str) -> UtcTime {
    UtcTime::parse(text).unwrap()
}

async fn a_question_has_whole_steps_of_the_projects_of_its_path() {
    let (fixture, fake) = watched().await;
    let first = fixture.made.project_id.0;
    let projects = "/api/organizations/@current/projects/";
    let made = fixture
        .call("POST", projects, &json!({ "name": "Second" }))
        .await;
    let second = made.body["id"].as_i64().unwrap();
    let time = "after=2026-11-20T10:00:30Z&before=2026-11-20T12:10:00Z";
    let question = |project_ids: &[i64], step, after, before, grouping| StatsQuestion {
        project_ids: project_ids.to_vec(),
        step,
        after: at(after),
        before: at(before),
        grouping,
    };
    let (ten, end) = ("2026-11-20T10:00:00Z", "2026-11-20T12:10:00Z");
    let table = [
        (
            format!("{PROJECT}?step=minute&{time}"),
            question(&[first], StatsStep::Minute, ten, end, StatsGrouping::None),
        ),
        (
            format!("{PROJECT}?by=code&{time}"),
            question(
                &[first],
                StatsStep::Hour,
                ten,
                "2026-11-20T13:00:00Z",
                StatsGrouping::Code,
            ),
        ),
        (
            format!("{ORGANIZATION}?step=day&by=project&{time}"),
            question(
                &[first, second],
                StatsStep::Day,
                "2026-11-20T00:00:00Z",
                "2026-11-21T00:00:00Z",
                StatsGrouping::Project,
            ),
        ),
    ];
    for (path, expected) in table {
        let answer = fixture.get(&path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let asked = fake.questions.lock().unwrap().pop().unwrap();
        assert_eq!(asked, expected, "{path}");
        assert_eq!(answer.body["after"], json!(expected.after));
    }
    // Without a time: the last hour by minute, day by hour, month by day.
    for (step, hours) in [("minute", 1), ("hour", 24), ("day", 30 * 24)] {
        let answer = fixture.get(&format!("{PROJECT}?step={step}")).await;
        assert_eq!(answer.body["step"], step, "{answer:?}");
        let asked = fake.questions.lock().unwrap().pop().unwrap();
        assert_eq!(asked.before.0 - asked.after.0, hours * 3_600_000_000);
    }
}

async fn sums_have_names_and_add_up_to_the_totals() {
    let fixture = Fixture::new().await;
    let time = "after=2026-11-20T00:00:00Z&before=2026-11-20T03:00:00Z";
    let project = fixture.made.project_id.to_string();
    for (path, names) in [
        (PROJECT, vec![Value::Null; 3]),
        (
            "/api/projects/@current/stats/?by=sdk",
            vec![[json!("one"), Value::Null]; 3].concat(),
        ),
        (
            "/api/organizations/@current/stats/?by=project",
            vec![json!(project); 3],
        ),
    ] {
        let join = if path.contains('?') { '&' } else { '?' };
        let answer = fixture.get(&format!("{path}{join}{time}")).await;
        let results = answer.body["results"].as_array().unwrap();
        let found: Vec<_> = results.iter().map(|row| row["name"].clone()).collect();
        assert_eq!(found, names, "{path}: {answer:?}");
        let count = names.len() as u64;
        let totals = json!({
            "accepted": 2 * count, "rejected": count, "historical": 0, "bytes": 20 * count,
        });
        assert_eq!(answer.body["totals"], totals, "{path}");
        assert_eq!(answer.body["rejected_until"], "2026-11-20T00:00:00Z");
    }
}

async fn questions_without_an_answer_are_refused() {
    let (fixture, fake) = watched().await;
    let day = "after=2026-11-20T00:00:00Z&before=2026-11-21T00:00:00Z";
    let table = [
        ("step=second".to_owned(), "invalid_choice", "step"),
        ("by=name".to_owned(), "invalid_choice", "by"),
        ("by=project".to_owned(), "invalid_choice", "by"),
        ("after=x".to_owned(), "invalid_input", "after"),
        ("before=2026-11-20".to_owned(), "invalid_input", "before"),
        (
            format!("step=minute&by=event&{day}"),
            "invalid_input",
            "after",
        ),
        (
            "after=2026-11-20T00:00:00Z&before=2026-11-20T00:00:00Z".to_owned(),
            "invalid_input",
            "after",
        ),
        (
            "step=day&after=1969-12-31T00:00:00Z&before=1970-01-02T00:00:00Z".to_owned(),
            "invalid_input",
            "after",
        ),
        (
            "step=day&after=2110-01-01T00:00:00Z&before=2110-01-02T00:00:00Z".to_owned(),
            "invalid_input",
            "after",
        ),
    ];
    for (query, code, attr) in table {
        let refused = fixture.get(&format!("{PROJECT}?{query}")).await;
        assert_eq!(refused.error(), (400, code, Some(attr)), "{query}");
    }
    assert!(fake.questions.lock().unwrap().is_empty());
    let slow = format!("{PROJECT}?after={SLOW}&before=1970-01-01T01:00:00Z");
    let refused = fixture.get(&slow).await;
    assert_eq!(refused.error(), (400, "query_limit_exceeded", None));
    let key = fixture.key(&["query:read"]).await;
    let refused = fixture.send("GET", PROJECT, Some(&key)).await;
    assert_eq!(refused.status, 403, "{refused:?}");
}

async fn the_usage_of_a_month_is_a_table_of_days_and_projects() {
    let (fixture, fake) = watched().await;
    let usage = "/api/organizations/@current/usage/";
    let first = fixture.made.project_id.0;
    let answer = fixture.get(&format!("{usage}?month=2026-11")).await;
    let expected = format!(
        "day,project_id,accepted,rejected,historical,bytes,is_final\n\
         2026-11-01,{first},2,1,0,20,false\n\
         2026-11-02,{first},2,1,0,20,false\n\
         2026-11-03,{first},2,1,0,20,false\n"
    );
    assert_eq!((answer.status, &answer.body), (200, &json!(expected)));
    let asked = fake.questions.lock().unwrap().pop().unwrap();
    assert_eq!(asked.grouping, StatsGrouping::EachProject);
    assert_eq!(asked.before, at("2026-12-01T00:00:00Z"));
    let tag = answer.header("etag").to_owned();
    let bearer = format!("Bearer {}", fixture.owner_key());
    let headers = [
        ("authorization", bearer.as_str()),
        ("if-none-match", tag.as_str()),
    ];
    let path = format!("{usage}?month=2026-11");
    let same = fixture.request("GET", &path, &headers, b"").await;
    assert_eq!(same.status, 304, "{same:?}");
    assert_eq!(fixture.get(usage).await.status, 200, "this month");
    for month in ["2026", "2026-13", "november"] {
        let refused = fixture.get(&format!("{usage}?month={month}")).await;
        assert_eq!(refused.error(), (400, "invalid_input", Some("month")));
    }
}
