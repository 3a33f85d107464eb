//! Turns of backlogs, where there are more of them than a round reads.

use crate::fairness::{of_new_id, pass, rounds_until};
use crate::test_env::TestEnv;
use crate::working::{kept, register};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, ProjectId};
use millrace_organizations::{NewProject, Organizations, Projects};
use millrace_persons::{PersonStore, RoundOutcome};

on_both!(
    empty_backlogs_keep_no_other_project_waiting,
    no_project_waits_for_an_organization_of_many_small_ones,
    no_backlog_waits_for_a_large_one_of_its_organization,
);

/// Creates more projects of one organization, in the order of their ids.
async fn projects(env: &TestEnv, count: usize) -> Vec<ProjectId> {
    let (catalog, actor) = (&env.catalog, Actor::system());
    let first = Projects::new(catalog).list_all(None).await.unwrap();
    let organization = first[0].organization_id;
    let mut made = Vec::new();
    for number in 0..count {
        let new = NewProject::named(&format!("Project {number}"));
        let project = Projects::new(catalog)
            .create(&actor, organization, new)
            .await;
        made.push(ProjectId(project.unwrap().id));
    }
    made
}

/// Creates projects of an organization each, in the order of their ids.
async fn projects_apart(env: &TestEnv, count: usize) -> Vec<ProjectId> {
    let (catalog, actor) = (&env.catalog, Actor::system());
    let mut made = Vec::new();
    for number in 0..count {
        let name = format!("Organization {number}");
        let organization = Organizations::new(catalog)
            .create(&actor, &*name, None)
            .await;
        let projects = Projects::new(catalog)
            .list_all(Some(organization.unwrap().id))
            .await;
        made.push(ProjectId(projects.unwrap()[0].id));
    }
    made
}

async fn no_project_waits_for_an_organization_of_many_small_ones(
    one: TestDatabase,
    _: TestDatabase,
) {
    const PROJECTS: i64 = 60;
    const UPDATES: i64 = 190;
    const ALL: i64 = PROJECTS * UPDATES;
    let env = TestEnv::open(&one).await;
    register(&env).await;
    // Each has less than a share of a round waiting, and all together have six rounds.
    let worker = env.worker(2_000);
    let large = projects(&env, 60).await;
    let numbers = (0..ALL).zip(large.iter().cycle());
    let updates: Vec<_> = numbers
        .map(|(number, project_id)| of_new_id(*project_id, number, "{}"))
        .collect();
    env.store(&updates);
    let other = env.foreign_project_id;
    env.store(&[of_new_id(other, ALL, "{}")]);
    pass(&env, ALL + 1).await;
    // The first round defers them.
    let rounds = rounds_until(&env, &worker, other, &format!("id {ALL}")).await;
    assert!(rounds <= 2, "{rounds}");
    let mut rounds = 0;
    while worker.round().await.unwrap() == RoundOutcome::More {
        rounds += 1;
        assert!(rounds < 50, "they are not applied");
    }
    let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
    assert_eq!(progress.backlogs, []);
    let ids = format!(
        "SELECT uniqExact(distinct_id) FROM `{}`.person_distinct_ids",
        env.database
    );
    assert_eq!(env.ask(&ids, &[]).trim(), (ALL + 1).to_string());
}

async fn no_backlog_waits_for_a_large_one_of_its_organization(one: TestDatabase, _: TestDatabase) {
    const LARGE: i64 = 4_000;
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let worker = env.worker(200);
    let own = projects(&env, 2).await;
    let from = PersonStore::new(&env.catalog).progress().await.unwrap();
    let deferred = PersonStore::new(&env.catalog).defer(&from, &own).await;
    assert_eq!(deferred.unwrap(), 2);
    // Twenty rounds of the one, and then an update of the other.
    let large: Vec<_> = (0..LARGE).map(|it| of_new_id(own[0], it, "{}")).collect();
    env.store(&large);
    env.store(&[of_new_id(own[1], LARGE, "{}")]);
    pass(&env, LARGE + 1).await;
    let rounds = rounds_until(&env, &worker, own[1], &format!("id {LARGE}")).await;
    assert!(rounds <= 2, "{rounds}");
}

async fn empty_backlogs_keep_no_other_project_waiting(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let others = projects(&env, 10).await;
    // Nine with a backlog, of which only the last has updates.
    let apart = projects_apart(&env, 9).await;
    let busy = apart[8];
    let worker = env.worker(20);
    for (start, moves) in [(0, false), (1_000, true)] {
        let from = PersonStore::new(&env.catalog).progress().await.unwrap();
        let deferred = PersonStore::new(&env.catalog)
            .defer(&from, &apart)
            .await
            .unwrap();
        assert_eq!(deferred, apart.len());
        // The others have more than half a round twice, and none of them more than a share.
        let common = others.iter().chain(&others).zip(start..);
        let common = common.map(|(project_id, number)| of_new_id(*project_id, number, "{}"));
        let own = (start + 100..start + 103).map(|number| of_new_id(busy, number, "{}"));
        env.store(&common.chain(own).collect::<Vec<_>>());
        pass(&env, start + 200).await;
        assert_eq!(worker.round().await.unwrap(), RoundOutcome::More);
        if moves {
            pass(&env, start + 201).await;
        }
        // Eight of the nine organizations had their turn in the first round.
        let id = format!("id {}", start + 100);
        assert_eq!(rounds_until(&env, &worker, busy, &id).await, 1);
        let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
        assert_eq!(progress.backlogs.len(), apart.len());
        // Backlogs that are not read again are still as far as the others.
        assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
        let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
        assert_eq!(progress.backlogs, []);
        let last = format!("id {} id {} ", busy.0, start + 102);
        let kept = kept(&env.catalog).await;
        assert!(kept.iter().any(|line| line.starts_with(&last)));
    }
}
