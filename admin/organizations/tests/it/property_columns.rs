//! Property columns: who names them, how many, and what stays of them.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, Actor, Level, Patch, PropertyColumnRecord, PropertyColumnType};
use millrace_organizations::testing::test_env::{TestEnv, actor, field, violation};
use millrace_organizations::{
    NewProject, NewPropertyColumn, Organizations, Projects, PropertyColumns, PropertyColumnsChange,
};
use millrace_rows::{ProjectId, PropertyColumn, PropertyType};

on_both!(
    a_project_replaces_its_columns_and_keeps_those_that_stay,
    a_column_that_changes_gets_another_number,
    an_unchanged_list_writes_nothing,
    columns_are_named_by_administrators_of_the_project,
    the_operator_names_columns_of_all_projects,
    columns_are_limited_for_project_organization_and_all,
    columns_are_marked_when_they_are_there,
    a_deleted_project_has_no_columns,
);

fn column(key: &str, kind: PropertyColumnType) -> NewPropertyColumn {
    NewPropertyColumn {
        path: vec![key.to_owned()],
        kind,
        bytes_max: None,
    }
}

fn all_of(columns: Vec<NewPropertyColumn>) -> PropertyColumnsChange {
    PropertyColumnsChange {
        columns: Patch::Value(columns),
    }
}

fn numbers(rows: &[PropertyColumnRecord]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

/// Columns of so many different flags.
fn flags(count: usize) -> Vec<NewPropertyColumn> {
    let names = (0..count).map(|number| format!("flag {number}"));
    names
        .map(|name| column(&name, PropertyColumnType::Bool))
        .collect()
}

async fn first_project(env: &TestEnv) -> ProjectId {
    let listed = Projects::new(&env.catalog)
        .list_all(Some(env.organization))
        .await;
    ProjectId(listed.unwrap()[0].id)
}

async fn another_project(env: &TestEnv, name: &str) -> ProjectId {
    let made =
        Projects::new(&env.catalog).create(&env.owner, env.organization, NewProject::named(name));
    ProjectId(made.await.unwrap().id)
}

async fn a_project_replaces_its_columns_and_keeps_those_that_stay(database: TestDatabase) {
    use PropertyColumnType::{Int64, String as Text};
    let env = TestEnv::new(&database).await;
    let (columns, project) = (
        PropertyColumns::new(&env.catalog),
        first_project(&env).await,
    );
    let replace = async |list: Vec<NewPropertyColumn>| {
        let replaced = columns.replace(&env.owner, env.organization, project, all_of(list));
        replaced.await.unwrap()
    };
    let version = env.catalog.keys_version().await.unwrap();
    let made = replace(vec![column("plan", Text), column("age", Int64)]).await;
    assert!(env.catalog.keys_version().await.unwrap() > version);
    let entry = env.newest_entry().await;
    assert_eq!(entry.activity, Activity::Updated);
    let change = &entry.detail.changes[0];
    assert_eq!(change.field, "property_columns");
    let told = serde_json::json!(["plan: String, 256 bytes", "age: Int64"]);
    assert_eq!(change.after, told);
    assert_eq!(made.row_bytes(), 256 + 9);
    let [plan, age] = [&made.own[0], &made.own[1]];
    let expected = PropertyColumn {
        number: plan.id,
        team_id: Some(project),
        path: vec!["plan".to_owned()],
        kind: PropertyType::String,
        bytes_max: 256,
    };
    assert_eq!(PropertyColumn::from(plan), expected);
    let after = replace(vec![column("age", Int64), column("size", Int64)]).await;
    assert_eq!(numbers(&after.own)[0], age.id);
    assert_eq!(after.own[1].path.0, ["size"]);
    let read = columns.of_project(project).await.unwrap();
    assert_eq!(read, after);
    assert!(replace(Vec::new()).await.own.is_empty());
}

async fn a_column_that_changes_gets_another_number(database: TestDatabase) {
    use PropertyColumnType::{LowCardinality, String as Text};
    let env = TestEnv::new(&database).await;
    let (columns, project) = (
        PropertyColumns::new(&env.catalog),
        first_project(&env).await,
    );
    let mut seen = Vec::new();
    let wide = NewPropertyColumn {
        bytes_max: Some(300),
        ..column("plan", Text)
    };
    for list in [
        vec![column("plan", Text)],
        vec![wide],
        vec![column("plan", LowCardinality)],
        // As at first, and yet another column.
        vec![column("plan", Text)],
    ] {
        let replaced = columns.replace(&env.owner, env.organization, project, all_of(list));
        let found = numbers(&replaced.await.unwrap().own);
        assert_eq!(found.len(), 1);
        assert!(!seen.contains(&found[0]), "{found:?} of {seen:?}");
        seen.extend(found);
    }
}

async fn an_unchanged_list_writes_nothing(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (columns, project) = (
        PropertyColumns::new(&env.catalog),
        first_project(&env).await,
    );
    let replace = async |change| {
        let replaced = columns.replace(&env.owner, env.organization, project, change);
        replaced.await.unwrap()
    };
    let made = replace(all_of(flags(2))).await;
    let (entry, version) = (
        env.newest_entry().await,
        env.catalog.keys_version().await.unwrap(),
    );
    let turned: Vec<_> = flags(2).into_iter().rev().collect();
    for change in [
        PropertyColumnsChange::default(),
        all_of(flags(2)),
        all_of(turned),
    ] {
        assert_eq!(replace(change).await, made);
    }
    assert_eq!(env.newest_entry().await, entry);
    assert_eq!(env.catalog.keys_version().await.unwrap(), version);
}

async fn columns_are_named_by_administrators_of_the_project(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (columns, project) = (
        PropertyColumns::new(&env.catalog),
        first_project(&env).await,
    );
    let (bob, mia) = (env.user("bob").await, env.user("mia").await);
    let organizations = Organizations::new(&env.catalog);
    let theirs = organizations
        .create(&actor(&bob), "Bob's", Some(bob.id))
        .await;
    let theirs = theirs.unwrap().id;
    let added = env
        .catalog
        .add_member(env.organization, mia.id, Level::Member);
    added.await.unwrap();
    let ours = env.organization;
    let table = [
        (&mia, ours, project, "permission_denied"),
        (&bob, ours, project, "permission_denied"),
        (&bob, theirs, project, "not_found"),
        (&env.ann, ours, ProjectId(project.0 + 1_000), "not_found"),
    ];
    for (user, organization, project, expected) in table {
        let caller = actor(user);
        let refused = columns.replace(&caller, organization, project, all_of(flags(1)));
        assert_eq!(violation(refused.await).0, expected);
    }
    assert!(columns.list_all().await.unwrap().is_empty());
}

async fn the_operator_names_columns_of_all_projects(database: TestDatabase) {
    use PropertyColumnType::{Int64, String as Text};
    let env = TestEnv::new(&database).await;
    let (columns, project) = (
        PropertyColumns::new(&env.catalog),
        first_project(&env).await,
    );
    let by = Actor::command_line();
    let add = |of, new| columns.add_as_operator(&by, of, new);
    let shared = add(None, column("$browser", Text)).await.unwrap();
    let own = add(Some(project), column("plan", Text)).await.unwrap();
    let other = another_project(&env, "Other").await;
    for (of, new, code) in [
        (None, column("$browser", Text), "unique"),
        (Some(project), column("$browser", Text), "unique"),
        (Some(project), column("plan", Text), "unique"),
        (Some(ProjectId(4_711)), column("a", Text), "not_found"),
        (None, column("", Text), "invalid_input"),
    ] {
        assert_eq!(violation(add(of, new).await).0, code);
    }
    let seen = columns.of_project(project).await.unwrap();
    assert_eq!(
        (seen.own, seen.shared),
        (vec![own.clone()], vec![shared.clone()])
    );
    let seen = columns.of_project(other).await.unwrap();
    assert_eq!((seen.own, seen.shared), (vec![], vec![shared.clone()]));
    let twice = all_of(vec![column("$browser", Int64), column("$browser", Text)]);
    let refused = columns.replace(&env.owner, env.organization, other, twice);
    let expected = field("unique", "columns__1__path");
    assert_eq!(violation(refused.await), expected);
    // A project that was first keeps its own beside the one of all.
    add(None, column("plan", Text)).await.unwrap();
    let kept = all_of(vec![column("plan", Text), column("age", Int64)]);
    let kept = columns.replace(&env.owner, env.organization, project, kept);
    assert_eq!(kept.await.unwrap().own.len(), 2);
    let removed = columns.remove_as_operator(&by, shared.id).await.unwrap();
    assert_eq!(removed, shared);
    let again = columns.remove_as_operator(&by, shared.id).await;
    assert_eq!(violation(again).0, "not_found");
    let left = numbers(&columns.list_all().await.unwrap());
    assert!(
        left.contains(&own.id) && !left.contains(&shared.id),
        "{left:?}"
    );
}

async fn columns_are_limited_for_project_organization_and_all(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let columns = PropertyColumns::new(&env.catalog);
    let first = first_project(&env).await;
    let replace = |organization, project, count| {
        columns.replace(&env.owner, organization, project, all_of(flags(count)))
    };
    let refused = replace(env.organization, first, 21).await;
    assert_eq!(violation(refused), field("max_length", "columns"));
    let texts = (0..17).map(|number| column(&format!("text {number}"), PropertyColumnType::String));
    let wide = all_of(texts.collect());
    let refused = columns.replace(&env.owner, env.organization, first, wide);
    assert_eq!(violation(refused.await), field("invalid_input", "columns"));
    let [second, third] = [
        another_project(&env, "Second").await,
        another_project(&env, "Third").await,
    ];
    for (project, count, code) in [
        (first, 20, None),
        (second, 20, None),
        (third, 11, Some("permission_denied")),
        (third, 10, None),
        // As many as before: nothing is new.
        (first, 20, None),
        (third, 11, Some("permission_denied")),
        (first, 19, None),
        (third, 11, None),
    ] {
        let replaced = replace(env.organization, project, count).await;
        match code {
            None => assert_eq!(replaced.unwrap().own.len(), count),
            Some(code) => assert_eq!(violation(replaced).0, code, "{count}"),
        }
    }
    // Others have the other half.
    let made = Organizations::new(&env.catalog).create(&env.owner, "Beta", Some(env.ann.id));
    let beta = made.await.unwrap().id;
    let made = Organizations::new(&env.catalog).create(&env.owner, "Gamma", Some(env.ann.id));
    let gamma = made.await.unwrap().id;
    for (organization, counts) in [(beta, [20, 20, 10]), (gamma, [0, 0, 0])] {
        for (name, count) in ["A", "B", "C"].iter().zip(counts) {
            let new = NewProject::named(name);
            let made = Projects::new(&env.catalog).create(&env.owner, organization, new);
            let project = ProjectId(made.await.unwrap().id);
            replace(organization, project, count).await.unwrap();
            if organization == gamma {
                let refused = replace(organization, project, 1).await;
                assert_eq!(violation(refused).0, "permission_denied");
            }
        }
    }
    let by = Actor::command_line();
    for new in flags(20) {
        columns.add_as_operator(&by, None, new).await.unwrap();
    }
    let one_more = column("one more", PropertyColumnType::Bool);
    let refused = columns.add_as_operator(&by, None, one_more).await;
    assert_eq!(violation(refused), field("max_length", "columns"));
}

async fn columns_are_marked_when_they_are_there(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (columns, project) = (
        PropertyColumns::new(&env.catalog),
        first_project(&env).await,
    );
    let made = columns.replace(&env.owner, env.organization, project, all_of(flags(2)));
    let ids = numbers(&made.await.unwrap().own);
    for (marked, is_added) in [(&ids[..1], true), (&ids[..], true), (&ids[1..], false)] {
        let version = env.catalog.keys_version().await.unwrap();
        columns.mark(marked, is_added).await.unwrap();
        assert!(env.catalog.keys_version().await.unwrap() > version);
        for row in columns.list_all().await.unwrap() {
            if marked.contains(&row.id) {
                let expected = is_added.then(|| env.catalog.now());
                assert_eq!(row.added_at, expected);
            }
        }
    }
    // A column that was removed meanwhile is not there again.
    columns
        .remove_as_operator(&Actor::command_line(), ids[0])
        .await
        .unwrap();
    columns.mark(&ids, true).await.unwrap();
    assert_eq!(numbers(&columns.list_all().await.unwrap()), ids[1..]);
}

async fn a_deleted_project_has_no_columns(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let columns = PropertyColumns::new(&env.catalog);
    let project = another_project(&env, "Second").await;
    let made = columns.replace(&env.owner, env.organization, project, all_of(flags(2)));
    made.await.unwrap();
    let deleted = Projects::new(&env.catalog).delete(&env.owner, env.organization, project);
    deleted.await.unwrap();
    assert!(columns.list_all().await.unwrap().is_empty());
}
