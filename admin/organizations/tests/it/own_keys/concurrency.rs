//! Limits and revocations under concurrent changes.

use super::{in_days, made, new_key};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Patch};
use millrace_organizations::testing::test_env::{DAY_MICROS, FIRST, START, TestEnv, violation};
use millrace_organizations::{NewOwnKey, OwnKeyChange, PersonalKeys};

on_both!(
    a_key_that_was_revoked_meanwhile_changes_nothing,
    parallel_creations_stop_at_100,
    an_expired_key_is_revived_only_below_the_limit,
    a_revoked_key_stays_revoked_whatever_changes_it_meanwhile,
);

async fn a_key_that_was_revoked_meanwhile_changes_nothing(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    PersonalKeys::new(&env.catalog)
        .delete_own(&ann, ann.credential.id())
        .await
        .unwrap();
    let refused = PersonalKeys::new(&env.catalog)
        .create_own(&ann, new_key(&["*"]))
        .await;
    assert_eq!(violation(refused).0, "permission_denied");
}

async fn parallel_creations_stop_at_100(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    for _ in 0..90 {
        made(&env, &ann, new_key(&["role:read"])).await;
    }
    let making: Vec<_> = (0..20)
        .map(|_| {
            let (catalog, ann) = (env.catalog.clone(), ann.clone());
            tokio::spawn(async move {
                PersonalKeys::new(&catalog)
                    .create_own(&ann, new_key(&["role:read"]))
                    .await
            })
        })
        .collect();
    let mut made = 0;
    for making in making {
        made += usize::from(making.await.unwrap().is_ok());
    }
    assert_eq!(made, 9, "with the caller's own, 91 were there");
}

async fn an_expired_key_is_revived_only_below_the_limit(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let brief = NewOwnKey {
        expires_at: Some(in_days(1)),
        ..new_key(&["role:read"])
    };
    let brief = made(&env, &ann, brief).await.record.id;
    env.clock.set(START.plus_micros(2 * DAY_MICROS));
    for _ in 0..99 {
        made(&env, &ann, new_key(&["role:read"])).await;
    }
    let for_ever = OwnKeyChange {
        expires_at: Patch::Value(None),
        ..OwnKeyChange::default()
    };
    let refused = PersonalKeys::new(&env.catalog).update_own(&ann, brief, for_ever.clone());
    assert!(refused.await.is_err());
    let some = PersonalKeys::new(&env.catalog)
        .list_own(&ann, FIRST)
        .await
        .unwrap()
        .rows;
    let other = some
        .iter()
        .find(|key| ![brief, ann.credential.id()].contains(&key.id));
    let other = other.unwrap().id;
    PersonalKeys::new(&env.catalog)
        .delete_own(&ann, other)
        .await
        .unwrap();
    let back = PersonalKeys::new(&env.catalog)
        .update_own(&ann, brief, for_ever)
        .await;
    assert_eq!(back.unwrap().expires_at, None);
}

async fn a_revoked_key_stays_revoked_whatever_changes_it_meanwhile(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    for round in 0..20 {
        let id = made(&env, &ann, new_key(&["role:read"])).await.record.id;
        let (catalog, caller) = (env.catalog.clone(), ann.clone());
        let changing = tokio::spawn(async move {
            let mut turn = 0;
            loop {
                turn += 1;
                let change = OwnKeyChange {
                    label: Patch::Value(format!("{turn}")),
                    ..OwnKeyChange::default()
                };
                if PersonalKeys::new(&catalog)
                    .update_own(&caller, id, change)
                    .await
                    .is_err()
                    || PersonalKeys::new(&catalog)
                        .roll_own(&caller, id)
                        .await
                        .is_err()
                {
                    return;
                }
            }
        });
        let (operator, text) = (Actor::command_line(), id.to_string());
        let revoked = PersonalKeys::new(&env.catalog).revoke(&operator, &text);
        revoked.await.unwrap();
        changing.await.unwrap();
        let left = PersonalKeys::new(&env.catalog)
            .get_own(&ann, id)
            .await
            .unwrap();
        assert_eq!(left, None, "round {round}");
    }
}
