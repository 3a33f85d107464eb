//! E-mail addresses in several spellings.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ChangeError};
use millrace_organizations::testing::test_env::{TestEnv, field, violation};
use millrace_organizations::{Invites, NewInvite, NewUser, Organizations, Users};

on_both!(
    spellings_of_an_address_are_one_account,
    an_invite_is_mailed_to_the_normal_form_of_its_address,
);
on_both!(empty: addresses_from_older_schemas_are_normalised);

fn user(email: &str) -> NewUser {
    NewUser {
        email: email.to_owned(),
        ..NewUser::default()
    }
}

/// Spellings of one mailbox.
const WRITTEN: [[&str; 4]; 3] = [
    [
        "kay@example.com",
        "\u{212a}ay@example.com",
        "KAY@Example.COM",
        "kay@e\u{ff58}ample.com",
    ],
    [
        "jos\u{e9}@example.com",
        "jose\u{301}@example.com",
        "JOS\u{c9}@example.com",
        "Jose\u{301}@EXAMPLE.com",
    ],
    [
        "a@b\u{fc}cher.example",
        "a@xn--bcher-kva.example",
        "A@BU\u{308}CHER.example",
        "a@XN--bcher-KVA.example",
    ],
];

async fn spellings_of_an_address_are_one_account(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let catalog = &env.catalog;
    for ways in WRITTEN {
        let made = Users::new(catalog).create(user(ways[0])).await.unwrap();
        for way in ways {
            let again = Users::new(catalog).create(user(way)).await;
            assert!(matches!(again, Err(ChangeError::EmailTaken(_))), "{way}");
            let found = Users::new(catalog).by_email(way).await.unwrap();
            assert_eq!(found.as_ref(), Some(&made), "{way}");
        }
    }
    let bad = Users::new(catalog)
        .create(user("a@xn--\u{80}.example"))
        .await;
    assert!(matches!(bad, Err(ChangeError::BadEmail(_))), "{bad:?}");
}

async fn an_invite_is_mailed_to_the_normal_form_of_its_address(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    for ways in WRITTEN {
        let mut last = None;
        for way in ways {
            let sent = Invites::new(&env.catalog)
                .create(&env.owner, env.organization, NewInvite::to(way))
                .await
                .unwrap();
            let record = sent.invite.record;
            // All but its case, which is up to the receiving server.
            assert_eq!(record.target_email.to_lowercase(), record.email_key);
            let key = last.get_or_insert(record.email_key.clone());
            assert_eq!(*key, record.email_key, "{way}");
        }
    }
    let bad = NewInvite::to("a@xn--\u{80}.example");
    let refused = Invites::new(&env.catalog)
        .create(&env.owner, env.organization, bad)
        .await;
    assert_eq!(violation(refused), field("invalid_input", "target_email"));
}

async fn addresses_from_older_schemas_are_normalised(database: TestDatabase) {
    let old = database.open_before("m0040_email_forms").await.unwrap();
    let system = millrace_catalog::Actor::system();
    let acme = Organizations::new(&old).create(&system, "Acme", None).await;
    acme.unwrap();
    old.close().await.unwrap();
    let uuid = millrace_catalog::testing::random_uuid(&database);
    let users = [
        ("a@b\u{fc}cher.example", "a@b\u{fc}cher.example"),
        ("a@xn--bcher-kva.example", "a@xn--bcher-kva.example"),
        ("b@b\u{fc}cher.example", "b@xn--bcher-kva.example"),
        ("jose\u{301}@example.com", "jos\u{e9}@example.com"),
        ("Odd@b..c", "Odd@b..c"),
        ("kay@example.com", "kay@example.com"),
    ];
    for (before, _) in users {
        let row = format!(
            "INSERT INTO users (uuid, distinct_id, email, first_name, last_name, is_active, \
             created_at, updated_at) SELECT {uuid}, 'd', '{before}', '', '', true, 1, 1"
        );
        database.execute(&row).await.unwrap();
    }
    let invites = [
        (
            ("Ann@b\u{fc}cher.example", "ann@b\u{fc}cher.example"),
            ("Ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"),
        ),
        // The invite went to an address that may be another mailbox.
        (
            ("jose\u{301}@example.com", "jose\u{301}@example.com"),
            ("jose\u{301}@example.com", "jos\u{e9}@example.com"),
        ),
        (
            ("\u{212a}ay@example.com", "kay@example.com"),
            ("\u{212a}ay@example.com", "kay@example.com"),
        ),
    ];
    for (number, ((target, key), _)) in invites.iter().enumerate() {
        let row = format!(
            "INSERT INTO organization_invites (id, organization_id, target_email, email_key, \
             first_name, level, private_project_access, emailing_attempt_made, token_hash, \
             expires_at, created_at, updated_at) SELECT {uuid}, id, '{target}', '{key}', '', 1, \
             '[]', true, 'h{number}', 1, {number}, 1 FROM organizations WHERE name = 'Acme'"
        );
        database.execute(&row).await.unwrap();
    }
    Catalog::open(database.url()).await.unwrap();
    let kept = database.first_column("SELECT email FROM users ORDER BY id");
    assert_eq!(kept.await.unwrap(), users.map(|(_, after)| after));
    for (column, expected) in [
        ("target_email", invites.map(|(_, (target, _))| target)),
        ("email_key", invites.map(|(_, (_, key))| key)),
    ] {
        let kept = format!("SELECT {column} FROM organization_invites ORDER BY created_at");
        assert_eq!(database.first_column(&kept).await.unwrap(), expected);
    }
}
