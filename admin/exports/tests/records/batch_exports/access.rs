//! Rights to write exports, which are checked at the moment of writing.

use super::{TestEnv, new_export};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, BatchExport, ChangeError, Patch, UtcTime};
use millrace_exports::{
    BackfillRange, Backfills, BatchExportChange, BatchExports, ExportRuns, ExportWriter, NewRun,
};
use millrace_organizations::testing::test_env::actor;
use millrace_organizations::{Members, OrganizationChange, Organizations};
use uuid::Uuid;

on_both!(an_actor_whose_access_ended_meanwhile_cannot_write_exports,);

/// Export with an open run and an open backfill.
struct BusyExport {
    export: BatchExport,
    run_id: Uuid,
    backfill_id: Uuid,
}

async fn busy(env: &TestEnv) -> BusyExport {
    let export = env.made().await;
    let new = NewRun {
        backfill_id: None,
        data_interval_start: None,
        data_interval_end: UtcTime(1),
    };
    BusyExport {
        run_id: env.begin_run(export.id, new).await,
        backfill_id: env.backfill(export.id).await,
        export,
    }
}

/// Outcomes of every kind of write.
async fn outcomes(
    env: &TestEnv,
    who: &Actor,
    busy: &BusyExport,
) -> [(&'static str, Result<(), ChangeError>); 9] {
    let (catalog, place, id) = (&env.fixture.catalog, env.place(), busy.export.id);
    let writer = ExportWriter {
        actor: who,
        ..env.writer()
    };
    let rename = BatchExportChange {
        name: Some("Daily".to_owned()),
        ..BatchExportChange::default()
    };
    let (range, run, backfill) = (BackfillRange::default(), busy.run_id, busy.backfill_id);
    let created = BatchExports::new(catalog)
        .create(writer, new_export())
        .await;
    let updated = BatchExports::new(catalog).update(writer, id, rename).await;
    let paused = BatchExports::new(catalog).pause(who, place, id).await;
    let unpaused = BatchExports::new(catalog)
        .unpause(who, place, id, false)
        .await;
    let cancelled = ExportRuns::new(catalog).cancel(who, place, id, run).await;
    let retried = ExportRuns::new(catalog).retry(who, place, id, run).await;
    let asked = Backfills::new(catalog).start(who, place, id, range).await;
    let ended = Backfills::new(catalog).cancel(who, place, id, backfill);
    let ended = ended.await;
    let deleted = BatchExports::new(catalog).delete(who, place, id).await;
    [
        ("create", created.map(drop)),
        ("update", updated.map(drop)),
        ("pause", paused.map(drop)),
        ("unpause", unpaused.map(drop)),
        ("cancel a run", cancelled.map(drop)),
        ("retry a run", retried.map(drop)),
        ("backfill", asked.map(drop)),
        ("cancel a backfill", ended.map(drop)),
        ("delete", deleted),
    ]
}

async fn all_pass(env: &TestEnv, who: &Actor) {
    let busy = busy(env).await;
    for (what, done) in outcomes(env, who, &busy).await {
        assert!(done.is_ok(), "{what}: {done:?}");
    }
}

async fn all_are_forbidden(env: &TestEnv, who: &Actor) {
    let busy = busy(env).await;
    for (what, done) in outcomes(env, who, &busy).await {
        assert!(
            matches!(done, Err(ChangeError::Forbidden(_))),
            "{what}: {done:?}"
        );
    }
    let seen = BatchExports::new(&env.fixture.catalog).get(env.place(), busy.export.id);
    let seen = seen.await.unwrap().unwrap().export;
    assert_eq!((seen.name, seen.paused), (busy.export.name, false));
}

async fn an_actor_whose_access_ended_meanwhile_cannot_write_exports(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, owner) = (&env.fixture.catalog, &env.fixture.actor);
    let organization_id = env.fixture.organization_id;
    let mia = env.fixture.member().await;
    all_pass(&env, &actor(&mia)).await;

    let off = OrganizationChange {
        members_can_write_pipelines: Patch::Value(false),
        ..OrganizationChange::default()
    };
    let changed = Organizations::new(catalog).update(owner, organization_id, off);
    changed.await.unwrap();
    all_are_forbidden(&env, &actor(&mia)).await;
    all_pass(&env, owner).await;

    let on = OrganizationChange {
        members_can_write_pipelines: Patch::Value(true),
        ..OrganizationChange::default()
    };
    let changed = Organizations::new(catalog).update(owner, organization_id, on);
    changed.await.unwrap();
    let removed = Members::new(catalog).remove(owner, organization_id, mia.uuid);
    removed.await.unwrap();
    all_are_forbidden(&env, &actor(&mia)).await;
}
