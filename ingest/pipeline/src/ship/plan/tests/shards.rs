//! Batches of which shards may have some rows and not others.

use super::*;

#[test]
fn a_batch_in_doubt_keeps_its_boot_id_until_it_goes_on_under_the_next_attempt() {
    let mut env = TestEnv::new();
    env.row(RECENT);
    let now = Now {
        is_draining: true,
        ..env.now()
    };
    let boot_id = |id| Some(Uuid::from_u128(id));
    let launched = env.plan.launch(now, boot_id(1));
    let [(id, batch)] = launched.as_slice() else {
        panic!("one batch: {launched:?}");
    };
    assert!(!batch.in_doubt && !batch.is_suspect);
    env.plan.doubted(*id);
    let doubted = env.plan.launch(now, boot_id(2));
    let (_, batch) = &doubted[0];
    assert_eq!((batch.attempt, batch.boot_id), (0, boot_id(1)));
    assert!(batch.in_doubt && batch.is_suspect);
    env.plan.incomplete(*id);
    let incomplete = env.plan.launch(now, boot_id(3));
    let (_, batch) = &incomplete[0];
    assert_eq!((batch.attempt, batch.boot_id), (1, boot_id(3)));
    assert!(batch.in_doubt && batch.is_suspect);
    let recorded = env.plan.checkpoint().in_flight;
    assert!(recorded[0].is_suspect && recorded[0].attempt == 1);
}

#[test]
fn a_batch_in_doubt_whose_rows_cannot_all_be_read_stays_in_doubt_while_it_waits_to_be_halved() {
    for is_in_doubt in [true, false] {
        let mut env = TestEnv::new();
        env.plan.limits.parts_max = 1;
        let now = Now {
            is_draining: true,
            ..env.now()
        };
        env.rows(RECENT, 2);
        let (id, _) = env.plan.launch(now, None)[0];
        if is_in_doubt {
            env.plan.doubted(id);
            assert_eq!(env.plan.launch(now, None)[0].0, id);
        }
        // A part that is newer.
        env.rows(Month(202_611), 2);
        let (newer, _) = env.plan.launch(now, None)[0];
        assert!(env.plan.refused(newer));
        env.plan.mark_failing(id, false);
        assert!(env.plan.lost(id));
        let batch = &env.plan.in_flight[&id].batch;
        assert!(batch.is_part, "it waits");
        assert_eq!(
            (batch.in_doubt, batch.is_suspect),
            (is_in_doubt, is_in_doubt)
        );
        assert_eq!(batch.attempt, u32::from(!is_in_doubt));
    }
}
