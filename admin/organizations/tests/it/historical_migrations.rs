//! Historical migrations: requests and decisions.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityScope, Actor, ChangeError, HistoricalMigration, Level, MigrationState,
};
use millrace_organizations::testing::fixture::{ALL, Fixture};
use millrace_organizations::{
    HistoricalDecision, HistoricalGrant, HistoricalMigrations, Members, NewHistoricalMigration,
    NewUser, Organizations, Users,
};
use uuid::Uuid;

on_both!(
    a_request_without_a_project_is_for_the_first_project,
    bad_requests_are_refused_with_the_field_at_fault,
    decisions_follow_the_state_machine,
    the_operator_grants_by_project,
    an_actor_whose_access_ended_meanwhile_changes_nothing,
);

fn new_migration() -> NewHistoricalMigration {
    NewHistoricalMigration {
        project_id: None,
        source: "Amplitude".to_owned(),
        method: "batch".to_owned(),
        total_events: 30,
        events_per_minute: 10,
    }
}

fn approval() -> HistoricalDecision {
    HistoricalDecision {
        approve: true,
        ..HistoricalDecision::default()
    }
}

async fn request(fixture: &Fixture) -> HistoricalMigration {
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    let made = HistoricalMigrations::new(catalog).request(&fixture.actor, id, new_migration());
    made.await.unwrap()
}

async fn decide(
    fixture: &Fixture,
    id: Uuid,
    decision: HistoricalDecision,
) -> Result<HistoricalMigration, ChangeError> {
    let operator = Actor::command_line();
    let decided = HistoricalMigrations::new(&fixture.catalog).decide(&operator, None, id, decision);
    decided.await
}

async fn a_request_without_a_project_is_for_the_first_project(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    let made = request(&fixture).await;
    assert_eq!(
        (made.team_id, made.state),
        (fixture.project_id.0, MigrationState::Requested)
    );
    assert_eq!((made.events_imported, made.decided_at), (0, None));
    let mut there = new_migration();
    there.project_id = Some(fixture.project_id);
    HistoricalMigrations::new(catalog)
        .request(&fixture.actor, id, there.clone())
        .await
        .unwrap();
    assert_eq!(
        HistoricalMigrations::new(catalog)
            .list(id, ALL)
            .await
            .unwrap()
            .count,
        2
    );
    assert_eq!(
        HistoricalMigrations::new(catalog)
            .get(id, made.id)
            .await
            .unwrap(),
        Some(made.clone())
    );
    let foreign = fixture.foreign_id;
    assert_eq!(
        HistoricalMigrations::new(catalog)
            .get(foreign, made.id)
            .await
            .unwrap(),
        None
    );
    let error = HistoricalMigrations::new(catalog)
        .request(&Actor::system(), foreign, there)
        .await;
    let violation = error.unwrap_err().violation().unwrap();
    assert_eq!(
        (violation.field.as_deref(), violation.code),
        (Some("team_id"), "invalid_input")
    );
}

type Spoil = fn(&mut NewHistoricalMigration);

async fn bad_requests_are_refused_with_the_field_at_fault(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let table: [(Spoil, &str, &str); 5] = [
        (|new| new.source = " ".to_owned(), "source", "blank"),
        (|new| new.method = "x".repeat(201), "method", "max_length"),
        (|new| new.total_events = 0, "total_events", "min_value"),
        (
            |new| new.events_per_minute = -1,
            "events_per_minute",
            "min_value",
        ),
        (
            |new| new.project_id = Some(millrace_rows::ProjectId(4711)),
            "team_id",
            "invalid_input",
        ),
    ];
    for (spoil, field, code) in table {
        let mut new = new_migration();
        spoil(&mut new);
        let id = fixture.organization_id;
        let refused = HistoricalMigrations::new(&fixture.catalog).request(&fixture.actor, id, new);
        let violation = refused.await.unwrap_err().violation().unwrap();
        assert_eq!(
            (violation.field.as_deref(), violation.code),
            (Some(field), code)
        );
    }
}

async fn decisions_follow_the_state_machine(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    let made = request(&fixture).await;
    let counter = catalog.keys_version().await.unwrap();
    let rejection = HistoricalDecision {
        note: Some("too much".to_owned()),
        ..HistoricalDecision::default()
    };
    let rejected = decide(&fixture, made.id, rejection).await.unwrap();
    assert_eq!(
        (rejected.state, rejected.note.as_deref()),
        (MigrationState::Rejected, Some("too much"))
    );
    assert!(rejected.decided_at.is_some());
    let finish = || HistoricalMigrations::new(catalog).finish(&fixture.actor, id, made.id);
    let violation = finish().await.unwrap_err().violation().unwrap();
    assert_eq!(
        (violation.field.as_deref(), violation.code),
        (Some("state"), "invalid_input")
    );
    let mut smaller = approval();
    smaller.total_events = Some(20);
    let approved = decide(&fixture, made.id, smaller).await.unwrap();
    assert_eq!(
        (approved.state, approved.total_events),
        (MigrationState::Approved, 20)
    );
    assert_eq!(
        approved.note.as_deref(),
        Some("too much"),
        "it stays until another is given"
    );
    assert!(
        catalog.keys_version().await.unwrap() > counter,
        "caches must notice"
    );
    assert_eq!(finish().await.unwrap().state, MigrationState::Finished);
    assert_eq!(finish().await.unwrap().state, MigrationState::Finished);
    let violation = decide(&fixture, made.id, approval())
        .await
        .unwrap_err()
        .violation()
        .unwrap();
    assert_eq!(violation.code, "invalid_input");
    let entries = fixture.activity(ActivityScope::HistoricalMigration).await;
    assert_eq!(entries.len(), 4, "{entries:?}");
    let unknown = decide(&fixture, Uuid::now_v7(), approval()).await;
    assert!(
        matches!(unknown, Err(ChangeError::NotFound { .. })),
        "{unknown:?}"
    );
}

async fn the_operator_grants_by_project(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let grant = HistoricalGrant {
        project_id: fixture.project_id,
        total_events: 99,
        events_per_minute: 9,
        note: Some("by phone".to_owned()),
    };
    let operator = Actor::command_line();
    let open = request(&fixture).await;
    let granted = HistoricalMigrations::new(catalog)
        .grant(&operator, grant.clone())
        .await
        .unwrap();
    assert_eq!(
        (granted.id, granted.total_events),
        (open.id, 99),
        "the open request is meant"
    );
    let second = HistoricalMigrations::new(catalog)
        .grant(&operator, grant.clone())
        .await
        .unwrap();
    assert_ne!(second.id, open.id);
    assert_eq!(second.state, MigrationState::Approved);
    let all = HistoricalMigrations::new(catalog)
        .list_all(Some(MigrationState::Approved))
        .await
        .unwrap();
    assert_eq!(all.len(), 2);
    let nowhere = HistoricalGrant {
        project_id: millrace_rows::ProjectId(4711),
        ..grant
    };
    let refused = HistoricalMigrations::new(catalog)
        .grant(&operator, nowhere)
        .await;
    assert!(
        matches!(refused, Err(ChangeError::NotFound { .. })),
        "{refused:?}"
    );
}

async fn an_actor_whose_access_ended_meanwhile_changes_nothing(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    let made = request(&fixture).await;
    let new = NewUser {
        email: "mia@example.com".to_owned(),
        ..NewUser::default()
    };
    let mia = Users::new(catalog).create(new).await.unwrap();
    let actor = Actor::user(&mia, None);
    for level in [None, Some(Level::Member), Some(Level::Administrator)] {
        match level {
            None => (),
            Some(Level::Member) => drop(catalog.add_member(id, mia.id, Level::Member).await),
            Some(level) => {
                let set = Members::new(catalog).set_level(&fixture.actor, id, mia.uuid, level);
                set.await.unwrap();
            }
        }
        let asked = HistoricalMigrations::new(catalog).request(&actor, id, new_migration());
        let asked = asked.await.map(drop);
        let finished = HistoricalMigrations::new(catalog).finish(&actor, id, made.id);
        for outcome in [asked, finished.await.map(drop)] {
            let refused = matches!(outcome, Err(ChangeError::Forbidden(_)));
            assert_eq!(refused, level < Some(Level::Administrator), "{outcome:?}");
        }
    }
    Organizations::new(catalog)
        .delete(&fixture.actor, id)
        .await
        .unwrap();
    let late = HistoricalMigrations::new(catalog).request(&fixture.actor, id, new_migration());
    let decided = HistoricalMigrations::new(catalog).decide(&actor, Some(id), made.id, approval());
    for outcome in [late.await, decided.await] {
        let is_gone = matches!(outcome, Err(ChangeError::NotFound { .. }));
        assert!(is_gone, "{outcome:?}");
    }
}
