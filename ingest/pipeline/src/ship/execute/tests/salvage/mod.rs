//! Salvage of readable rows of a section that is damaged in the log.

mod parts;

use super::*;
use millrace_blocks::decompress_into_vec;
use millrace_clickhouse::{Body, EventVersion, PresenceCount, QueryError};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

/// A ClickHouse that keeps the rows it is sent, and restarts when a test says so.
#[derive(Clone, Default)]
struct MemorySink(Arc<Mutex<MemorySinkState>>);

#[derive(Default)]
struct MemorySinkState {
    rows: Vec<u8>,
    tokens: Vec<String>,
    boot_id: u128,
    /// An insert that goes on while its client is gone.
    running: Option<(String, Vec<u8>)>,
    /// True if the next insert hangs like that.
    hangs: bool,
}

impl MemorySinkState {
    fn store(&mut self, token: &str, rows: &[u8]) {
        if !self.tokens.iter().any(|known| known == token) {
            self.tokens.push(token.to_owned());
            self.rows.extend_from_slice(rows);
        }
    }
}

impl MemorySink {
    fn state(&self) -> MutexGuard<'_, MemorySinkState> {
        self.0.lock().unwrap()
    }

    fn uuids(&self) -> Vec<Uuid> {
        let rows = events(&self.state().rows);
        rows.iter().map(|row| row.uuid).collect()
    }
}

impl Sink for MemorySink {
    fn tokens_are_atomic(&self) -> bool {
        false
    }

    async fn insert<B: Body>(&self, _: &str, token: &str, body: &B) -> Result<(), InsertError> {
        let (mut rows, mut index) = (Vec::new(), 0);
        while let Some(pieces) = body.piece(index).await? {
            for piece in pieces {
                decompress_into_vec(&piece, &mut rows, 1 << 24).unwrap();
            }
            index += 1;
        }
        if std::mem::take(&mut self.state().hangs) {
            self.state().running = Some((token.to_owned(), rows));
            return std::future::pending().await;
        }
        self.state().store(token, &rows);
        Ok(())
    }

    async fn any_present(&self, _: Table, _: Month, keys: &[RowKey]) -> Result<bool, QueryError> {
        let there = self.uuids();
        Ok(keys.iter().any(|key| there.contains(&key.id)))
    }

    async fn count_present(
        &self,
        _: Table,
        _: Month,
        keys: &[RowKey],
    ) -> Result<PresenceCount, QueryError> {
        let there = self.uuids();
        let found = keys.iter().filter(|key| there.contains(&key.id)).count() as u64;
        Ok(PresenceCount {
            keys: found,
            rows: found,
        })
    }

    async fn are_stored_or_replaced(
        &self,
        _: Month,
        _: &[EventVersion],
    ) -> Result<bool, QueryError> {
        Ok(false)
    }

    async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        let mut state = self.state();
        let is_running = state.running.as_ref().is_some_and(|(of, _)| of == token);
        if is_running && let Some((token, rows)) = state.running.take() {
            state.store(&token, &rows);
        }
        Ok(is_running)
    }

    async fn server_boot_id(&self, _: &str) -> Result<Uuid, QueryError> {
        Ok(Uuid::from_u128(self.state().boot_id))
    }

    async fn migrate(&self) -> Result<(), String> {
        Ok(())
    }
}

fn context(log: &Log, sink: &MemorySink, dead_letters: &Path) -> Arc<InsertContext<MemorySink>> {
    Arc::new(InsertContext {
        lane: "live",
        node: "node".to_owned(),
        prefix: "node-live".to_owned(),
        log: log.handle(),
        sink: sink.clone(),
        dead_letters: DeadLetters::new(dead_letters, 0),
        retries: Retries::new(1).0,
        stored_counts: StoredCounts::default(),
        damaged_places: DamagedPlaces::default(),
    })
}

/// Bytes of rows in a block.
const BLOCK_ROWS_BYTES: usize = 64 << 10;

#[tokio::test(start_paused = true)]
async fn undamaged_rows_are_sent_once_and_the_blocks_are_dead_lettered_unchanged() {
    let text = |nth: usize| {
        let text = "x}".repeat(nth + 300);
        format!(r#"{{"text":"{text}","nested":{{"n":{nth}}}}}"#)
    };
    let texts: Vec<String> = (0..400).map(text).collect();
    let properties: Vec<[&[u8]; 1]> = texts.iter().map(|text| [text.as_bytes()]).collect();
    let numbered = (1_u128..).zip(&properties);
    let rows: Vec<EventRow<'_>> = numbered
        .map(|(nth, properties)| EventRow {
            uuid: Uuid::from_u128(nth),
            properties,
            ..row()
        })
        .collect();
    let mut ends = Vec::new();
    let mut bytes = Vec::new();
    for row in &rows {
        row.append_to(&mut bytes);
        ends.push(bytes.len());
    }
    let count = bytes.len().div_ceil(BLOCK_ROWS_BYTES);
    assert!(count > 3, "blocks: {count}");
    for damaged in 0..count {
        let dir = tempfile::tempdir().unwrap();
        let (log, batch) = logged_rows(dir.path(), &rows);
        let batch = InsertBatch {
            boot_id: Some(Uuid::nil()),
            ..batch
        };
        let raw = source::read(&log.handle(), &batch.sections)
            .unwrap()
            .concat();
        let mut at = 0;
        for _ in 0..damaged {
            let covered: [u8; 4] = raw[at + 17..at + 21].try_into().unwrap();
            at += 16 + u32::from_le_bytes(covered) as usize;
        }
        let segment = only_file(dir.path(), "log");
        let mut file = std::fs::read(&segment).unwrap();
        let start = file.windows(64).position(|it| it == &raw[..64]).unwrap();
        file[start + at + 40] ^= 1;
        std::fs::write(&segment, &file).unwrap();
        let kept = &file[start..start + raw.len()];

        let sink = MemorySink::default();
        let dead_letters = dir.path().join("dead-letters");
        // A second time, as after a crash before the outcome was recorded.
        for _ in 0..2 {
            let context = context(&log, &sink, &dead_letters);
            let batch = Arc::new(batch.clone());
            let result = context.execute(0, batch, DeliveryStage::First).await;
            assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
        }
        let gone = damaged * BLOCK_ROWS_BYTES..(damaged + 1) * BLOCK_ROWS_BYTES;
        let sound = rows.iter().enumerate().filter(|(nth, _)| {
            let start = nth.checked_sub(1).map_or(0, |before| ends[before]);
            ends[*nth] <= gone.start || start >= gone.end
        });
        let sound: Vec<Uuid> = sound.map(|(_, row)| row.uuid).collect();
        assert_eq!(sink.uuids(), sound, "block {damaged}");
        assert!(std::fs::read(only_file(&dead_letters, "blocks")).unwrap() == kept);
        let label = std::fs::read_to_string(only_file(&dead_letters, "json")).unwrap();
        let says = format!("{} of {} rows can be read", sound.len(), rows.len());
        assert!(label.contains(&says), "{label}");
    }
}

/// A log with 400 rows in a section, of which the first or the last block is damaged.
fn damaged(dir: &Path, is_first: bool) -> (Log, InsertBatch<FrameSection>) {
    let texts: Vec<String> = (0..400)
        .map(|nth| format!(r#"{{"text":"{nth:0>400}"}}"#))
        .collect();
    let properties: Vec<[&[u8]; 1]> = texts.iter().map(|text| [text.as_bytes()]).collect();
    let numbered = (1_u128..).zip(&properties);
    let rows: Vec<EventRow<'_>> = numbered
        .map(|(nth, properties)| EventRow {
            uuid: Uuid::from_u128(nth),
            properties,
            ..row()
        })
        .collect();
    let (log, batch) = logged_rows(dir, &rows);
    damage(dir, &log, &batch, is_first);
    (log, batch)
}

/// Damages the first or the last block of a batch's only section.
fn damage(dir: &Path, log: &Log, batch: &InsertBatch<FrameSection>, is_first: bool) {
    let raw = source::read(&log.handle(), &batch.sections)
        .unwrap()
        .concat();
    let segment = only_file(dir, "log");
    let mut file = std::fs::read(&segment).unwrap();
    let start = file.windows(64).position(|it| it == &raw[..64]).unwrap();
    let at = if is_first { 40 } else { raw.len() - 5 };
    file[start + at] ^= 1;
    std::fs::write(&segment, &file).unwrap();
}

#[tokio::test(start_paused = true)]
async fn damage_and_what_becomes_of_its_rows_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), true);
    let batch = InsertBatch {
        boot_id: Some(Uuid::nil()),
        ..batch
    };
    let sink = MemorySink::default();
    let context = context(&log, &sink, &dir.path().join("dead-letters"));
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let batch = Arc::new(batch);
    let result = context.execute(0, batch, DeliveryStage::First).await;
    assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
    let stored = sink.uuids().len();
    assert!((101..400).contains(&stored), "{stored}");
    let told = recorder.handle().render();
    for (name, count) in [
        ("millrace_log_damaged_total", 1),
        ("millrace_insert_rows_salvaged_total", stored),
        ("millrace_insert_rows_dead_lettered_total", 400 - stored),
    ] {
        let counted = format!("{name}{{lane=\"live\"}} {count}");
        assert!(
            told.lines().any(|line| line == counted),
            "{counted}: {told}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_damaged_section_are_sent_once_although_server_and_shipper_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), false);
    let sink = MemorySink::default();
    let context = context(&log, &sink, &dir.path().join("dead-letters"));
    let execute = |batch: &InsertBatch<FrameSection>| {
        Arc::clone(&context).execute(0, Arc::new(batch.clone()), DeliveryStage::First)
    };
    let first = InsertBatch {
        boot_id: Some(Uuid::nil()),
        ..batch
    };
    sink.state().boot_id = 1;
    let result = execute(&first).await;
    assert!(matches!(result, InsertResult::Absent), "{result:?}");
    assert!(sink.uuids().is_empty(), "not recorded, and sent");
    // As the plan records it.
    let mut next = InsertBatch {
        attempt: 1,
        boot_id: Some(Uuid::from_u128(1)),
        ..first
    };
    sink.state().hangs = true;
    let sent = execute(&next);
    let crashed = tokio::time::timeout(Duration::from_secs(5), sent).await;
    assert!(crashed.is_err() && sink.state().running.is_some());
    next.in_doubt = true;
    let result = execute(&next).await;
    assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
    let stored = sink.uuids();
    let distinct: HashSet<Uuid> = stored.iter().copied().collect();
    assert_eq!(stored.len(), distinct.len(), "stored twice");
    assert!((101..400).contains(&stored.len()));
}

/// Executes a batch as the lane does, while the shipper crashes in the next inserts. Of each of
/// these the rows are stored or not, and the server restarts as well or not.
async fn settle(
    context: &Arc<InsertContext<MemorySink>>,
    sink: &MemorySink,
    mut batch: InsertBatch<FrameSection>,
    mut crashes: Vec<(bool, bool)>,
) {
    for _ in 0..20 {
        sink.state().hangs = !crashes.is_empty();
        let executed =
            Arc::clone(context).execute(0, Arc::new(batch.clone()), DeliveryStage::First);
        let result = tokio::time::timeout(Duration::from_secs(5), executed).await;
        let now = Some(Uuid::from_u128(sink.state().boot_id));
        match result {
            Ok(InsertResult::Stored | InsertResult::DeadLettered) => return,
            Ok(InsertResult::Absent) => {
                batch.attempt += 1;
                batch.in_doubt = false;
                batch.boot_id = now;
            }
            Ok(InsertResult::Restarted) => batch.boot_id = now,
            Ok(other) => panic!("{other:?}"),
            Err(_) => {
                let (is_stored, restarts) = crashes.pop().unwrap();
                let mut state = sink.state();
                if is_stored && let Some((token, rows)) = state.running.take() {
                    state.store(&token, &rows);
                }
                if restarts {
                    state.running = None;
                    state.boot_id += 1;
                }
                batch.in_doubt = true;
            }
        }
    }
    panic!("not settled: {batch:?}");
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_are_sent_once_whatever_crashes_between_two_tries() {
    let faults = [(false, false), (false, true), (true, false), (true, true)];
    let twice = faults
        .into_iter()
        .flat_map(|it| faults.map(|other| vec![it, other]));
    for crashes in twice {
        for is_first in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (log, batch) = damaged(dir.path(), is_first);
            let sink = MemorySink::default();
            let context = context(&log, &sink, &dir.path().join("dead-letters"));
            let batch = InsertBatch {
                boot_id: Some(Uuid::nil()),
                ..batch
            };
            let case = format!("{crashes:?}, {is_first}");
            settle(&context, &sink, batch, crashes.clone()).await;
            let stored = sink.uuids();
            let distinct: HashSet<Uuid> = stored.iter().copied().collect();
            assert_eq!(stored.len(), distinct.len(), "stored twice: {case}");
            assert!(
                (101..400).contains(&stored.len()),
                "{case}: {}",
                stored.len()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_that_clickhouse_cannot_read_are_sent_by_halves() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), true);
    let (retries, dead_letters) = (Retries::new(1).0, dir.path().join("dead-letters"));
    let failure = (InsertOutcome::BadData, 117);
    let (context, _) = refusing_all((&log, failure), dead_letters, retries);
    let executed = context.execute(0, Arc::new(batch), DeliveryStage::First);
    let result = executed.await;
    assert!(matches!(result, InsertResult::Refused(_)), "{result:?}");
}

/// A context whose every insert fails alike, and the number of inserts so far.
fn refusing_all(
    (log, (outcome, code)): (&Log, (InsertOutcome, u32)),
    dead_letters: PathBuf,
    retries: Retries,
) -> (Arc<InsertContext<FakeSink>>, Arc<AtomicU32>) {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let sink = FakeSink::answering(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(InsertError {
            outcome,
            code: Some(code),
            message: "no".to_owned(),
        })
    });
    let context = InsertContext {
        lane: "live",
        node: "node".to_owned(),
        prefix: "node-live".to_owned(),
        log: log.handle(),
        sink,
        dead_letters: DeadLetters::new(dead_letters, 0),
        retries,
        stored_counts: StoredCounts::default(),
        damaged_places: DamagedPlaces::default(),
    };
    (Arc::new(context), tries)
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_refused_for_no_known_reason_are_given_up_once_others_are_stored() {
    // Code 241 means too little memory: never the fault of so few rows.
    for (code, is_given_up) in [(395, true), (241, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, batch) = damaged(dir.path(), true);
        let (key, batch) = (batch.key.clone(), Arc::new(batch));
        let dead_letters = dir.path().join("dead-letters");
        let failure = (InsertOutcome::Unknown, code);
        let (context, tries) = refusing_all((&log, failure), dead_letters, Retries::new(1).0);
        for _ in 0..10 {
            context.stored_counts.count(&key);
        }
        let execute = |stage| Arc::clone(&context).execute(7, Arc::clone(&batch), stage);
        let first = execute(DeliveryStage::First).await;
        assert!(is_unproven(&first), "the server may be to blame: {first:?}");
        let mut executed = tokio::spawn(execute(DeliveryStage::LastPart));
        let an_hour = Duration::from_secs(3_600);
        let waited = tokio::time::timeout(an_hour, &mut executed).await;
        assert!(waited.is_err(), "given up while nothing else is stored");
        assert!(tries.load(Ordering::Relaxed) > 100, "tried on");
        let result = loop {
            context.stored_counts.count(&key);
            let waited = tokio::time::timeout(Duration::from_secs(10), &mut executed).await;
            if let Ok(result) = waited {
                break result.unwrap();
            }
        };
        match is_given_up {
            true => assert!(matches!(result, InsertResult::DeadLettered), "{result:?}"),
            false => assert!(is_unproven(&result), "{result:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_for_which_memory_is_missing_count_as_failing_and_as_retried() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), true);
    let (retries, mut reports) = Retries::new(1);
    let dead_letters = dir.path().join("dead-letters");
    let failure = (InsertOutcome::Unknown, 241);
    let (context, tries) = refusing_all((&log, failure), dead_letters, retries);
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _local = metrics::set_default_local_recorder(&recorder);
    let executed = context.execute(7, Arc::new(batch), DeliveryStage::LastPart);
    let waited = tokio::time::timeout(Duration::from_secs(60), executed).await;
    assert!(waited.is_err(), "given up");
    let report = reports.try_recv().unwrap();
    assert_eq!((report.id, report.is_unreachable), (7, false));
    let told = metrics.render();
    let told = told
        .lines()
        .find(|line| line.starts_with("millrace_insert_retries_total"));
    assert!(told.is_some_and(|it| it.contains("unknown")), "{told:?}");
    assert!(tries.load(Ordering::Relaxed) > 5);
}
