//! Contents of a catalog that is opened again, or upgraded.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ProjectKeys};
use millrace_organizations::{BootstrapOptions, Users, bootstrap};
use uuid::Uuid;

on_both!(empty:
    reopening_keeps_everything,
    every_older_schema_is_upgraded,
);

async fn reopening_keeps_everything(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let made = bootstrap(&catalog, BootstrapOptions::default())
        .await
        .unwrap()
        .unwrap();
    catalog.close().await.unwrap();
    let again = Catalog::open(database.url()).await.unwrap();
    let project = ProjectKeys::new(&again)
        .find(&made.project_api_key)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(project.project_id, made.project_id);
    assert!(
        ProjectKeys::new(&catalog)
            .find(&made.project_api_key)
            .await
            .is_err(),
        "it was closed"
    );
}

async fn every_older_schema_is_upgraded(database: TestDatabase) {
    for step in TestDatabase::steps_since_4bbccd5() {
        let old = if database.is_sqlite() {
            TestDatabase::sqlite()
        } else {
            TestDatabase::postgres().await
        };
        let catalog = old.open_before(&step).await.unwrap();
        catalog.close().await.unwrap();
        let user = "INSERT INTO users (uuid, distinct_id, email, first_name, last_name, \
             is_active, created_at, updated_at) VALUES (";
        let uuid = old.uuid_literal(Uuid::from_u128(1));
        let row = format!("{user}{uuid}, 'd', 'old@example.com', '', '', true, 1, 1)");
        old.execute(&row).await.unwrap();
        let catalog = Catalog::open(old.url()).await.unwrap();
        assert!(
            bootstrap(&catalog, BootstrapOptions::default())
                .await
                .unwrap()
                .is_some()
        );
        let kept = Users::new(&catalog)
            .by_email("old@example.com")
            .await
            .unwrap();
        assert!(kept.is_some(), "before {step}");
    }
}
