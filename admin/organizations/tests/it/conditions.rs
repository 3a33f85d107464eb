//! Changes with a condition that concurrent changes may break.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Catalog, CatalogError, ChangeError, ConditionLocks, ConditionOutcome, Patch,
};
use millrace_organizations::testing::test_env::TestEnv;
use millrace_organizations::{OrganizationChange, Organizations};
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    a_broken_condition_changes_nothing,
    only_one_of_concurrent_changes_on_one_condition_succeeds,
    waiting_changes_leave_connections_for_condition_checks,
);

fn renamed(name: &str) -> OrganizationChange {
    OrganizationChange {
        name: Patch::Value(name.to_owned()),
        ..OrganizationChange::default()
    }
}

async fn name_of(catalog: &Catalog, id: Uuid) -> String {
    let found = Organizations::new(catalog).get(id).await.unwrap();
    found.unwrap().name
}

/// Catalog that changes an organization only while it has this name.
fn while_named(catalog: &Catalog, id: Uuid, name: &str) -> Catalog {
    let locks = ConditionLocks {
        organization_id: Some(id),
        ..ConditionLocks::default()
    };
    let name = name.to_owned();
    catalog.clone().on_condition(locks, move |reader| {
        let name = name.clone();
        async move {
            match name_of(&reader, id).await == name {
                true => ConditionOutcome::Holds,
                false => ConditionOutcome::Broken,
            }
        }
    })
}

fn is_broken<T>(outcome: &Result<T, ChangeError>) -> bool {
    let broken = ChangeError::Catalog(CatalogError::ConditionBroken);
    outcome
        .as_ref()
        .is_err_and(|error| error.to_string() == broken.to_string())
}

async fn a_broken_condition_changes_nothing(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, id, owner) = (&env.catalog, env.organization, &env.owner);
    let before = env.entries(None).await.len();
    let other = while_named(catalog, id, "Other");
    let refused = Organizations::new(&other)
        .update(owner, id, renamed("New"))
        .await;
    assert!(is_broken(&refused), "{refused:?}");
    let refused = Organizations::new(&other).delete(owner, id).await;
    assert!(is_broken(&refused), "{refused:?}");
    let unknown = catalog
        .clone()
        .on_condition(ConditionLocks::default(), |_| async {
            ConditionOutcome::Unknown
        });
    let refused = Organizations::new(&unknown)
        .update(owner, id, renamed("New"))
        .await;
    let is_unreachable = matches!(
        refused,
        Err(ChangeError::Catalog(CatalogError::Unreachable { .. }))
    );
    assert!(is_unreachable, "{refused:?}");
    assert_eq!(name_of(catalog, id).await, "Acme");
    assert_eq!(env.entries(None).await.len(), before);
    let acme = while_named(catalog, id, "Acme");
    let changed = Organizations::new(&acme)
        .update(owner, id, renamed("New"))
        .await;
    assert_eq!(changed.unwrap().name, "New");
}

async fn only_one_of_concurrent_changes_on_one_condition_succeeds(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (id, owner) = (env.organization, &env.owner);
    let other = Catalog::open(database.url()).await.unwrap();
    let mut name = "Acme".to_owned();
    for round in 0..20 {
        let mut changes = JoinSet::new();
        for (number, catalog) in [&env.catalog, &other].repeat(3).into_iter().enumerate() {
            let (catalog, owner) = (while_named(catalog, id, &name), owner.clone());
            let new = format!("Name {round} {number}");
            changes.spawn(async move {
                let changed = Organizations::new(&catalog)
                    .update(&owner, id, renamed(&new))
                    .await;
                assert!(changed.is_ok() || is_broken(&changed), "{changed:?}");
                changed.is_ok()
            });
        }
        let made = changes.join_all().await;
        let made = made.into_iter().filter(|made| *made).count();
        assert_eq!(made, 1, "round {round}");
        name = name_of(&other, id).await;
    }
}

/// There are more changes than connections in a pool.
async fn waiting_changes_leave_connections_for_condition_checks(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, id, owner) = (&env.catalog, env.organization, &env.owner);
    let mut changes = JoinSet::new();
    for number in 0..40 {
        let catalog = match number % 2 {
            0 => while_named(catalog, id, "Acme"),
            _ => catalog.clone(),
        };
        let owner = owner.clone();
        changes.spawn(async move {
            let same = OrganizationChange {
                is_member_join_email_enabled: Patch::Value(number % 3 == 0),
                ..OrganizationChange::default()
            };
            Organizations::new(&catalog)
                .update(&owner, id, same)
                .await
                .map(drop)
        });
    }
    for outcome in changes.join_all().await {
        outcome.unwrap();
    }
}
