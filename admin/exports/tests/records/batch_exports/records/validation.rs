//! Exports that are refused, with the field at fault.

use crate::batch_exports::{TestEnv, new_export, violation};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{CatalogLimits, UtcTime};
use millrace_exports::{BatchExportChange, BatchExports, NewBatchExport};
use millrace_rows::ProjectId;
use serde_json::json;

on_both!(
    bad_exports_are_refused_with_the_field_at_fault,
    an_organization_has_a_limit_of_exports,
    a_configuration_over_its_size_limit_is_refused_with_its_largest_field,
);

type Spoil = fn(&mut NewBatchExport);

async fn bad_exports_are_refused_with_the_field_at_fault(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let table: [(Spoil, &str, &str); 5] = [
        (|new| new.name = " ".to_owned(), "name", "blank"),
        (|new| new.name = "x".repeat(401), "name", "max_length"),
        (
            |new| new.interval = "month".to_owned(),
            "interval",
            "invalid_choice",
        ),
        (
            |new| new.project_id = Some(ProjectId(999_999)),
            "team_id",
            "invalid_input",
        ),
        (
            |new| (new.start_at, new.end_at) = (Some(UtcTime(2)), Some(UtcTime(2))),
            "end_at",
            "invalid_input",
        ),
    ];
    for (spoil, field, code) in table {
        let mut new = new_export();
        spoil(&mut new);
        let error = env.make(new).await.unwrap_err();
        assert_eq!(violation(&error), (Some(field.to_owned()), code));
    }
    let made = env.made().await;
    let catalog = &env.fixture.catalog;
    let change = BatchExportChange {
        interval: Some("minute".to_owned()),
        ..BatchExportChange::default()
    };
    let error = BatchExports::new(catalog)
        .update(env.writer(), made.id, change)
        .await;
    assert_eq!(violation(&error.unwrap_err()).1, "invalid_choice");
}

async fn an_organization_has_a_limit_of_exports(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let limits = CatalogLimits {
        batch_exports_max: 2,
        ..CatalogLimits::default()
    };
    let catalog = env.fixture.catalog.clone().with_limits(limits);
    let make = async || {
        BatchExports::new(&catalog)
            .create(env.writer(), new_export())
            .await
    };
    let first = make().await.unwrap().export.id;
    make().await.unwrap();
    let error = make().await.unwrap_err();
    assert_eq!(violation(&error), (None, "invalid_input"));
    assert!(error.to_string().contains("batch_exports_max"), "{error}");
    let deleted = BatchExports::new(&catalog).delete(&env.fixture.actor, env.place(), first);
    deleted.await.unwrap();
    make().await.unwrap();
}

async fn a_configuration_over_its_size_limit_is_refused_with_its_largest_field(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let with = |names: usize| {
        let names: Vec<String> = (0..names).map(|name| format!("{name:0>97}")).collect();
        let mut new = new_export();
        let list = json!(names);
        new.destination
            .config
            .insert("include_events".to_owned(), list);
        new
    };
    env.make(with(600)).await.unwrap();
    let error = env.make(with(700)).await.unwrap_err();
    let field = "destination__config__include_events".to_owned();
    assert_eq!(violation(&error), (Some(field), "max_length"));
    let mut query = with(550);
    query.hogql_query = Some("x".repeat(20_000));
    env.make(query).await.unwrap_err();
}
