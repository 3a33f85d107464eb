//! Invites: permissions, lists, links.

use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{
    Activity, ActivityScope, Actor, Level, PageRequest, ProjectAccess, ProjectAccessLevel,
};
use millrace_organizations::testing::test_env::{
    DAY_MICROS, FIRST, START, TestEnv, actor, blame, field,
};
use millrace_organizations::{
    Invites, Members, NewInvite, NewProject, Organizations, Projects, SentInvite,
};
use millrace_rows::{Clock, Micros};
use uuid::Uuid;

on_both!(
    an_invite_is_stored_without_its_token,
    malformed_invites_are_refused,
    nobody_invites_above_their_own_level,
    projects_of_an_invite_are_the_organizations_with_levels_up_to_the_inviters,
    an_older_invite_of_the_address_is_replaced,
    nobody_replaces_an_invite_above_their_own_level,
    bulk_invites_are_all_or_nothing_and_name_the_item_at_fault,
    invites_expire_after_three_days_and_stay_listed,
    a_new_link_invalidates_the_old_one,
    any_member_deletes_an_invite_and_its_link_stops_working,
    a_demoted_member_loses_invites_above_the_new_level,
    a_list_of_1000_invites_takes_three_statements,
);

async fn invite(env: &TestEnv, by: &Actor, new: NewInvite) -> SentInvite {
    let made = Invites::new(&env.catalog)
        .create(by, env.organization, new)
        .await;
    made.unwrap()
}

async fn is_open(env: &TestEnv, sent: &SentInvite) -> bool {
    let open = Invites::new(&env.catalog).open(sent.token.expose()).await;
    open.unwrap().is_some()
}

async fn an_invite_is_stored_without_its_token(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let new = NewInvite {
        first_name: " Bob ".to_owned(),
        level: Level::Administrator,
        message: Some("Welcome".to_owned()),
        emailing_attempt_made: true,
        ..NewInvite::to(" Bob.Smith@Example.COM ")
    };
    let sent = invite(&env, &env.owner, new).await;
    let kept = &sent.invite.record;
    assert_eq!(kept.target_email, "Bob.Smith@example.com");
    assert_eq!(kept.email_key, "bob.smith@example.com");
    assert_eq!(
        (&*kept.first_name, kept.level),
        ("Bob", Level::Administrator)
    );
    assert_eq!(kept.message.as_deref(), Some("Welcome"));
    assert!(kept.emailing_attempt_made);
    assert_eq!(kept.expires_at.0, START.0 + 3 * DAY_MICROS);
    assert_eq!(sent.invite.created_by.as_ref(), Some(&env.ann));
    assert_eq!(sent.organization.name, "Acme");
    assert_ne!(kept.token_hash, sent.token.expose());
    let entry = env.newest_entry().await;
    assert_eq!(
        (entry.scope, entry.activity),
        (ActivityScope::Invite, Activity::Created)
    );
    assert_eq!(entry.item_id, kept.id.to_string());
    let text = serde_json::to_string(&entry.detail).unwrap();
    assert!(
        !text.contains(sent.token.expose()) && !text.contains(&kept.token_hash),
        "{text}"
    );
    let listed = Invites::new(&env.catalog)
        .list(env.organization, FIRST)
        .await
        .unwrap();
    assert_eq!((listed.count, &listed.rows[0]), (1, &sent.invite));
    let open = Invites::new(&env.catalog)
        .open(sent.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&open.record, &*open.organization_name), (kept, "Acme"));
    for wrong in ["", "x", &kept.id.to_string(), &kept.token_hash] {
        assert!(
            Invites::new(&env.catalog)
                .open(wrong)
                .await
                .unwrap()
                .is_none(),
            "{wrong}"
        );
    }
}

async fn malformed_invites_are_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let invalid = |name| field("invalid_input", name);
    let table = [
        (NewInvite::to(""), field("blank", "target_email")),
        (NewInvite::to("bob"), invalid("target_email")),
        (NewInvite::to("a@b\r\nBcc: c@d"), invalid("target_email")),
        (
            NewInvite::to("Bob <bob@example.com>"),
            invalid("target_email"),
        ),
        (NewInvite::to("a@b,c@d"), invalid("target_email")),
        (NewInvite::to("Ann@EXAMPLE.com"), ("invalid_input", None)),
        (
            NewInvite {
                first_name: "x".repeat(31),
                ..NewInvite::to("bob@example.com")
            },
            field("max_length", "first_name"),
        ),
        (
            NewInvite {
                message: Some("x".repeat(2001)),
                ..NewInvite::to("bob@example.com")
            },
            field("max_length", "message"),
        ),
    ];
    for (new, expected) in table {
        let refused = Invites::new(&env.catalog)
            .create(&env.owner, env.organization, new)
            .await;
        assert_eq!(blame(refused), expected);
    }
    let listed = Invites::new(&env.catalog)
        .list(env.organization, FIRST)
        .await
        .unwrap();
    assert_eq!(listed.count, 0);
}

async fn nobody_invites_above_their_own_level(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let member = env.user("member").await;
    catalog
        .add_member(here, member.id, Level::Member)
        .await
        .unwrap();
    let admin = env.user("admin").await;
    catalog
        .add_member(here, admin.id, Level::Administrator)
        .await
        .unwrap();
    let stranger = env.user("stranger").await;
    let table = [
        (actor(&member), Level::Member, true),
        (actor(&member), Level::Administrator, false),
        (actor(&admin), Level::Administrator, true),
        (actor(&admin), Level::Owner, false),
        (env.owner.clone(), Level::Owner, true),
        (Actor::command_line(), Level::Owner, true),
        (actor(&stranger), Level::Member, false),
    ];
    for (number, (by, level, allowed)) in table.into_iter().enumerate() {
        let new = NewInvite {
            level,
            ..NewInvite::to(&format!("new{number}@example.com"))
        };
        let made = Invites::new(catalog).create(&by, here, new).await;
        if allowed {
            let sent = made.unwrap();
            // Nor does a new link hand out a level above one's own.
            let (id, member) = (sent.invite.record.id, actor(&member));
            let again = Invites::new(catalog).resend(&member, here, id, true).await;
            assert_eq!(again.is_ok(), level == Level::Member, "case {number}");
        } else {
            assert_eq!(blame(made).0, "permission_denied", "case {number}");
        }
    }
}

async fn projects_of_an_invite_are_the_organizations_with_levels_up_to_the_inviters(
    database: TestDatabase,
) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let own = Projects::new(catalog)
        .list_all(Some(here))
        .await
        .unwrap()
        .remove(0)
        .id;
    let other = Organizations::new(catalog)
        .create(&env.owner, "Other", None)
        .await
        .unwrap();
    let foreign = NewProject::named("Foreign");
    let foreign = Projects::new(catalog)
        .create(&Actor::command_line(), other.id, foreign)
        .await;
    let foreign = foreign.unwrap().id;
    let member = env.user("member").await;
    catalog
        .add_member(here, member.id, Level::Member)
        .await
        .unwrap();
    let (ann, member) = (env.owner.clone(), actor(&member));
    let number = ProjectAccessLevel::Number;
    let word = |word: &str| ProjectAccessLevel::Word(word.to_owned());
    let table = [
        (&ann, own, number(1), true),
        (&ann, own, number(8), true),
        (&ann, own, word("admin"), true),
        (&member, own, word("member"), true),
        (&member, own, word("admin"), false),
        (&member, own, number(8), false),
        (&ann, own, number(15), false),
        (&ann, own, word("owner"), false),
        (&ann, foreign, number(1), false),
        (&ann, 4711, number(1), false),
    ];
    for (by, id, level, allowed) in table {
        let access = vec![ProjectAccess { id, level }];
        let new = NewInvite {
            private_project_access: access.clone(),
            ..NewInvite::to("bob@example.com")
        };
        let made = Invites::new(catalog).create(by, here, new).await;
        if allowed {
            assert_eq!(made.unwrap().invite.record.private_project_access.0, access);
        } else {
            assert_eq!(
                blame(made),
                field("invalid_input", "private_project_access")
            );
        }
    }
}

async fn an_older_invite_of_the_address_is_replaced(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let older = invite(&env, &env.owner, NewInvite::to("bob@example.com")).await;
    let newer = invite(&env, &env.owner, NewInvite::to("BOB@example.com")).await;
    assert_ne!(newer.invite.record.id, older.invite.record.id);
    assert!(!is_open(&env, &older).await);
    assert!(is_open(&env, &newer).await);
    let listed = Invites::new(&env.catalog)
        .list(env.organization, FIRST)
        .await
        .unwrap();
    assert_eq!(listed.count, 1);
}

async fn nobody_replaces_an_invite_above_their_own_level(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let mut people = vec![(env.owner.clone(), Level::Owner)];
    for (name, level) in [("adam", Level::Administrator), ("mia", Level::Member)] {
        let user = env.user(name).await;
        catalog.add_member(here, user.id, level).await.unwrap();
        people.push((actor(&user), level));
    }
    people.reverse();
    let at = |level| NewInvite {
        level,
        ..NewInvite::to("bob@example.com")
    };
    for level in [Level::Member, Level::Administrator, Level::Owner] {
        let mut older = invite(&env, &env.owner, at(level)).await;
        for days in [0, 4] {
            // Expired ones can be sent again, so lower levels must not replace them either.
            let later = Micros(env.clock.now().0 + days * DAY_MICROS);
            env.clock.set(later);
            for (by, own) in &people {
                let case = format!("{own} over {level}, {days} days old");
                let member = at(Level::Member);
                let one = Invites::new(catalog).create(by, here, member.clone()).await;
                let many = Invites::new(catalog)
                    .create_all(by, here, vec![member])
                    .await;
                let is_allowed = *own >= level;
                assert_eq!(
                    (one.is_ok(), many.is_ok()),
                    (is_allowed, is_allowed),
                    "{case}"
                );
                if is_allowed {
                    older = invite(&env, &env.owner, at(level)).await;
                } else {
                    assert_eq!(blame(one).0, "permission_denied", "{case}");
                    let refused = many.unwrap_err().to_string();
                    assert!(refused.contains("above yours"), "{case}: {refused}");
                }
            }
            let listed = Invites::new(catalog).list(here, FIRST).await.unwrap();
            assert_eq!(listed.rows.len(), 1, "{level}");
            assert_eq!(listed.rows[0].record.id, older.invite.record.id);
        }
        let id = older.invite.record.id;
        Invites::new(catalog)
            .delete(&env.owner, here, id)
            .await
            .unwrap();
    }
}

async fn bulk_invites_are_all_or_nothing_and_name_the_item_at_fault(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let invites = Invites::new(catalog);
    let good = |count: usize| -> Vec<NewInvite> {
        let addresses = (0..count).map(|number| format!("new{number}@example.com"));
        addresses.map(|address| NewInvite::to(&address)).collect()
    };
    let with = |new: NewInvite| {
        let mut all = good(5);
        all[4] = new;
        all
    };
    let unknown = ProjectAccess {
        id: 4711,
        level: ProjectAccessLevel::Number(1),
    };
    let table = [
        (good(21), ("max_length", None)),
        (
            with(NewInvite::to("x")),
            field("invalid_input", "4__target_email"),
        ),
        (
            with(NewInvite::to("NEW1@example.com")),
            field("duplicate", "4__target_email"),
        ),
        (
            with(NewInvite::to("ann@example.com")),
            field("invalid_input", "4__target_email"),
        ),
        (
            with(NewInvite {
                private_project_access: vec![unknown],
                ..NewInvite::to("bob@example.com")
            }),
            field("invalid_input", "4__private_project_access"),
        ),
    ];
    for (new, expected) in table {
        let refused = invites.create_all(&env.owner, here, new).await;
        assert_eq!(blame(refused), expected);
        assert_eq!(invites.list(here, FIRST).await.unwrap().count, 0);
    }
    let made = invites
        .create_all(&env.owner, here, good(20))
        .await
        .unwrap();
    assert_eq!(made.len(), 20);
    let listed = invites.list(here, FIRST).await.unwrap();
    let listed: Vec<_> = listed
        .rows
        .into_iter()
        .map(|row| row.record.target_email)
        .collect();
    let made: Vec<_> = made
        .into_iter()
        .map(|sent| sent.invite.record.target_email)
        .collect();
    assert_eq!(listed, made, "in the order of the list");
    assert!(
        invites
            .create_all(&env.owner, here, Vec::new())
            .await
            .unwrap()
            .is_empty()
    );
}

async fn invites_expire_after_three_days_and_stay_listed(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sent = invite(&env, &env.owner, NewInvite::to("bob@example.com")).await;
    for (after, expired) in [
        (0, false),
        (3 * DAY_MICROS - 1, false),
        (3 * DAY_MICROS, true),
    ] {
        env.clock.set(START.plus_micros(after));
        let listed = Invites::new(&env.catalog)
            .list(env.organization, FIRST)
            .await
            .unwrap();
        assert_eq!(listed.rows[0].is_expired, expired, "after {after}");
        let open = Invites::new(&env.catalog)
            .open(sent.token.expose())
            .await
            .unwrap();
        assert_eq!(open.unwrap().is_expired, expired, "after {after}");
    }
}

async fn a_new_link_invalidates_the_old_one(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let old = invite(&env, &env.owner, NewInvite::to("bob@example.com")).await;
    env.clock.set(START.plus_micros(4 * DAY_MICROS));
    let id = old.invite.record.id;
    let new = Invites::new(&env.catalog)
        .resend(&env.owner, env.organization, id, true)
        .await;
    let new = new.unwrap();
    assert!(!is_open(&env, &old).await);
    assert!(is_open(&env, &new).await);
    assert_eq!(new.invite.record.id, id);
    assert!(!new.invite.is_expired);
    assert!(new.invite.record.emailing_attempt_made);
    assert_eq!(new.invite.record.expires_at.0, START.0 + 7 * DAY_MICROS);
    assert_eq!(new.invite.record.created_at, old.invite.record.created_at);
    let unknown = Uuid::now_v7();
    let refused = Invites::new(&env.catalog).resend(&env.owner, env.organization, unknown, true);
    assert_eq!(blame(refused.await).0, "not_found");
}

async fn any_member_deletes_an_invite_and_its_link_stops_working(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let bob = env.user("bob").await;
    let owner = Some(bob.id);
    let theirs = Organizations::new(catalog)
        .create(&actor(&bob), "Bob's", owner)
        .await
        .unwrap()
        .id;
    let sent = invite(&env, &env.owner, NewInvite::to("new@example.com")).await;
    let id = sent.invite.record.id;
    let refused = Invites::new(catalog).delete(&actor(&bob), theirs, id).await;
    assert_eq!(blame(refused).0, "not_found");
    let refused = Invites::new(catalog).delete(&actor(&bob), here, id).await;
    assert_eq!(blame(refused).0, "permission_denied");
    catalog
        .add_member(here, bob.id, Level::Member)
        .await
        .unwrap();
    Invites::new(catalog)
        .delete(&actor(&bob), here, id)
        .await
        .unwrap();
    assert!(!is_open(&env, &sent).await);
    let entry = env.newest_entry().await;
    assert_eq!(
        (entry.scope, entry.activity),
        (ActivityScope::Invite, Activity::Deleted)
    );
    let again = Invites::new(catalog).delete(&actor(&bob), here, id).await;
    assert_eq!(blame(again).0, "not_found");
}

async fn a_demoted_member_loses_invites_above_the_new_level(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let bob = env.user("bob").await;
    catalog
        .add_member(here, bob.id, Level::Owner)
        .await
        .unwrap();
    let mut sent = Vec::new();
    for level in [Level::Owner, Level::Administrator, Level::Member] {
        let new = NewInvite {
            level,
            ..NewInvite::to(&format!("{}@example.com", level.number()))
        };
        sent.push(invite(&env, &actor(&bob), new).await);
    }
    let anns = invite(&env, &env.owner, NewInvite::to("dan@example.com")).await;
    let open = async || {
        let mut open = Vec::new();
        for sent in sent.iter().chain([&anns]) {
            open.push(is_open(&env, sent).await);
        }
        open
    };
    let steps = [
        (Some(Level::Administrator), [false, true, true, true]),
        (Some(Level::Member), [false, false, true, true]),
        (None, [false, false, false, true]),
    ];
    for (level, left) in steps {
        match level {
            Some(level) => {
                let set = Members::new(catalog).set_level(&env.owner, here, bob.uuid, level);
                set.await.map(drop)
            }
            None => {
                Members::new(catalog)
                    .remove(&env.owner, here, bob.uuid)
                    .await
            }
        }
        .unwrap();
        assert_eq!(open().await, left, "{level:?}");
        let entry = env.newest_entry().await;
        assert_eq!(
            (entry.scope, entry.activity),
            (ActivityScope::Invite, Activity::Deleted)
        );
    }
}

async fn a_list_of_1000_invites_takes_three_statements(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let fill = format!(
        "INSERT INTO organization_invites (id, organization_id, target_email, email_key, \
         first_name, level, private_project_access, emailing_attempt_made, token_hash, \
         expires_at, created_by_id, created_at, updated_at) {} SELECT {}, organizations.id, \
         'a' || i, 'a' || i, '', 1, '[]', false, 'hash' || i, i, users.id, i, i \
         FROM n, organizations, users",
        numbers(1000),
        random_uuid(&database)
    );
    database.execute(&fill).await.unwrap();
    let (catalog, sent) = env.catalog.counted();
    let page = PageRequest {
        limit: 1000,
        offset: 0,
    };
    let listed = Invites::new(&catalog)
        .list(env.organization, page)
        .await
        .unwrap();
    let statements = sent.take();
    assert!(statements.len() <= 3, "{statements:#?}");
    assert_eq!((listed.count, listed.rows.len()), (1000, 1000));
    assert!(
        listed
            .rows
            .iter()
            .all(|row| row.created_by.as_ref() == Some(&env.ann))
    );
    assert!(listed.rows.is_sorted_by_key(|row| row.record.created_at));
}
