//! Waiting until all that was submitted is shipped, with a shipper played by the test.

use crate::commit::{Fixture, NOVEMBER, batch, group, start, store};
use millrace_pipeline::{Ack, Refusal};
use millrace_rows::{Lane, Table};

async fn submit(fixture: &Fixture, lane: Lane) {
    let groups = vec![group(Table::Events, NOVEMBER, 1, b"a row")];
    store(fixture, batch(lane, groups)).await.unwrap();
}

#[tokio::test]
async fn a_flush_waits_for_all_submitted_batches_of_both_lanes_with_any_ack() {
    for ack in [Ack::Disk, Ack::Memory] {
        let fixture = start(|options| options.ack = ack);
        assert!(fixture.pipeline.is_all_shipped());
        fixture.pipeline.wait_for_flush().await;
        for output in [&fixture.live, &fixture.historical] {
            submit(&fixture, output.lane).await;
            let pipeline = fixture.pipeline.clone();
            let waiting = tokio::spawn(async move { pipeline.wait_for_flush().await });
            // A commit after a barrier shows that the barrier was answered.
            for output in [&fixture.live, &fixture.historical] {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                let before = output.log.synced();
                submit(&fixture, output.lane).await;
                let mut synced = output.synced.clone();
                synced.wait_for(|end| *end > before).await.unwrap();
            }
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert!(!waiting.is_finished(), "{ack:?}, {:?}", output.lane);
            assert!(!fixture.pipeline.is_all_shipped());
            // With a barrier in the middle of a group, the flush waits for the group's end.
            while !waiting.is_finished() || !fixture.pipeline.is_all_shipped() {
                for output in [&fixture.live, &fixture.historical] {
                    output.shipped.send_replace(output.log.synced());
                }
                tokio::task::yield_now().await;
            }
            waiting.await.unwrap();
        }
        tokio::task::spawn_blocking(|| fixture.running.stop())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn person_updates_are_waited_for_alone() {
    let fixture = start(|options| options.ack = Ack::Disk);
    for output in [&fixture.live, &fixture.historical] {
        submit(&fixture, output.lane).await;
    }
    let ends = fixture.pipeline.flush_ends().await;
    let (pipeline, until) = (fixture.pipeline.clone(), ends.clone());
    let all = tokio::spawn(async move { pipeline.wait_until_shipped(&until).await });
    let (pipeline, until) = (fixture.pipeline.clone(), ends.clone());
    let updates = tokio::spawn(async move { pipeline.wait_until_updates_shipped(&until).await });
    for output in [&fixture.live, &fixture.historical] {
        // Shippers of both lanes send them at once, and not one after the other.
        let mut wanted = output.updates_wanted.clone();
        let end = output.log.synced();
        wanted.wait_for(|wanted| *wanted >= end).await.unwrap();
    }
    assert!(!updates.is_finished());
    for output in [&fixture.live, &fixture.historical] {
        output.updates_shipped.send_replace(output.log.synced());
    }
    updates.await.unwrap();
    tokio::task::yield_now().await;
    assert!(!all.is_finished());
    for output in [&fixture.live, &fixture.historical] {
        output.shipped.send_replace(output.log.synced());
    }
    all.await.unwrap();
    tokio::task::spawn_blocking(|| fixture.running.stop())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_flush_barrier_gets_through_a_full_channel() {
    let fixture = start(|options| {
        options.ack = Ack::Memory;
        options.queue_requests_max = 1;
    });
    for _ in 0..20 {
        // Some are refused, as the queue is full; the flush waits for none of those.
        let groups = vec![group(Table::Events, NOVEMBER, 1, b"a row")];
        let _ = store(&fixture, batch(Lane::Live, groups)).await;
    }
    fixture.live.shipped.send_replace(millrace_log::Position {
        segment: u64::MAX,
        offset: 0,
    });
    fixture.pipeline.wait_for_flush().await;
    tokio::task::spawn_blocking(|| fixture.running.stop())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_log_that_is_full_of_what_is_shipped_takes_requests_again() {
    let fixture = start(|options| options.log_bytes_max = 8 << 20);
    let mut number = 1_u64;
    let mut noise = |_| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (number >> 56) as u8
    };
    // One frame in the segment that is written to, in each lane.
    let outputs = [&fixture.live, &fixture.historical];
    for output in outputs {
        let bytes: Vec<u8> = (0..4_000_000).map(&mut noise).collect();
        let rows = vec![group(Table::Events, NOVEMBER, 1, &bytes)];
        store(&fixture, batch(output.lane, rows)).await.unwrap();
    }
    for output in outputs {
        let end = output.log.synced();
        output.log.release(end).unwrap();
        output.shipped.send_replace(end);
    }
    let refused = fixture.pipeline.reserve(Lane::Live, 1);
    assert_eq!(refused.err(), Some(Refusal::LogFull));
    fixture.pipeline.wait_for_flush().await;
    for lane in Lane::ALL {
        assert!(fixture.pipeline.reserve(lane, 1).is_ok(), "{lane:?}");
    }
    tokio::task::spawn_blocking(|| fixture.running.stop())
        .await
        .unwrap();
}
