//! Personal keys that manage one another.

use crate::stand::{DAY_MICROS, FIRST, START, Stand, actor, blame, field};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, Actor, Caller, CreatedPersonalKey, NewOwnKey, OrganizationIds,
    OwnKeyChange, Scopes, UtcTime,
};
use uuid::Uuid;

on_both!(
    a_key_lists_its_owners_keys_only,
    a_key_is_changed_field_by_field,
    a_rolled_key_is_dead_and_the_new_value_works,
    a_deleted_key_is_dead,
    a_key_makes_only_keys_that_fit_within_itself,
    a_key_touches_only_keys_that_fit_within_itself,
    nobody_makes_an_operator_through_the_api,
    organizations_of_a_key_are_its_owners,
    a_key_that_was_revoked_meanwhile_changes_nothing,
    parallel_creations_stop_at_100,
    an_expired_key_comes_back_only_where_there_is_room,
    a_key_that_is_revoked_stays_so_whatever_changes_it_meanwhile,
    no_organization_is_told_of_another_one_of_a_key,
);

fn wish(scopes: &[&str]) -> NewOwnKey {
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

async fn made(stand: &Stand, caller: &Caller, new: NewOwnKey) -> CreatedPersonalKey {
    stand.catalog.create_own_key(caller, new).await.unwrap()
}

async fn works(stand: &Stand, key: &CreatedPersonalKey) -> bool {
    let caller = stand.catalog.authenticate(key.value.expose()).await;
    caller.unwrap().is_some()
}

async fn a_key_lists_its_owners_keys_only(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    let bob = stand.caller(&stand.user("bob").await).await;
    let second = made(&stand, &ann, wish(&["role:read"])).await;
    let listed = stand.catalog.own_keys(&ann, FIRST).await.unwrap();
    let ids: Vec<_> = listed.rows.iter().map(|key| key.id).collect();
    assert_eq!((listed.count, ids), (2, vec![ann.key_id, second.record.id]));
    let id = second.record.id;
    assert!(stand.catalog.own_key(&ann, id).await.unwrap().is_some());
    assert!(stand.catalog.own_key(&bob, id).await.unwrap().is_none());
    let refused = stand.catalog.roll_own_key(&bob, id).await;
    assert_eq!(blame(refused).0, "not_found");
    let refused = stand.catalog.delete_own_key(&bob, id).await;
    assert_eq!(blame(refused).0, "not_found");
}

async fn a_key_is_changed_field_by_field(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    let before = made(&stand, &ann, wish(&["role:read"])).await.record;
    let change = OwnKeyChange {
        label: Some(" CI ".to_owned()),
        scopes: Some(Scopes::parse(["plugin:write"]).unwrap()),
        expires_at: Some(Some(in_days(1))),
        scoped_organizations: Some(Some(vec![stand.organization, stand.organization])),
    };
    let changed = stand.catalog.update_own_key(&ann, before.id, change).await;
    let mut expected = before.clone();
    expected.label = "CI".to_owned();
    expected.scopes = Scopes::parse(["plugin:write"]).unwrap();
    expected.expires_at = Some(in_days(1));
    expected.scoped_organizations = Some(OrganizationIds(vec![stand.organization]));
    assert_eq!(changed.unwrap(), expected);
    let entry = stand.newest_entry().await;
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
    let changed = stand
        .catalog
        .update_own_key(&ann, before.id, back)
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
        let refused = stand.catalog.update_own_key(&ann, before.id, change).await;
        assert_eq!(blame(refused), field(code, "label"));
    }
    let change = OwnKeyChange {
        expires_at: Some(Some(in_days(0))),
        ..OwnKeyChange::default()
    };
    let refused = stand.catalog.update_own_key(&ann, before.id, change).await;
    assert_eq!(blame(refused), field("invalid_input", "expires_at"));
}

async fn a_rolled_key_is_dead_and_the_new_value_works(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    let old = made(&stand, &ann, wish(&["role:read"])).await;
    stand.clock.set(START.plus_micros(DAY_MICROS));
    let new = stand
        .catalog
        .roll_own_key(&ann, old.record.id)
        .await
        .unwrap();
    assert!(!works(&stand, &old).await);
    assert!(works(&stand, &new).await);
    assert_eq!(new.record.id, old.record.id);
    assert_eq!(new.record.scopes, old.record.scopes);
    assert_eq!(new.record.last_rolled_at, Some(in_days(1)));
    assert_eq!(new.record.mask_value, new.value.mask());
    let entry = serde_json::to_string(&stand.newest_entry().await.detail).unwrap();
    assert!(!entry.contains(new.value.expose()), "{entry}");
    // A key may roll itself.
    let own = stand.catalog.authenticate(new.value.expose()).await;
    let own = own.unwrap().unwrap();
    let newest = stand.catalog.roll_own_key(&own, own.key_id).await.unwrap();
    assert!(!works(&stand, &new).await);
    assert!(works(&stand, &newest).await);
}

async fn a_deleted_key_is_dead(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    let key = made(&stand, &ann, wish(&["role:read"])).await;
    let id = key.record.id;
    stand.catalog.delete_own_key(&ann, id).await.unwrap();
    assert!(!works(&stand, &key).await);
    assert!(stand.catalog.own_key(&ann, id).await.unwrap().is_none());
    let again = stand.catalog.delete_own_key(&ann, id).await;
    assert_eq!(blame(again).0, "not_found");
}

async fn a_key_makes_only_keys_that_fit_within_itself(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (second, owner) = (stand.owner.clone(), Some(stand.ann.id));
    let second = stand
        .catalog
        .create_organization(&second, "Second", owner)
        .await;
    let second = second.unwrap().id;
    let first = stand.organization;
    let narrow = stand.caller_with(&stand.ann, |key| {
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
            ..wish(&scopes)
        };
        let made = stand.catalog.create_own_key(&narrow, new).await;
        let case = format!("{scopes:?} {days:?} {organizations:?}");
        if fits {
            assert!(made.is_ok(), "{case}: {made:?}");
        } else {
            assert_eq!(blame(made).0, "permission_denied", "{case}");
        }
    }
}

async fn a_key_touches_only_keys_that_fit_within_itself(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    let strong = made(&stand, &ann, wish(&["organization:write"])).await;
    let weak = made(&stand, &ann, wish(&["role:read"])).await;
    let weak_caller = stand.catalog.authenticate(weak.value.expose()).await;
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
            stand
                .catalog
                .update_own_key(&weak_caller, strong_id, rename.clone())
                .await,
        ),
        blame(
            stand
                .catalog
                .update_own_key(&weak_caller, weak_id, grow)
                .await,
        ),
        blame(stand.catalog.roll_own_key(&weak_caller, strong_id).await),
        blame(stand.catalog.delete_own_key(&weak_caller, strong_id).await),
    ];
    for (code, _) in refused {
        assert_eq!(code, "permission_denied");
    }
    assert!(works(&stand, &strong).await);
    let renamed = stand
        .catalog
        .update_own_key(&weak_caller, weak_id, rename)
        .await;
    assert_eq!(renamed.unwrap().label, "Mine");
}

async fn nobody_makes_an_operator_through_the_api(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let all = stand.caller(&stand.ann).await;
    let operator = stand.caller_with(&stand.ann, |key| {
        key.scopes = Scopes::parse(["*", "operator"]).unwrap();
    });
    let operator = operator.await;
    for caller in [&all, &operator] {
        let refused = stand
            .catalog
            .create_own_key(caller, wish(&["operator"]))
            .await;
        assert_eq!(blame(refused).0, "permission_denied");
        let grow = OwnKeyChange {
            scopes: Some(Scopes::parse(["operator", "*"]).unwrap()),
            ..OwnKeyChange::default()
        };
        let refused = stand.catalog.update_own_key(caller, all.key_id, grow).await;
        assert_eq!(blame(refused).0, "permission_denied");
    }
    let refused = stand.catalog.roll_own_key(&all, operator.key_id).await;
    assert_eq!(blame(refused).0, "permission_denied");
    stand
        .catalog
        .roll_own_key(&operator, operator.key_id)
        .await
        .unwrap();
}

async fn organizations_of_a_key_are_its_owners(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    let bob = stand.user("bob").await;
    let (actor, owner) = (actor(&bob), Some(bob.id));
    let theirs = stand
        .catalog
        .create_organization(&actor, "Bob's", owner)
        .await;
    for id in [theirs.unwrap().id, Uuid::now_v7()] {
        let new = NewOwnKey {
            scoped_organizations: Some(vec![stand.organization, id]),
            ..wish(&["role:read"])
        };
        let refused = stand.catalog.create_own_key(&ann, new).await;
        assert_eq!(
            blame(refused),
            field("invalid_input", "scoped_organizations")
        );
    }
}

async fn a_key_that_was_revoked_meanwhile_changes_nothing(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    stand
        .catalog
        .delete_own_key(&ann, ann.key_id)
        .await
        .unwrap();
    let refused = stand.catalog.create_own_key(&ann, wish(&["*"])).await;
    assert_eq!(blame(refused).0, "permission_denied");
}

async fn parallel_creations_stop_at_100(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    for _ in 0..90 {
        made(&stand, &ann, wish(&["role:read"])).await;
    }
    let making: Vec<_> = (0..20)
        .map(|_| {
            let (catalog, ann) = (stand.catalog.clone(), ann.clone());
            tokio::spawn(async move { catalog.create_own_key(&ann, wish(&["role:read"])).await })
        })
        .collect();
    let mut made = 0;
    for making in making {
        made += usize::from(making.await.unwrap().is_ok());
    }
    assert_eq!(made, 9, "with the caller's own, 91 were there");
}

async fn an_expired_key_comes_back_only_where_there_is_room(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    let brief = NewOwnKey {
        expires_at: Some(in_days(1)),
        ..wish(&["role:read"])
    };
    let brief = made(&stand, &ann, brief).await.record.id;
    stand.clock.set(START.plus_micros(2 * DAY_MICROS));
    for _ in 0..99 {
        made(&stand, &ann, wish(&["role:read"])).await;
    }
    let for_ever = OwnKeyChange {
        expires_at: Some(None),
        ..OwnKeyChange::default()
    };
    let refused = stand.catalog.update_own_key(&ann, brief, for_ever.clone());
    assert!(refused.await.is_err());
    let some = stand.catalog.own_keys(&ann, FIRST).await.unwrap().rows;
    let other = some
        .iter()
        .find(|key| ![brief, ann.key_id].contains(&key.id));
    let other = other.unwrap().id;
    stand.catalog.delete_own_key(&ann, other).await.unwrap();
    let back = stand.catalog.update_own_key(&ann, brief, for_ever).await;
    assert_eq!(back.unwrap().expires_at, None);
}

async fn a_key_that_is_revoked_stays_so_whatever_changes_it_meanwhile(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let ann = stand.caller(&stand.ann).await;
    for round in 0..20 {
        let id = made(&stand, &ann, wish(&["role:read"])).await.record.id;
        let (catalog, caller) = (stand.catalog.clone(), ann.clone());
        let changing = tokio::spawn(async move {
            let mut turn = 0;
            loop {
                turn += 1;
                let change = OwnKeyChange {
                    label: Some(format!("{turn}")),
                    ..OwnKeyChange::default()
                };
                if catalog.update_own_key(&caller, id, change).await.is_err()
                    || catalog.roll_own_key(&caller, id).await.is_err()
                {
                    return;
                }
            }
        });
        let (operator, text) = (Actor::command_line(), id.to_string());
        let revoked = stand.catalog.revoke_personal_key(&operator, &text);
        revoked.await.unwrap();
        changing.await.unwrap();
        let left = stand.catalog.own_key(&ann, id).await.unwrap();
        assert_eq!(left, None, "round {round}");
    }
}

async fn no_organization_is_told_of_another_one_of_a_key(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let second = stand
        .catalog
        .create_organization(&stand.owner, "Second", Some(stand.ann.id));
    let second = second.await.unwrap().id;
    let first = stand.organization;
    let ann = stand.caller(&stand.ann).await;
    let both = NewOwnKey {
        scoped_organizations: Some(vec![first, second]),
        ..wish(&["role:read"])
    };
    let id = made(&stand, &ann, both).await.record.id;
    let narrow = OwnKeyChange {
        scoped_organizations: Some(Some(vec![second])),
        ..OwnKeyChange::default()
    };
    stand
        .catalog
        .update_own_key(&ann, id, narrow)
        .await
        .unwrap();
    let entries = stand.entries(ActivityScope::PersonalKey).await;
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
