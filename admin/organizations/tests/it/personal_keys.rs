//! Personal keys of the operator: creation, expiry and revocation.

use millrace_catalog::key::PersonalKey;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Catalog, ChangeError, Scopes, UtcTime};
use millrace_organizations::{BootstrapOptions, NewPersonalKey, PersonalKeys, bootstrap};
use millrace_rows::{Micros, TestClock};
use std::sync::Arc;

const HOUR_MICROS: i64 = 3_600_000_000;
const START: Micros = Micros(1_800_000_000_000_000);

on_both!(
    a_key_works_until_it_is_revoked,
    a_key_works_until_it_expires,
    the_time_of_last_use_is_written_at_most_hourly,
    malformed_keys_are_refused,
    a_user_has_at_most_100_keys,
);

async fn open(database: &TestDatabase) -> (Catalog, TestClock) {
    let clock = TestClock::at(START);
    let catalog = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()))
        .await
        .unwrap();
    bootstrap(&catalog, BootstrapOptions::default())
        .await
        .unwrap()
        .unwrap();
    (catalog, clock)
}

fn new_key() -> NewPersonalKey {
    NewPersonalKey {
        email: "owner@localhost".to_owned(),
        label: "Terraform".to_owned(),
        scopes: Scopes::parse(["organization:read", "plugin:write"]).unwrap(),
        expires_at: None,
        scoped_organizations: None,
    }
}

async fn a_key_works_until_it_is_revoked(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    let by_id = PersonalKeys::new(&catalog)
        .create(&Actor::system(), new_key())
        .await
        .unwrap();
    let by_value = PersonalKeys::new(&catalog)
        .create(&Actor::system(), new_key())
        .await
        .unwrap();
    assert_eq!(by_id.record.mask_value, by_id.value.mask());
    assert_ne!(by_id.record.key_hash, by_id.value.expose());
    let revocations = [
        (&by_id, by_id.record.id.to_string()),
        (&by_value, by_value.value.expose().to_owned()),
    ];
    for (key, name) in revocations {
        let caller = PersonalKeys::new(&catalog)
            .authenticate(key.value.expose())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(caller.credential.id(), key.record.id);
        assert_eq!(
            caller.scopes.as_slice(),
            ["organization:read", "plugin:write"]
        );
        assert!(
            PersonalKeys::new(&catalog)
                .revoke(&Actor::system(), &name)
                .await
                .unwrap()
                .revoked_at
                .is_some()
        );
        assert!(
            PersonalKeys::new(&catalog)
                .authenticate(key.value.expose())
                .await
                .unwrap()
                .is_none()
        );
        let error = PersonalKeys::new(&catalog)
            .revoke(&Actor::system(), &name)
            .await
            .unwrap_err();
        assert!(matches!(error, ChangeError::NotFound { .. }), "{error:?}");
        assert!(!error.to_string().contains(key.value.expose()));
    }
    assert_eq!(
        PersonalKeys::new(&catalog).list(None).await.unwrap().len(),
        1
    );
    let unknown = PersonalKey::generate().unwrap();
    for wrong in [unknown.expose(), "phx_short", "", "phc_project"] {
        assert!(
            PersonalKeys::new(&catalog)
                .authenticate(wrong)
                .await
                .unwrap()
                .is_none(),
            "{wrong}"
        );
    }
}

async fn a_key_works_until_it_expires(database: TestDatabase) {
    let (catalog, clock) = open(&database).await;
    let mut new = new_key();
    new.expires_at = Some(UtcTime(START.0 + HOUR_MICROS));
    let key = PersonalKeys::new(&catalog)
        .create(&Actor::system(), new.clone())
        .await
        .unwrap();
    for (at, works) in [(0, true), (HOUR_MICROS - 1, true), (HOUR_MICROS, false)] {
        clock.set(START.plus_micros(at));
        let caller = PersonalKeys::new(&catalog)
            .authenticate(key.value.expose())
            .await
            .unwrap();
        assert_eq!(caller.is_some(), works, "after {at} µs");
    }
    let error = PersonalKeys::new(&catalog)
        .create(&Actor::system(), new)
        .await
        .unwrap_err();
    assert!(matches!(error, ChangeError::Expired), "{error:?}");
}

async fn the_time_of_last_use_is_written_at_most_hourly(database: TestDatabase) {
    let (catalog, clock) = open(&database).await;
    let key = PersonalKeys::new(&catalog)
        .create(&Actor::system(), new_key())
        .await
        .unwrap();
    assert_eq!(key.record.last_used_at, None);
    for (at, written) in [(1, 1), (HOUR_MICROS, 1), (HOUR_MICROS + 1, HOUR_MICROS + 1)] {
        clock.set(START.plus_micros(at));
        PersonalKeys::new(&catalog)
            .authenticate(key.value.expose())
            .await
            .unwrap()
            .unwrap();
        let kept = PersonalKeys::new(&catalog)
            .list(Some(key.record.user_id))
            .await
            .unwrap();
        let kept = kept.iter().find(|kept| kept.id == key.record.id).unwrap();
        assert_eq!(
            kept.last_used_at,
            Some(UtcTime(START.0 + written)),
            "after {at} µs"
        );
    }
}

async fn malformed_keys_are_refused(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    let unknown_user = NewPersonalKey {
        email: "nobody@localhost".to_owned(),
        ..new_key()
    };
    let error = PersonalKeys::new(&catalog)
        .create(&Actor::system(), unknown_user)
        .await
        .unwrap_err();
    assert!(
        matches!(error, ChangeError::NotFound { what: "user", .. }),
        "{error:?}"
    );
    for label in ["", &"x".repeat(41)] {
        let new = NewPersonalKey {
            label: label.to_owned(),
            ..new_key()
        };
        let error = PersonalKeys::new(&catalog)
            .create(&Actor::system(), new)
            .await
            .unwrap_err();
        assert!(matches!(error, ChangeError::BadName { .. }), "{error:?}");
    }
    let error = PersonalKeys::new(&catalog)
        .revoke(&Actor::system(), "phx_garbage")
        .await
        .unwrap_err();
    assert!(matches!(error, ChangeError::BadKey(_)), "{error:?}");
}

async fn a_user_has_at_most_100_keys(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for _ in 1..100 {
        PersonalKeys::new(&catalog)
            .create(&Actor::system(), new_key())
            .await
            .unwrap();
    }
    let error = PersonalKeys::new(&catalog)
        .create(&Actor::system(), new_key())
        .await
        .unwrap_err();
    assert!(matches!(error, ChangeError::TooManyKeys(100)), "{error:?}");
    let first = PersonalKeys::new(&catalog).list(None).await.unwrap()[0].id;
    PersonalKeys::new(&catalog)
        .revoke(&Actor::system(), &first.to_string())
        .await
        .unwrap();
    PersonalKeys::new(&catalog)
        .create(&Actor::system(), new_key())
        .await
        .unwrap();
}
