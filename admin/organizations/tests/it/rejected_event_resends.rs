//! Requests with rejected events that are sent again: one of a project at a time.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Level};
use millrace_organizations::testing::test_env::{START, TestEnv, actor, violation};
use millrace_organizations::{
    BegunResend, NewProject, NewResend, Organizations, Projects, RejectedEventResends,
};
use millrace_rows::ProjectId;
use uuid::Uuid;

on_both!(
    a_request_is_kept_until_it_ends_and_excludes_others_of_its_project,
    members_alone_begin_a_request,
    a_deleted_project_takes_its_request_along,
);

fn request(project_id: ProjectId, text: &str) -> NewResend {
    NewResend {
        project_id,
        historical_migration: true,
        request: text.to_owned(),
        events: 3,
    }
}

/// Begins a request as Ann; fails if another one is under way.
async fn begin(env: &TestEnv, project_id: ProjectId, text: &str) -> Uuid {
    let begun = RejectedEventResends::new(&env.catalog)
        .begin(&env.owner, request(project_id, text))
        .await;
    match begun.unwrap() {
        BegunResend::New(id) => id,
        BegunResend::Pending(pending) => panic!("{pending:?}"),
    }
}

/// Texts of all requests, by project.
async fn kept(env: &TestEnv) -> Vec<String> {
    let kept = RejectedEventResends::new(&env.catalog).list_all().await;
    kept.unwrap().into_iter().map(|it| it.request).collect()
}

/// A second project of the organization, beside its first one.
async fn two_projects(env: &TestEnv) -> [ProjectId; 2] {
    let made = Projects::new(&env.catalog).create(
        &env.owner,
        env.organization,
        NewProject::named("Second"),
    );
    made.await.unwrap();
    let listed = Projects::new(&env.catalog)
        .list_all(Some(env.organization))
        .await
        .unwrap();
    [ProjectId(listed[0].id), ProjectId(listed[1].id)]
}

async fn a_request_is_kept_until_it_ends_and_excludes_others_of_its_project(
    database: TestDatabase,
) {
    let env = TestEnv::new(&database).await;
    let [first, second] = two_projects(&env).await;
    let resends = RejectedEventResends::new(&env.catalog);
    let id = begin(&env, first, "one").await;
    let entry = env.newest_entry().await;
    assert_eq!(entry.item_id, first.to_string());
    assert_eq!(entry.detail.changes[0].field, "rejected_events_resent");
    assert_eq!(entry.detail.changes[0].after, 3);
    let refused = resends.begin(&env.owner, request(first, "two")).await;
    let BegunResend::Pending(pending) = refused.unwrap() else {
        panic!("two requests of a project are under way");
    };
    assert_eq!((pending.id, pending.request.as_str()), (id, "one"));
    assert_eq!(
        (pending.historical_migration, pending.created_at.0),
        (true, START.0)
    );
    assert_eq!(env.newest_entry().await, entry, "nothing was begun");
    let other = begin(&env, second, "other").await;
    assert_eq!(kept(&env).await, ["one", "other"]);
    // Whoever settled it may be late: it ends its own request alone.
    for _ in 0..2 {
        resends.end(id).await.unwrap();
    }
    begin(&env, first, "two").await;
    resends.end(id).await.unwrap();
    assert_eq!(kept(&env).await, ["two", "other"]);
    resends.end(other).await.unwrap();
    assert_eq!(kept(&env).await, ["two"]);
}

async fn members_alone_begin_a_request(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let [project_id, _] = two_projects(&env).await;
    let (mia, eve) = (env.user("mia").await, env.user("eve").await);
    let added = env
        .catalog
        .add_member(env.organization, mia.id, Level::Member);
    added.await.unwrap();
    let organizations = Organizations::new(&env.catalog);
    let made = organizations
        .create(&actor(&eve), "Eve's", Some(eve.id))
        .await;
    made.unwrap();
    let resends = RejectedEventResends::new(&env.catalog);
    let refused = resends
        .begin(&actor(&eve), request(project_id, "eve"))
        .await;
    assert_eq!(violation(refused).0, "permission_denied");
    let unknown = ProjectId(project_id.0 + 1_000);
    let refused = resends.begin(&env.owner, request(unknown, "none")).await;
    assert_eq!(violation(refused).0, "not_found");
    for actor in [actor(&mia), Actor::command_line()] {
        let begun = resends.begin(&actor, request(project_id, "member")).await;
        let BegunResend::New(id) = begun.unwrap() else {
            panic!("{actor:?}");
        };
        resends.end(id).await.unwrap();
    }
    assert!(kept(&env).await.is_empty());
}

async fn a_deleted_project_takes_its_request_along(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let [first, second] = two_projects(&env).await;
    begin(&env, first, "one").await;
    begin(&env, second, "other").await;
    let deleted = Projects::new(&env.catalog).delete(&env.owner, env.organization, second);
    deleted.await.unwrap();
    assert_eq!(kept(&env).await, ["one"]);
}
