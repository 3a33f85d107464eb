//! Turns of backlogs, where there are more of them than a round reads.

use crate::fairness::{of_new_id, pass, rounds_until};
use crate::test_env::TestEnv;
use crate::working::{kept, register};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, NewProject, ProjectId};
use millrace_persons::Round;

on_both!(empty_backlogs_keep_no_other_project_waiting);

/// Creates more projects, in the order of their ids.
async fn projects(env: &TestEnv, count: usize) -> Vec<ProjectId> {
    let (catalog, actor) = (&env.catalog, Actor::system());
    let first = catalog.list_projects(None).await.unwrap();
    let organization = first[0].organization_id;
    let mut made = Vec::new();
    for number in 0..count {
        let new = NewProject::named(&format!("Project {number}"));
        let project = catalog.create_project(&actor, organization, new).await;
        made.push(ProjectId(project.unwrap().id));
    }
    made
}

async fn empty_backlogs_keep_no_other_project_waiting(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let made = projects(&env, 19).await;
    // Ten projects without a backlog, and nine with one, of which only the last has updates.
    let (others, apart) = made.split_at(10);
    let busy = apart[8];
    let worker = env.worker(20);
    for (start, moves) in [(0, false), (1_000, true)] {
        let from = env.catalog.person_progress().await.unwrap();
        let deferred = env.catalog.defer_persons(&from, apart).await.unwrap();
        assert_eq!(deferred, apart.len());
        // The others have more than half a round twice, and none of them more than a share.
        let common = others.iter().chain(others).zip(start..);
        let common = common.map(|(project_id, number)| of_new_id(*project_id, number, "{}"));
        let own = (start + 100..start + 103).map(|number| of_new_id(busy, number, "{}"));
        env.store(&common.chain(own).collect::<Vec<_>>());
        pass(&env, start + 200).await;
        assert_eq!(worker.round().await.unwrap(), Round::More);
        if moves {
            pass(&env, start + 201).await;
        }
        // Eight of the nine backlogs had their turn in the first round.
        let id = format!("id {}", start + 100);
        assert_eq!(rounds_until(&env, &worker, busy, &id).await, 1);
        let progress = env.catalog.person_progress().await.unwrap();
        assert_eq!(progress.backlogs.len(), apart.len());
        // Backlogs that are not read again are still as far as the others.
        assert_eq!(worker.round().await.unwrap(), Round::Done);
        let progress = env.catalog.person_progress().await.unwrap();
        assert_eq!(progress.backlogs, []);
        let last = format!("id {} id {} ", busy.0, start + 102);
        let kept = kept(&env.catalog).await;
        assert!(kept.iter().any(|line| line.starts_with(&last)));
    }
}
