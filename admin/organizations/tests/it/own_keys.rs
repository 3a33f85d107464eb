//! Personal keys that manage other keys of their owner.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, Actor, OrganizationIds, Scopes, UtcTime};
use millrace_organizations::testing::test_env::{
    DAY_MICROS, FIRST, START, TestEnv, actor, blame, field,
};
use millrace_organizations::{
    Caller, CreatedPersonalKey, NewOwnKey, Organizations, OwnKeyChange, PersonalKeys,
};
use uuid::Uuid;

on_both!(
    a_key_lists_its_owners_keys_only,
    a_key_is_changed_field_by_field,
    a_rolled_key_is_refused_and_the_new_value_works,
    a_deleted_key_is_refused,
    a_key_creates_only_keys_that_fit_within_itself,
    a_key_changes_only_keys_that_fit_within_itself,
    the_api_creates_no_operator_keys,
    a_key_is_scoped_to_organizations_of_its_owner_only,
    a_key_that_was_revoked_meanwhile_changes_nothing,
    parallel_creations_stop_at_100,
    an_expired_key_is_revived_only_below_the_limit,
    a_revoked_key_stays_revoked_whatever_changes_it_meanwhile,
    logs_tell_no_organization_of_another_one_of_a_key,
);

fn new_key(scopes: &[&str]) -> NewOwnKey {
    NewOwnKey {
        label: "Made by a key".to_owned(),
        scopes: Scopes::parse(scopes).unwrap(),
        expires_at: None,
        scoped_organizations: None,
    }
}

fn in_days(days: i64) -> UtcTime {
    UtcTime(START.0 + days * DAY_MICROS)
}

async fn made(env: &TestEnv, caller: &Caller, new: NewOwnKey) -> CreatedPersonalKey {
    PersonalKeys::new(&env.catalog)
        .create_own(caller, new)
        .await
        .unwrap()
}

async fn works(env: &TestEnv, key: &CreatedPersonalKey) -> bool {
    let caller = PersonalKeys::new(&env.catalog)
        .authenticate(key.value.expose())
        .await;
    caller.unwrap().is_some()
}

async fn a_key_lists_its_owners_keys_only(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let bob = env.caller(&env.user("bob").await).await;
    let second = made(&env, &ann, new_key(&["role:read"])).await;
    let listed = PersonalKeys::new(&env.catalog)
        .list_own(&ann, FIRST)
        .await
        .unwrap();
    let ids: Vec<_> = listed.rows.iter().map(|key| key.id).collect();
    assert_eq!((listed.count, ids), (2, vec![ann.key_id, second.record.id]));
    let id = second.record.id;
    assert!(
        PersonalKeys::new(&env.catalog)
            .get_own(&ann, id)
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        PersonalKeys::new(&env.catalog)
            .get_own(&bob, id)
            .await
            .unwrap()
            .is_none()
    );
    let refused = PersonalKeys::new(&env.catalog).roll_own(&bob, id).await;
    assert_eq!(blame(refused).0, "not_found");
    let refused = PersonalKeys::new(&env.catalog).delete_own(&bob, id).await;
    assert_eq!(blame(refused).0, "not_found");
}

async fn a_key_is_changed_field_by_field(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let before = made(&env, &ann, new_key(&["role:read"])).await.record;
    let change = OwnKeyChange {
        label: Some(" CI ".to_owned()),
        scopes: Some(Scopes::parse(["plugin:write"]).unwrap()),
        expires_at: Some(Some(in_days(1))),
        scoped_organizations: Some(Some(vec![env.organization, env.organization])),
    };
    let changed = PersonalKeys::new(&env.catalog)
        .update_own(&ann, before.id, change)
        .await;
    let mut expected = before.clone();
    expected.label = "CI".to_owned();
    expected.scopes = Scopes::parse(["plugin:write"]).unwrap();
    expected.expires_at = Some(in_days(1));
    expected.scoped_organizations = Some(OrganizationIds(vec![env.organization]));
    assert_eq!(changed.unwrap(), expected);
    let entry = env.newest_entry().await;
    assert_eq!(
        (entry.scope, entry.activity),
        (ActivityScope::PersonalKey, Activity::Updated)
    );
    assert_eq!(entry.detail.changes.len(), 4);
    let back = OwnKeyChange {
        expires_at: Some(None),
        scoped_organizations: Some(Some(Vec::new())),
        ..OwnKeyChange::default()
    };
    let changed = PersonalKeys::new(&env.catalog)
        .update_own(&ann, before.id, back)
        .await
        .unwrap();
    assert_eq!(
        (changed.expires_at, changed.scoped_organizations),
        (None, None)
    );
    for (label, code) in [("", "blank"), (&*"x".repeat(41), "max_length")] {
        let change = OwnKeyChange {
            label: Some(label.to_owned()),
            ..OwnKeyChange::default()
        };
        let refused = PersonalKeys::new(&env.catalog)
            .update_own(&ann, before.id, change)
            .await;
        assert_eq!(blame(refused), field(code, "label"));
    }
    let change = OwnKeyChange {
        expires_at: Some(Some(in_days(0))),
        ..OwnKeyChange::default()
    };
    let refused = PersonalKeys::new(&env.catalog)
        .update_own(&ann, before.id, change)
        .await;
    assert_eq!(blame(refused), field("invalid_input", "expires_at"));
}

async fn a_rolled_key_is_refused_and_the_new_value_works(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let old = made(&env, &ann, new_key(&["role:read"])).await;
    env.clock.set(START.plus_micros(DAY_MICROS));
    let new = PersonalKeys::new(&env.catalog)
        .roll_own(&ann, old.record.id)
        .await
        .unwrap();
    assert!(!works(&env, &old).await);
    assert!(works(&env, &new).await);
    assert_eq!(new.record.id, old.record.id);
    assert_eq!(new.record.scopes, old.record.scopes);
    assert_eq!(new.record.last_rolled_at, Some(in_days(1)));
    assert_eq!(new.record.mask_value, new.value.mask());
    let entry = serde_json::to_string(&env.newest_entry().await.detail).unwrap();
    assert!(!entry.contains(new.value.expose()), "{entry}");
    // A key may roll itself.
    let own = PersonalKeys::new(&env.catalog)
        .authenticate(new.value.expose())
        .await;
    let own = own.unwrap().unwrap();
    let newest = PersonalKeys::new(&env.catalog)
        .roll_own(&own, own.key_id)
        .await
        .unwrap();
    assert!(!works(&env, &new).await);
    assert!(works(&env, &newest).await);
}

async fn a_deleted_key_is_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let key = made(&env, &ann, new_key(&["role:read"])).await;
    let id = key.record.id;
    PersonalKeys::new(&env.catalog)
        .delete_own(&ann, id)
        .await
        .unwrap();
    assert!(!works(&env, &key).await);
    assert!(
        PersonalKeys::new(&env.catalog)
            .get_own(&ann, id)
            .await
            .unwrap()
            .is_none()
    );
    let again = PersonalKeys::new(&env.catalog).delete_own(&ann, id).await;
    assert_eq!(blame(again).0, "not_found");
}

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
            assert_eq!(blame(made).0, "permission_denied", "{case}");
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
        label: Some("Mine".to_owned()),
        ..OwnKeyChange::default()
    };
    let grow = OwnKeyChange {
        scopes: Some(Scopes::all()),
        ..OwnKeyChange::default()
    };
    let (strong_id, weak_id) = (strong.record.id, weak.record.id);
    let refused = [
        blame(
            PersonalKeys::new(&env.catalog)
                .update_own(&weak_caller, strong_id, rename.clone())
                .await,
        ),
        blame(
            PersonalKeys::new(&env.catalog)
                .update_own(&weak_caller, weak_id, grow)
                .await,
        ),
        blame(
            PersonalKeys::new(&env.catalog)
                .roll_own(&weak_caller, strong_id)
                .await,
        ),
        blame(
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
        assert_eq!(blame(refused).0, "permission_denied");
        let grow = OwnKeyChange {
            scopes: Some(Scopes::parse(["operator", "*"]).unwrap()),
            ..OwnKeyChange::default()
        };
        let refused = PersonalKeys::new(&env.catalog)
            .update_own(caller, all.key_id, grow)
            .await;
        assert_eq!(blame(refused).0, "permission_denied");
    }
    let refused = PersonalKeys::new(&env.catalog)
        .roll_own(&all, operator.key_id)
        .await;
    assert_eq!(blame(refused).0, "permission_denied");
    PersonalKeys::new(&env.catalog)
        .roll_own(&operator, operator.key_id)
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
            blame(refused),
            field("invalid_input", "scoped_organizations")
        );
    }
}

async fn a_key_that_was_revoked_meanwhile_changes_nothing(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    PersonalKeys::new(&env.catalog)
        .delete_own(&ann, ann.key_id)
        .await
        .unwrap();
    let refused = PersonalKeys::new(&env.catalog)
        .create_own(&ann, new_key(&["*"]))
        .await;
    assert_eq!(blame(refused).0, "permission_denied");
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
        expires_at: Some(None),
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
        .find(|key| ![brief, ann.key_id].contains(&key.id));
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
                    label: Some(format!("{turn}")),
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

async fn logs_tell_no_organization_of_another_one_of_a_key(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let second = Organizations::new(&env.catalog).create(&env.owner, "Second", Some(env.ann.id));
    let second = second.await.unwrap().id;
    let first = env.organization;
    let ann = env.caller(&env.ann).await;
    let both = NewOwnKey {
        scoped_organizations: Some(vec![first, second]),
        ..new_key(&["role:read"])
    };
    let id = made(&env, &ann, both).await.record.id;
    let narrow = OwnKeyChange {
        scoped_organizations: Some(Some(vec![second])),
        ..OwnKeyChange::default()
    };
    PersonalKeys::new(&env.catalog)
        .update_own(&ann, id, narrow)
        .await
        .unwrap();
    let entries = env.entries(ActivityScope::PersonalKey).await;
    let told: Vec<_> = entries
        .iter()
        .filter(|entry| entry.item_id == id.to_string())
        .flat_map(|entry| &entry.detail.changes)
        .filter(|change| change.field == "scoped_organizations")
        .map(|change| (change.before.clone(), change.after.clone()))
        .collect();
    let own = serde_json::json!([first]);
    let none = serde_json::json!([]);
    let null = serde_json::Value::Null;
    assert_eq!(told, [(own.clone(), none), (null, own)]);
}
