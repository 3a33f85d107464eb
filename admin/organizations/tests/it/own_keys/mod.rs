//! Personal keys that manage other keys of their owner.

mod concurrency;
mod constraints;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, OrganizationIds, Patch, Scopes, UtcTime};
use millrace_organizations::testing::test_env::{
    DAY_MICROS, FIRST, START, TestEnv, field, violation,
};
use millrace_organizations::{
    Caller, CreatedPersonalKey, NewOwnKey, Organizations, OwnKeyChange, PersonalKeys,
};

on_both!(
    a_key_lists_its_owners_keys_only,
    a_key_is_changed_field_by_field,
    a_rolled_key_is_refused_and_the_new_value_works,
    a_deleted_key_is_refused,
    logs_tell_no_organization_of_another_one_of_a_key,
);

fn new_key(scopes: &[&str]) -> NewOwnKey {
    NewOwnKey {
        label: "Made by a key".to_owned(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
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
    assert_eq!(
        (listed.count, ids),
        (2, vec![ann.credential.id(), second.record.id])
    );
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
    assert_eq!(violation(refused).0, "not_found");
    let refused = PersonalKeys::new(&env.catalog).delete_own(&bob, id).await;
    assert_eq!(violation(refused).0, "not_found");
}

async fn a_key_is_changed_field_by_field(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let before = made(&env, &ann, new_key(&["role:read"])).await.record;
    let change = OwnKeyChange {
        label: Patch::Value(" CI ".to_owned()),
        scopes: Patch::Value(vec!["plugin:write".to_owned()]),
        expires_at: Patch::Value(Some(in_days(1))),
        scoped_organizations: Patch::Value(Some(vec![env.organization, env.organization])),
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
        expires_at: Patch::Value(None),
        scoped_organizations: Patch::Value(Some(Vec::new())),
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
            label: Patch::Value(label.to_owned()),
            ..OwnKeyChange::default()
        };
        let refused = PersonalKeys::new(&env.catalog)
            .update_own(&ann, before.id, change)
            .await;
        assert_eq!(violation(refused), field(code, "label"));
    }
    let change = OwnKeyChange {
        expires_at: Patch::Value(Some(in_days(0))),
        ..OwnKeyChange::default()
    };
    let refused = PersonalKeys::new(&env.catalog)
        .update_own(&ann, before.id, change)
        .await;
    assert_eq!(violation(refused), field("invalid_input", "expires_at"));
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
        .roll_own(&own, own.credential.id())
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
    assert_eq!(violation(again).0, "not_found");
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
        scoped_organizations: Patch::Value(Some(vec![second])),
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
