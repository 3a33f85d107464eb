//! Parts of a section that is damaged in the log.

use super::*;
use crate::ship::insert_batch::RowRange;
use crate::ship::row_lookup::Presence;
use crate::ship::source::Payload;
use millrace_log::testing::bytes::reseal_blocks;

/// Executes the halves of a batch, and theirs, until all are settled. Returns the number of rows
/// that became dead letters.
async fn settle_parts(
    context: &Arc<InsertContext<MemorySink>>,
    batch: &InsertBatch<FrameSection>,
    in_doubt: bool,
) -> u64 {
    let (mut waiting, mut lost) = (Vec::from(batch.halves().unwrap()), 0);
    while let Some(part) = waiting.pop() {
        let part = InsertBatch {
            boot_id: batch.boot_id,
            in_doubt,
            ..part
        };
        let executed = Arc::clone(context).execute(0, Arc::new(part.clone()), DeliveryStage::First);
        match executed.await {
            InsertResult::Stored => {}
            InsertResult::DeadLettered => lost += part.rows(),
            InsertResult::Lost(_) if !in_doubt => waiting.extend(part.halves().unwrap()),
            InsertResult::Parted if in_doubt => waiting.extend(part.halves().unwrap()),
            other => panic!("{other:?}, {in_doubt}"),
        }
    }
    lost
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_damaged_section_are_halved_until_only_damaged_rows_are_dead_letters() {
    for (is_first, in_doubt) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, batch) = damaged(dir.path(), is_first);
        let batch = InsertBatch {
            boot_id: Some(Uuid::nil()),
            ..batch
        };
        let whole = MemorySink::default();
        let of_whole = context(&log, &whole, &dir.path().join("of-whole"));
        let executed = of_whole.execute(0, Arc::new(batch.clone()), DeliveryStage::First);
        assert!(matches!(executed.await, InsertResult::DeadLettered));

        let sink = MemorySink::default();
        let dead_letters = dir.path().join("dead-letters");
        let context = context(&log, &sink, &dead_letters);
        let lost = settle_parts(&context, &batch, in_doubt).await;
        let (mut stored, sound) = (sink.uuids(), whole.uuids());
        stored.sort_unstable();
        assert_eq!(stored, sound, "{is_first}, {in_doubt}");
        assert_eq!(lost + stored.len() as u64, 400);
        // Kept once, however many parts have damaged rows.
        only_file(&dead_letters, "blocks");
    }
}

/// Regression: each part with damaged rows counted as damage of its own.
#[tokio::test(start_paused = true)]
async fn damage_is_counted_once_however_many_parts_of_its_section_have_it() {
    for in_doubt in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (log, batch) = damaged(dir.path(), true);
        let batch = InsertBatch {
            boot_id: Some(Uuid::nil()),
            ..batch
        };
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let _local = metrics::set_default_local_recorder(&recorder);
        let sink = MemorySink::default();
        let context = context(&log, &sink, &dir.path().join("dead-letters"));
        let lost = settle_parts(&context, &batch, in_doubt).await;
        // Once more, as after an answer that was lost.
        let again = settle_parts(&context, &batch, in_doubt).await;
        assert_eq!(lost, again);
        let told = recorder.handle().render();
        for (name, count) in [
            ("millrace_log_damaged_total", 1),
            ("millrace_insert_rows_dead_lettered_total", lost + again),
        ] {
            let counted = format!("{name}{{lane=\"live\"}} {count}");
            let is_told = told.lines().any(|line| line == counted);
            assert!(is_told, "{counted}, {in_doubt}: {told}");
        }
    }
}

/// Regression: such a part was looked up by its own rows alone. Rows of another part that have
/// their keys counted as its own, which were lost then; and a row that a later one replaced as
/// absent.
#[tokio::test(start_paused = true)]
async fn a_part_of_a_damaged_section_is_looked_up_like_one_of_a_sound_section() {
    let dir = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..400)
        .map(|nth| format!(r#"{{"text":"{nth:0>400}"}}"#))
        .collect();
    let properties: Vec<[&[u8]; 1]> = texts.iter().map(|text| [text.as_bytes()]).collect();
    // The first hundred and the second have the same uuids, and are different events.
    let numbered = properties.iter().zip(0_u128..);
    let rows: Vec<EventRow<'_>> = numbered
        .map(|(properties, nth)| EventRow {
            uuid: Uuid::from_u128(if nth < 200 { nth % 100 } else { nth }),
            event: if nth < 100 { b"seen" } else { b"left" },
            properties,
            ..row()
        })
        .collect();
    let (log, batch) = logged_rows(dir.path(), &rows);
    let month = batch.key.month;
    let part = Arc::new(InsertBatch {
        range: Some(RowRange { from: 0, to: 100 }),
        in_doubt: true,
        ..batch.clone()
    });
    let sound = Payload::of(&log.handle(), &part).unwrap();
    damage(dir.path(), &log, &batch, false);
    let damaged = Payload::of(&log.handle(), &part).unwrap();
    assert!(damaged.is_salvaged && !sound.is_salvaged);
    assert_eq!(damaged.lookup, sound.lookup);

    let sink = MemorySink::default();
    let mut others = Vec::new();
    for row in &rows[100..200] {
        row.append_to(&mut others);
    }
    sink.state().store("the other half", &others);
    let presence = damaged.lookup.look_up(&sink, Table::Events, month).await;
    assert_eq!(presence.unwrap(), Presence::None);
}

/// Regression: blocks that do not decompress although their checksums fit, as no disk makes them,
/// counted as damaged, and were dead-lettered once for each half.
#[tokio::test(start_paused = true)]
async fn a_section_that_does_not_decompress_is_dead_lettered_once_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
    let rows = [row(), row()];
    for row in &rows {
        row.append_to(&mut bytes);
    }
    Compressor::new().compress_into(&bytes, &mut blocks);
    // The size of the rows, in the header of the block.
    blocks[21] ^= 1;
    reseal_blocks(&mut blocks);
    let (log, batch) = logged_blocks(dir.path(), (rows.len(), bytes.len()), &blocks);
    let dead_letters = dir.path().join("dead-letters");
    let failure = (InsertOutcome::BadData, 117);
    let retries = Retries::new(1).0;
    let (context, _) = refusing_all((&log, failure), &dead_letters, retries);
    let executed = context.execute(0, Arc::new(batch), DeliveryStage::First);
    let result = executed.await;
    assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
    assert!(std::fs::read(only_file(&dead_letters, "blocks")).unwrap() == blocks);
}
