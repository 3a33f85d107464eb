//! Constraints of a key on the keys that it creates and changes.

use super::{in_days, made, new_key, works};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Patch, Scopes};
use millrace_organizations::testing::test_env::{TestEnv, actor, field, violation};
use millrace_organizations::{NewOwnKey, Organizations, OwnKeyChange, PersonalKeys};
use uuid::Uuid;

on_both!(
    a_key_creates_only_keys_that_fit_within_itself,
    a_key_changes_only_keys_that_fit_within_itself,
    the_api_creates_no_operator_keys,
    a_key_is_scoped_to_organizations_of_its_owner_only,
);

async fn a_key_creates_only_keys_that_fit_within_itself(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (second, owner) = (env.owner.clone(), Some(env.ann.id));
    let second = Organizations::new(&env.catalog)
        .create(&second, "Second", owner)
        .await;
    let second = second.unwrap().id;
    let first = env.organization;
    let narrow = env.caller_with(&env.ann, |key| {
        key.scopes = Scopes::parse(["role:write", "plugin:read"]).unwrap();
        key.expires_at = Some(in_days(10));
        key.scoped_organizations = Some(vec![first]);
    });
    let narrow = narrow.await;
    let table = [
        (vec!["role:write"], Some(10), Some(vec![first]), true),
        (
            vec!["role:read", "plugin:read"],
            Some(1),
            Some(vec![first]),
            true,
        ),
        (vec!["plugin:write"], Some(1), Some(vec![first]), false),
        (vec!["*"], Some(1), Some(vec![first]), false),
        (vec!["role:read"], Some(11), Some(vec![first]), false),
        (vec!["role:read"], None, Some(vec![first]), false),
        (vec!["role:read"], Some(1), Some(vec![second]), false),
        (vec!["role:read"], Some(1), Some(vec![first, second]), false),
        (vec!["role:read"], Some(1), Some(vec![]), false),
        (vec!["role:read"], Some(1), None, false),
    ];
    for (scopes, days, organizations, fits) in table {
        let new = NewOwnKey {
            expires_at: days.map(in_days),
            scoped_organizations: organizations.clone(),
            ..new_key(&scopes)
        };
        let made = PersonalKeys::new(&env.catalog)
            .create_own(&narrow, new)
            .await;
        let case = format!("{scopes:?} {days:?} {organizations:?}");
        if fits {
            assert!(made.is_ok(), "{case}: {made:?}");
        } else {
            assert_eq!(violation(made).0, "permission_denied", "{case}");
        }
    }
}

async fn a_key_changes_only_keys_that_fit_within_itself(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let strong = made(&env, &ann, new_key(&["organization:write"])).await;
    let weak = made(&env, &ann, new_key(&["role:read"])).await;
    let weak_caller = PersonalKeys::new(&env.catalog)
        .authenticate(weak.value.expose())
        .await;
    let weak_caller = weak_caller.unwrap().unwrap();
    let rename = OwnKeyChange {
        label: Patch::Value("Mine".to_owned()),
        ..OwnKeyChange::default()
    };
    let grow = OwnKeyChange {
        scopes: Patch::Value(vec!["*".to_owned()]),
        ..OwnKeyChange::default()
    };
    let (strong_id, weak_id) = (strong.record.id, weak.record.id);
    let refused = [
        violation(
            PersonalKeys::new(&env.catalog)
                .update_own(&weak_caller, strong_id, rename.clone())
                .await,
        ),
        violation(
            PersonalKeys::new(&env.catalog)
                .update_own(&weak_caller, weak_id, grow)
                .await,
        ),
        violation(
            PersonalKeys::new(&env.catalog)
                .roll_own(&weak_caller, strong_id)
                .await,
        ),
        violation(
            PersonalKeys::new(&env.catalog)
                .delete_own(&weak_caller, strong_id)
                .await,
        ),
    ];
    for (code, _) in refused {
        assert_eq!(code, "permission_denied");
    }
    assert!(works(&env, &strong).await);
    let renamed = PersonalKeys::new(&env.catalog)
        .update_own(&weak_caller, weak_id, rename)
        .await;
    assert_eq!(renamed.unwrap().label, "Mine");
}

async fn the_api_creates_no_operator_keys(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let all = env.caller(&env.ann).await;
    let operator = env.caller_with(&env.ann, |key| {
        key.scopes = Scopes::parse(["*", "operator"]).unwrap();
    });
    let operator = operator.await;
    for caller in [&all, &operator] {
        let refused = PersonalKeys::new(&env.catalog)
            .create_own(caller, new_key(&["operator"]))
            .await;
        assert_eq!(violation(refused).0, "permission_denied");
        let grow = OwnKeyChange {
            scopes: Patch::Value(vec!["operator".to_owned(), "*".to_owned()]),
            ..OwnKeyChange::default()
        };
        let refused = PersonalKeys::new(&env.catalog)
            .update_own(caller, all.credential.id(), grow)
            .await;
        assert_eq!(violation(refused).0, "permission_denied");
    }
    let refused = PersonalKeys::new(&env.catalog)
        .roll_own(&all, operator.credential.id())
        .await;
    assert_eq!(violation(refused).0, "permission_denied");
    PersonalKeys::new(&env.catalog)
        .roll_own(&operator, operator.credential.id())
        .await
        .unwrap();
}

async fn a_key_is_scoped_to_organizations_of_its_owner_only(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let bob = env.user("bob").await;
    let (actor, owner) = (actor(&bob), Some(bob.id));
    let theirs = Organizations::new(&env.catalog)
        .create(&actor, "Bob's", owner)
        .await;
    for id in [theirs.unwrap().id, Uuid::now_v7()] {
        let new = NewOwnKey {
            scoped_organizations: Some(vec![env.organization, id]),
            ..new_key(&["role:read"])
        };
        let refused = PersonalKeys::new(&env.catalog).create_own(&ann, new).await;
        assert_eq!(
            violation(refused),
            field("invalid_input", "scoped_organizations")
        );
    }
}
