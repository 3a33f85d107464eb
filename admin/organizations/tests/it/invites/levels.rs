//! Levels of an inviter, of the invite and of its projects.

use super::{invite, is_open};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, Actor, Level, ProjectAccess, ProjectAccessLevel};
use millrace_organizations::testing::test_env::{
    DAY_MICROS, FIRST, TestEnv, actor, field, violation,
};
use millrace_organizations::{Invites, Members, NewInvite, NewProject, Organizations, Projects};
use millrace_rows::{Clock, Micros};

on_both!(
    nobody_invites_above_their_own_level,
    projects_of_an_invite_are_the_organizations_with_levels_up_to_the_inviters,
    nobody_replaces_an_invite_above_their_own_level,
    a_demoted_member_loses_invites_above_the_new_level,
);

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
            assert_eq!(violation(made).0, "permission_denied", "case {number}");
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
                violation(made),
                field("invalid_input", "private_project_access")
            );
        }
    }
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
                    assert_eq!(violation(one).0, "permission_denied", "{case}");
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
