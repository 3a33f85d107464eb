//! Purging the rows of deleted projects.

use crate::fixture::{Database, NOVEMBER, OCTOBER, events_of};
use millrace_clickhouse::{ClickHouse, ProjectRows, Settings};
use millrace_embedded::testing::gateway_with_page;
use millrace_rows::ProjectId;
use std::time::Duration;

fn rows(project_id: i64, rows: u64) -> ProjectRows {
    ProjectRows {
        team_id: project_id,
        rows,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_rows_of_the_named_projects_are_deleted() {
    let database = Database::make("purge").await;
    let clickhouse = &database.clickhouse;
    assert_eq!(clickhouse.projects_with_rows().await.unwrap(), []);
    for (token, project_id, range, at) in [
        ("a", 1, 0..10, NOVEMBER),
        ("b", 1, 10..15, OCTOBER),
        ("c", 2, 20..27, NOVEMBER),
        ("d", -3, 30..33, OCTOBER),
    ] {
        let block = events_of(ProjectId(project_id), range, at);
        database.insert(token, &block).await.unwrap();
    }
    assert_eq!(
        clickhouse.projects_with_rows().await.unwrap(),
        [rows(-3, 3), rows(1, 15), rows(2, 7)]
    );
    clickhouse.delete_projects(&[]).await.unwrap();
    clickhouse
        .delete_projects(&[ProjectId(1), ProjectId(-3), ProjectId(99)])
        .await
        .unwrap();
    let mut every = tokio::time::interval(Duration::from_millis(20));
    while clickhouse.deletion().await.unwrap().unfinished > 0 {
        every.tick().await;
    }
    assert_eq!(clickhouse.projects_with_rows().await.unwrap(), [rows(2, 7)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_clickhouses_is_not_taken_for_no_rows() {
    for page in ["", "<html>We are back soon</html>"] {
        let settings = Settings::new(gateway_with_page(page), "u", "p");
        let clickhouse = ClickHouse::new(&settings);
        clickhouse.projects_with_rows().await.unwrap_err();
        clickhouse.deletion().await.unwrap_err();
    }
}
