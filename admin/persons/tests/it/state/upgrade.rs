//! Upgrade of tables of persons.

use millrace_catalog::Catalog;
use millrace_catalog::testing::TestDatabase;
use millrace_persons::PersonStore;

millrace_catalog::on_both!(empty: an_index_that_was_created_before_the_upgrade_is_kept);

async fn an_index_that_was_created_before_the_upgrade_is_kept(database: TestDatabase) {
    let old = database
        .open_before("m0034_identified_ids_index")
        .await
        .unwrap();
    old.close().await.unwrap();
    // As in the runbook, without `CONCURRENTLY`, which SQLite lacks.
    let index = "CREATE INDEX person_distinct_ids_identified \
        ON person_distinct_ids (team_id, person_id, identified_at, identified_by)";
    database.execute(index).await.unwrap();
    let catalog = Catalog::open(database.url()).await.unwrap();
    assert_eq!(
        PersonStore::new(&catalog)
            .progress()
            .await
            .unwrap()
            .backlogs,
        []
    );
    // The index that it replaces is gone.
    let without = "DROP INDEX person_distinct_ids_of_person";
    database.execute(without).await.unwrap_err();
}
