//! Turns of projects that wait apart, where they are more than a round reads.

use crate::fairness::{of_new_id, pass, rounds_until};
use crate::stand::Stand;
use crate::working::{kept, register};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, NewProject, TeamId};
use millrace_persons::Round;

on_both!(projects_that_wait_apart_and_send_nothing_keep_no_other_one_waiting);

/// More projects, in the order of their numbers.
async fn projects(stand: &Stand, count: usize) -> Vec<TeamId> {
    let (catalog, actor) = (&stand.catalog, Actor::system());
    let first = catalog.list_projects(None).await.unwrap();
    let organization = first[0].organization_id;
    let mut made = Vec::new();
    for number in 0..count {
        let new = NewProject::named(&format!("Project {number}"));
        let project = catalog.create_project(&actor, organization, new).await;
        made.push(TeamId(project.unwrap().id));
    }
    made
}

async fn projects_that_wait_apart_and_send_nothing_keep_no_other_one_waiting(
    one: TestDatabase,
    _: TestDatabase,
) {
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let made = projects(&stand, 19).await;
    // Ten that have no backlog, and nine that have: nothing comes of all but the last.
    let (others, apart) = made.split_at(10);
    let busy = apart[8];
    let worker = stand.worker(20);
    for (start, moves) in [(0, false), (1_000, true)] {
        let from = stand.catalog.person_progress().await.unwrap();
        let deferred = stand.catalog.defer_persons(&from, apart).await.unwrap();
        assert_eq!(deferred, apart.len());
        // Of the others there is more than half a round twice, and of none of them more than a share.
        let common = others.iter().chain(others).zip(start..);
        let common = common.map(|(team_id, number)| of_new_id(*team_id, number, "{}"));
        let own = (start + 100..start + 103).map(|number| of_new_id(busy, number, "{}"));
        stand.store(&common.chain(own).collect::<Vec<_>>());
        pass(&stand, start + 200).await;
        assert_eq!(worker.round().await.unwrap(), Round::More);
        if moves {
            pass(&stand, start + 201).await;
        }
        // Eight of the nine had their turn in the first round.
        let id = format!("id {}", start + 100);
        assert_eq!(rounds_until(&stand, &worker, busy, &id).await, 1);
        let progress = stand.catalog.person_progress().await.unwrap();
        assert_eq!(progress.backlogs.len(), apart.len());
        // Those that are not read again are as far as the others all the same.
        assert_eq!(worker.round().await.unwrap(), Round::Done);
        let progress = stand.catalog.person_progress().await.unwrap();
        assert_eq!(progress.backlogs, []);
        let last = format!("id {} id {} ", busy.0, start + 102);
        let kept = kept(&stand.catalog).await;
        assert!(kept.iter().any(|line| line.starts_with(&last)));
    }
}
