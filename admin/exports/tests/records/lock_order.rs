//! Lock order: concurrent changes never deadlock, whichever comes first.

use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{
    Actor, BatchExport, CatalogError, ChangeError, DestinationType, Level, Patch, ProjectId,
    RunStatus, Scopes, User, UtcTime,
};
use millrace_exports::{
    Backfills, BatchExports, DestinationChange, DestinationLimits, ExportPlace, ExportRuns,
    ExportWriter, NewRun, RunProgress, SecretKey,
};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::testing::test_env::{TestEnv, actor};
use millrace_organizations::{
    HistoricalGrant, HistoricalMigrations, NewHistoricalMigration, NewPersonalKey, Organizations,
    PersonalKeys, ProjectChange, Projects, ProxyRecords,
};
use serde_json::Map;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    resources_are_created_while_their_organization_is_deleted,
    runs_end_while_their_backfill_is_cancelled,
    runs_end_while_their_export_is_deleted,
    keys_of_users_who_joined_in_opposite_orders_change_together,
);

/// Repetitions of each race.
const ROUNDS: usize = 12;

/// Asserts that no change fails with a database error; a change may be refused by a rule.
async fn all_end_well(changes: JoinSet<Result<(), ChangeError>>) {
    for outcome in changes.join_all().await {
        let well = !matches!(outcome, Err(ChangeError::Catalog(_)));
        assert!(well, "{outcome:?}");
    }
}

/// Input for a historical migration.
fn new_migration() -> NewHistoricalMigration {
    NewHistoricalMigration {
        project_id: None,
        source: "Amplitude".to_owned(),
        method: "batch".to_owned(),
        total_events: 30,
        events_per_minute: 10,
    }
}

async fn new_export(
    fixture: &Fixture,
    key: &SecretKey,
    organization_id: Uuid,
) -> Result<BatchExport, ChangeError> {
    let writer = ExportWriter {
        actor: &Actor::system(),
        place: place(organization_id),
        key,
        limits: DestinationLimits {
            allow_private: false,
            is_public: |_| true,
            export_root: None,
        },
    };
    let new = millrace_exports::testing::new_export(DestinationChange {
        kind: Some(DestinationType::NoOp),
        config: Map::new(),
    });
    let made = BatchExports::new(&fixture.catalog)
        .create(writer, new)
        .await?;
    Ok(made.export)
}

fn place(organization_id: Uuid) -> ExportPlace {
    ExportPlace {
        organization_id,
        project_id: None,
    }
}

/// Creates or changes a resource of an organization, in one of several ways.
async fn make(
    fixture: &Fixture,
    way: usize,
    id: Uuid,
    project_id: ProjectId,
) -> Result<(), ChangeError> {
    let (catalog, system) = (&fixture.catalog, &Actor::system());
    match way {
        0 => {
            let asked = HistoricalMigrations::new(catalog).request(system, id, new_migration());
            asked.await.map(drop)
        }
        1 => {
            let grant = HistoricalGrant {
                project_id,
                total_events: 9,
                events_per_minute: 9,
                note: None,
            };
            let granted = HistoricalMigrations::new(catalog).grant(system, grant);
            granted.await.map(drop)
        }
        2 => {
            let key = SecretKey::generate().unwrap();
            new_export(fixture, &key, id).await.map(drop)
        }
        3 => {
            let domain = format!("{id}.example");
            let made = ProxyRecords::new(catalog).create(system, id, &domain, "proxy.example");
            made.await.map(drop)
        }
        4 => {
            let rename = ProjectChange {
                name: Patch::Value("Other".to_owned()),
                ..ProjectChange::default()
            };
            let changed = Projects::new(catalog).update(system, id, project_id, rename);
            changed.await.map(drop)
        }
        _ => Projects::new(catalog).delete(system, id, project_id).await,
    }
}

async fn resources_are_created_while_their_organization_is_deleted(database: TestDatabase) {
    let fixture = Arc::new(Fixture::open(&database).await);
    for _ in 0..ROUNDS {
        let system = Actor::system();
        let organization = Organizations::new(&fixture.catalog).create(&system, "Short", None);
        let id = organization.await.unwrap().id;
        let projects = Projects::new(&fixture.catalog)
            .list_all(Some(id))
            .await
            .unwrap();
        let project_id = ProjectId(projects[0].id);
        let mut changes = JoinSet::new();
        for way in 0..6 {
            let fixture = fixture.clone();
            changes.spawn(async move { make(&fixture, way, id, project_id).await });
        }
        let fixture = fixture.clone();
        changes.spawn(async move {
            let system = Actor::system();
            Organizations::new(&fixture.catalog)
                .delete(&system, id)
                .await
        });
        all_end_well(changes).await;
    }
}

/// Export with a backfill of four runs.
async fn backfilled(fixture: &Fixture) -> (BatchExport, Uuid, Vec<Uuid>) {
    let key = SecretKey::generate().unwrap();
    let export = new_export(fixture, &key, fixture.organization_id);
    let export = export.await.unwrap();
    let (catalog, system) = (&fixture.catalog, &Actor::system());
    let own = place(fixture.organization_id);
    let backfill = Backfills::new(catalog).start(system, own, export.id, Default::default());
    let backfill = backfill.await.unwrap().id;
    assert!(Backfills::new(catalog).plan(backfill, 4).await.unwrap());
    let mut runs = Vec::new();
    for hour in 1..=4 {
        let window = NewRun {
            backfill_id: Some(backfill),
            data_interval_start: None,
            data_interval_end: UtcTime(hour * 3_600_000_000),
        };
        runs.push(
            ExportRuns::new(catalog)
                .begin(export.id, window)
                .await
                .unwrap()
                .id,
        );
    }
    (export, backfill, runs)
}

/// Ends all runs, each in a task of its own.
fn ending(fixture: &Arc<Fixture>, runs: &[Uuid]) -> JoinSet<Result<(), ChangeError>> {
    let mut changes = JoinSet::new();
    for run in runs.iter().copied() {
        let fixture = fixture.clone();
        changes.spawn(async move {
            let done = RunProgress {
                status: RunStatus::Completed,
                records_completed: Some(1),
                records_total_count: Some(1),
                bytes_exported: Some(11),
                cursor: None,
                latest_error: None,
                waits: false,
            };
            let recorded =
                ExportRuns::new(&fixture.catalog).record(run, None, done, Duration::ZERO);
            recorded.await.map(drop)
        });
    }
    changes
}

async fn runs_end_while_their_backfill_is_cancelled(database: TestDatabase) {
    let fixture = Arc::new(Fixture::open(&database).await);
    for _ in 0..ROUNDS {
        let (export, backfill, runs) = backfilled(&fixture).await;
        let mut changes = ending(&fixture, &runs);
        let own = place(fixture.organization_id);
        let canceller = fixture.clone();
        changes.spawn(async move {
            let system = Actor::system();
            let catalog = &canceller.catalog;
            let cancelled = Backfills::new(catalog).cancel(&system, own, export.id, backfill);
            cancelled.await.map(drop)
        });
        all_end_well(changes).await;
        let seen = Backfills::new(&fixture.catalog).get(own, export.id, backfill);
        let seen = seen.await.unwrap().unwrap();
        assert_eq!(seen.finished_runs, 4, "each run ended once: {seen:?}");
    }
}

async fn runs_end_while_their_export_is_deleted(database: TestDatabase) {
    let fixture = Arc::new(Fixture::open(&database).await);
    for _ in 0..ROUNDS {
        let (export, backfill, runs) = backfilled(&fixture).await;
        let mut changes = ending(&fixture, &runs);
        let own = place(fixture.organization_id);
        let planner = fixture.clone();
        changes.spawn(async move {
            let planned = Backfills::new(&planner.catalog).plan(backfill, 5);
            planned.await.map(drop)
        });
        let deleter = fixture.clone();
        changes.spawn(async move {
            let system = Actor::system();
            BatchExports::new(&deleter.catalog)
                .delete(&system, own, export.id)
                .await
        });
        all_end_well(changes).await;
    }
}

/// Joins organizations one after the other.
async fn join(env: &TestEnv, user: &User, organizations: impl Iterator<Item = &Uuid>) {
    for organization in organizations {
        let added = env
            .catalog
            .add_member(*organization, user.id, Level::Member);
        added.await.unwrap();
    }
}

async fn make_key(env: &TestEnv, user: &User) -> Result<(), ChangeError> {
    let new = NewPersonalKey {
        email: user.email.clone(),
        label: "Test".to_owned(),
        scopes: Scopes::all(),
        expires_at: None,
        scoped_organizations: None,
    };
    let who = actor(user);
    let made = PersonalKeys::new(&env.catalog).create(&who, new);
    made.await.map(drop)
}

async fn keys_of_users_who_joined_in_opposite_orders_change_together(database: TestDatabase) {
    let env = Arc::new(TestEnv::new(&database).await);
    let mut organizations = Vec::new();
    for number in 0..40 {
        let (system, name) = (Actor::system(), format!("Organization {number}"));
        let made = Organizations::new(&env.catalog).create(&system, &*name, None);
        organizations.push(made.await.unwrap().id);
    }
    let mut users = Vec::new();
    for pair in 0..4 {
        let there = env.user(&format!("there{pair}")).await;
        join(&env, &there, organizations.iter()).await;
        let back = env.user(&format!("back{pair}")).await;
        join(&env, &back, organizations.iter().rev()).await;
        users.extend([there, back]);
    }
    for _ in 0..ROUNDS {
        let mut changes = JoinSet::new();
        for user in &users {
            let (env, user) = (env.clone(), user.clone());
            changes.spawn(async move { make_key(&env, &user).await });
        }
        all_end_well(changes).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocked_changes_can_be_retried() {
    for code in ["40P01", "40001", "55P03"] {
        let database = TestDatabase::of(DatabaseKind::Postgres).await;
        let fixture = Fixture::open(&database).await;
        let refuse = format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION \
             'refused' USING ERRCODE = '{code}'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON proxy_records EXECUTE FUNCTION refuse()"
        );
        database.execute(&refuse).await.unwrap();
        let made = make(&fixture, 3, fixture.organization_id, fixture.project_id).await;
        let is_conflict = matches!(
            &made,
            Err(ChangeError::Catalog(CatalogError::Conflict { .. }))
        );
        assert!(is_conflict, "{made:?}");
    }
}
