//! Inserts that some shards store and others do not.

use super::*;
use crate::ship::retries::FailureReport;
use crate::ship::sink::Sink;
use crate::ship::source::unpacked;
use millrace_clickhouse::{Body, EventVersion, PlacedKey, PresenceCount, QueryError};
use millrace_rows::RowKey;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

const SHARDS: usize = 3;
/// Distinct ids of nine rows.
const NINE: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// A row by its uuid and distinct id.
type StoredRow = (Uuid, String);

/// Fate of a shard's rows of one insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stored,
    NotStored,
    /// The shard is killed between the token and the rows.
    TokenOnly,
    /// Stored once it was asked whether the insert is running.
    Late,
}

use Fate::{Late, NotStored, Stored, TokenOnly};

/// Shards that store the rows of an insert each for itself, by their distinct id.
#[derive(Clone)]
struct Shards {
    tokens_are_atomic: bool,
    state: Arc<Mutex<ShardsState>>,
}

#[derive(Default)]
struct ShardsState {
    rows: Vec<StoredRow>,
    /// Tokens of each shard.
    tokens: [Vec<String>; SHARDS],
    fates: VecDeque<[Fate; SHARDS]>,
    boot_id: u128,
    /// Rows of shards that are still storing them.
    late: Vec<StoredRow>,
    /// Of each lookup to come, true if it is asked of a replica of the last shard that has no rows
    /// yet.
    behind: VecDeque<bool>,
    /// True if no insert is answered.
    answers_are_lost: bool,
    /// Exception of an insert that a shard did not store; by default a shard is gone.
    exception: Option<(InsertOutcome, u32)>,
    /// Number of lists of stored rows to come that fail.
    unlisted: usize,
    /// Number of lookups.
    lookups: usize,
    /// Numbers of rows that were sent.
    sent: Vec<usize>,
}

impl ShardsState {
    fn insert(&mut self, token: &str, rows: &[StoredRow]) -> bool {
        self.sent.push(rows.len());
        let fates = self.fates.pop_front().unwrap_or([Stored; SHARDS]);
        let mut are_stored = true;
        for (shard, fate) in fates.into_iter().enumerate() {
            let is_known = self.tokens[shard].iter().any(|known| known == token);
            let own = rows.iter().filter(|row| shard_of(row) == shard);
            let own: Vec<StoredRow> = own.cloned().collect();
            if is_known || own.is_empty() {
                continue;
            }
            are_stored &= fate == Stored;
            match fate {
                Stored => self.rows.extend(own),
                Late => self.late.extend(own),
                NotStored => continue,
                TokenOnly => self.boot_id += 1,
            }
            self.tokens[shard].push(token.to_owned());
        }
        are_stored
    }
}

impl ShardsState {
    /// Rows that the next lookup finds.
    fn seen(&mut self) -> Vec<StoredRow> {
        self.lookups += 1;
        let is_behind = self.behind.pop_front().unwrap_or_default();
        let seen = self.rows.iter();
        let seen = seen.filter(|row| !is_behind || shard_of(row) != SHARDS - 1);
        seen.cloned().collect()
    }
}

fn shard_of((_, distinct_id): &StoredRow) -> usize {
    distinct_id.parse::<usize>().unwrap() % SHARDS
}

impl Shards {
    fn new(tokens_are_atomic: bool, fates: &[[Fate; SHARDS]]) -> Self {
        let shards = Self {
            tokens_are_atomic,
            state: Arc::default(),
        };
        shards.state().fates = fates.iter().copied().collect();
        shards
    }

    fn state(&self) -> MutexGuard<'_, ShardsState> {
        self.state.lock().unwrap()
    }
}

impl Sink for Shards {
    fn tokens_are_atomic(&self) -> bool {
        self.tokens_are_atomic
    }

    fn is_sharded(&self) -> bool {
        true
    }

    async fn insert<B: Body>(&self, _: &str, token: &str, body: &B) -> Result<(), InsertError> {
        let (mut blocks, mut index) = (Vec::new(), 0);
        while let Some(piece) = body.piece(index).await? {
            blocks.extend(piece);
            index += 1;
        }
        let rows = events(&unpacked(&blocks).unwrap());
        let rows: Vec<StoredRow> = rows
            .into_iter()
            .map(|row| (row.uuid, row.distinct_id))
            .collect();
        let exception = self.state().exception;
        let are_stored = self.state().insert(token, &rows);
        match are_stored && !self.state().answers_are_lost {
            true => Ok(()),
            false => {
                let (outcome, code) = exception.unwrap_or((InsertOutcome::Unknown, 210));
                Err(InsertError {
                    outcome,
                    code: Some(code),
                    message: "a shard does not have its rows".to_owned(),
                })
            }
        }
    }

    async fn any_present(&self, _: Table, _: Month, _: &[RowKey]) -> Result<bool, QueryError> {
        panic!("a few keys do not tell whether all shards have their rows");
    }

    async fn count_present(
        &self,
        _: Table,
        _: Month,
        keys: &[RowKey],
    ) -> Result<PresenceCount, QueryError> {
        let seen = self.state().seen();
        let is_stored = |key: &&RowKey| seen.iter().any(|row| row.0 == key.id);
        let found = seen.iter();
        let rows = found.filter(|row| keys.iter().any(|key| key.id == row.0));
        Ok(PresenceCount {
            keys: keys.iter().filter(is_stored).count() as u64,
            rows: rows.count() as u64,
        })
    }

    async fn present_keys(
        &self,
        _: Table,
        _: Month,
        keys: &[RowKey],
    ) -> Result<Vec<PlacedKey>, QueryError> {
        let seen = {
            let mut state = self.state();
            if let Some(left) = state.unlisted.checked_sub(1) {
                state.unlisted = left;
                return Err(QueryError::without_code("a shard is away"));
            }
            state.seen()
        };
        let placed = |row: &StoredRow| {
            let key = keys.iter().find(|key| key.id == row.0)?;
            Some(PlacedKey {
                key: *key,
                place: Some(PlacedKey::place_of(row.1.as_bytes())),
            })
        };
        let found: HashSet<PlacedKey> = seen.iter().filter_map(placed).collect();
        Ok(found.into_iter().collect())
    }

    async fn are_stored_or_replaced(
        &self,
        _: Month,
        _: &[EventVersion],
    ) -> Result<bool, QueryError> {
        Ok(false)
    }

    async fn insert_is_running(&self, _: &str) -> Result<bool, QueryError> {
        let mut state = self.state();
        let late = std::mem::take(&mut state.late);
        let is_running = !late.is_empty();
        state.rows.extend(late);
        Ok(is_running)
    }

    async fn server_boot_id(&self, _: &str) -> Result<Uuid, QueryError> {
        Ok(Uuid::from_u128(self.state().boot_id))
    }

    async fn migrate(&self) -> Result<(), String> {
        Ok(())
    }
}

fn nine_rows() -> Vec<EventRow<'static>> {
    rows_of([1, 2, 3, 4, 5, 6, 7, 8, 9])
}

/// Nine rows of which some have one uuid: on two shards, and on one.
fn nine_rows_with_twins() -> Vec<EventRow<'static>> {
    rows_of([1, 1, 3, 4, 4, 3, 7, 7, 7])
}

fn rows_of(uuids: [u128; 9]) -> Vec<EventRow<'static>> {
    let row_of = |(id, distinct_id): (u128, &'static str)| EventRow {
        uuid: Uuid::from_u128(id),
        distinct_id: distinct_id.as_bytes(),
        ..row()
    };
    uuids.into_iter().zip(NINE).map(row_of).collect()
}

fn stored(rows: &[EventRow<'_>]) -> Vec<StoredRow> {
    let distinct_id = |row: &EventRow<'_>| String::from_utf8(row.distinct_id.to_vec()).unwrap();
    let rows = rows.iter().map(|row| (row.uuid, distinct_id(row)));
    let mut rows: Vec<StoredRow> = rows.collect();
    rows.sort_unstable();
    rows
}

/// Executes a batch until it is stored, as a plan would.
async fn store(log: &Log, sink: &Shards, mut batch: InsertBatch<FrameSection>, dir: &Path) {
    batch.boot_id = Some(Uuid::from_u128(sink.state().boot_id));
    for _ in 0..50 {
        let context = Arc::new(insert_context(log, sink.clone(), dir));
        let executed = context.execute(0, Arc::new(batch.clone()), DeliveryStage::First);
        let result = executed.await;
        let boot_id = Some(Uuid::from_u128(sink.state().boot_id));
        match result {
            InsertResult::Stored => return,
            InsertResult::InDoubt => (batch.in_doubt, batch.is_suspect) = (true, true),
            InsertResult::Incomplete => {
                batch.attempt += 1;
                batch.boot_id = boot_id;
                (batch.in_doubt, batch.is_suspect) = (true, true);
            }
            InsertResult::Absent => {
                batch.attempt += 1;
                batch.boot_id = boot_id;
                (batch.in_doubt, batch.is_suspect) = (false, false);
            }
            InsertResult::Restarted => batch.boot_id = boot_id,
            other => panic!("{other:?}"),
        }
    }
    panic!("not stored after fifty executions");
}

fn assert_once(sink: &Shards, rows: &[EventRow<'_>], case: &[[Fate; SHARDS]]) {
    let mut found = sink.state().rows.clone();
    found.sort_unstable();
    assert_eq!(found, stored(rows), "{case:?}");
}

/// All combinations of these fates.
fn combinations(fates: &[Fate]) -> Vec<[Fate; SHARDS]> {
    let mut all = Vec::new();
    for one in fates {
        for other in fates {
            all.extend(fates.iter().map(|third| [*one, *other, *third]));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn shards_that_fail_in_any_two_tries_get_each_row_once() {
    fail_in_two_tries(&nine_rows()).await;
}

#[tokio::test(start_paused = true)]
async fn rows_of_one_uuid_on_several_shards_are_each_stored_once_by_shards_that_fail() {
    fail_in_two_tries(&nine_rows_with_twins()).await;
}

async fn fail_in_two_tries(rows: &[EventRow<'static>]) {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), rows);
    // Replicated tables record a token with its rows.
    for (is_atomic, fates) in [
        (false, vec![Stored, NotStored, TokenOnly]),
        (true, vec![Stored, NotStored]),
    ] {
        let all = combinations(&fates);
        for first in &all {
            for second in &all {
                let case = [*first, *second];
                let sink = Shards::new(is_atomic, &case);
                store(&log, &sink, batch.clone(), dir.path()).await;
                assert_once(&sink, rows, &case);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_in_doubt_after_a_restart_is_completed_although_its_token_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &nine_rows());
    for is_atomic in [false, true] {
        let sink = Shards::new(is_atomic, &[[Stored, NotStored, Stored]]);
        let token = batch.token("node-live");
        assert!(!sink.state().insert(&token, &stored(&nine_rows())));
        sink.state().tokens = <[Vec<String>; SHARDS]>::default();
        let in_doubt = InsertBatch {
            in_doubt: true,
            ..batch.clone()
        };
        store(&log, &sink, in_doubt, dir.path()).await;
        assert_once(&sink, &nine_rows(), &[]);
        assert_eq!(sink.state().sent, [9, 3], "only the missing rows again");
    }
}

#[tokio::test(start_paused = true)]
async fn an_exception_of_one_shard_does_not_send_the_rows_of_others_again() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &nine_rows());
    let sink = Shards::new(true, &[[NotStored, Stored, Stored]; 3]);
    store(&log, &sink, batch, dir.path()).await;
    assert_once(&sink, &nine_rows(), &[]);
    assert_eq!(sink.state().sent, [9, 3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn rows_that_a_shard_refuses_are_not_halved_while_another_still_stores_them() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &nine_rows());
    for is_atomic in [false, true] {
        let sink = Shards::new(is_atomic, &[[Late; SHARDS]]);
        sink.state().exception = Some((InsertOutcome::BadData, 469));
        let waited = InsertBatch {
            in_doubt: true,
            is_suspect: true,
            ..batch.clone()
        };
        store(&log, &sink, waited, dir.path()).await;
        assert_once(&sink, &nine_rows(), &[]);
        assert_eq!(sink.state().sent, [9]);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_cannot_be_read_are_the_rows_if_it_is_so_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &nine_rows());
    let waited = InsertBatch {
        in_doubt: true,
        is_suspect: true,
        boot_id: Some(Uuid::nil()),
        ..batch
    };
    // Exception, number of tries that it is answered, and whether rows are to blame then.
    for (code, tries, is_refused) in [(33, 1, false), (33, 2, true), (469, 1, true)] {
        for is_atomic in [false, true] {
            let sink = Shards::new(is_atomic, &vec![[NotStored; SHARDS]; tries]);
            sink.state().exception = Some((InsertOutcome::BadData, code));
            let context = Arc::new(insert_context(&log, sink.clone(), dir.path()));
            let executed = context.execute(0, Arc::new(waited.clone()), DeliveryStage::First);
            let result = executed.await;
            match is_refused {
                true => assert!(matches!(result, InsertResult::Refused(_)), "{result:?}"),
                false => assert_once(&sink, &nine_rows(), &[]),
            }
            assert_eq!(sink.state().sent.len(), tries + usize::from(!is_refused));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_insert_that_another_one_precedes_is_sent_again_before_its_rows_are_looked_up() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &nine_rows());
    for (lost, sent) in [(3, vec![9; 4]), (22, [vec![9; 21], vec![3; 2]].concat())] {
        let sink = Shards::new(true, &vec![[NotStored, Stored, Stored]; lost]);
        sink.state().exception = Some((InsertOutcome::Unknown, 286));
        store(&log, &sink, batch.clone(), dir.path()).await;
        assert_once(&sink, &nine_rows(), &[]);
        assert_eq!(sink.state().sent, sent);
        assert_eq!(sink.state().lookups > 0, lost > 20);
    }
    // The other one may be the batch that this is a part of.
    let sink = Shards::new(true, &[[NotStored; SHARDS]]);
    sink.state().exception = Some((InsertOutcome::Unknown, 286));
    let context = Arc::new(insert_context(&log, sink, dir.path()));
    let part = InsertBatch {
        is_part: true,
        ..batch
    };
    let executed = context.execute(0, Arc::new(part), DeliveryStage::First);
    assert!(matches!(executed.await, InsertResult::InDoubt));
}

#[tokio::test(start_paused = true)]
async fn a_batch_counts_as_failing_while_it_cannot_be_asked_which_rows_shards_lack() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &nine_rows());
    let sink = Shards::new(true, &[[NotStored, Stored, Stored]]);
    sink.state().unlisted = 5;
    let (retries, mut reports) = Retries::new(1);
    let context = Arc::new(InsertContext {
        retries,
        ..insert_context(&log, sink.clone(), dir.path())
    });
    let sent = Arc::clone(&context).execute(7, Arc::new(batch.clone()), DeliveryStage::First);
    assert!(matches!(sent.await, InsertResult::InDoubt));
    let in_doubt = InsertBatch {
        in_doubt: true,
        is_suspect: true,
        ..batch
    };
    let completed = context.execute(7, Arc::new(in_doubt), DeliveryStage::First);
    assert!(matches!(completed.await, InsertResult::Stored));
    assert_once(&sink, &nine_rows(), &[]);
    let expected = FailureReport {
        id: 7,
        is_unreachable: false,
        is_parked: false,
    };
    assert_eq!(reports.try_recv(), Ok(expected));
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_of_rows_that_other_shards_may_have_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (log, mut batch) = logged_rows(dir.path(), &nine_rows());
    batch.key.insert_target = "events(uuid,colour)".into();
    (batch.in_doubt, batch.is_suspect) = (true, true);
    let sink = Shards::new(true, &[[NotStored, Stored, Stored]]);
    sink.state().exception = Some((InsertOutcome::BadData, 469));
    let dead_letters = dir.path().join("dead-letters");
    let context = Arc::new(insert_context(&log, sink, &dead_letters));
    let executed = context.execute(0, Arc::new(batch), DeliveryStage::First);
    assert!(matches!(executed.await, InsertResult::DeadLettered));
    let label = std::fs::read_to_string(only_file(&dead_letters, "json")).unwrap();
    assert!(label.contains("may have stored rows of these"), "{label}");
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_behind_do_not_have_rows_sent_under_another_token() {
    for rows in [nine_rows(), nine_rows_with_twins()] {
        let dir = tempfile::tempdir().unwrap();
        let (log, batch) = logged_rows(dir.path(), &rows);
        // The first four lookups, in any order of replicas that are behind and not.
        for case in 0..16 {
            let sink = Shards::new(true, &[]);
            sink.state().behind = (0..4).map(|nth| case >> nth & 1 == 1).collect();
            sink.state().answers_are_lost = true;
            let context = Arc::new(insert_context(&log, sink.clone(), dir.path()));
            let sent = Arc::new(batch.clone());
            let sent = context.execute(0, sent, DeliveryStage::First).await;
            assert!(matches!(sent, InsertResult::InDoubt), "{sent:?}");
            sink.state().answers_are_lost = false;
            let in_doubt = InsertBatch {
                in_doubt: true,
                is_suspect: true,
                ..batch.clone()
            };
            store(&log, &sink, in_doubt, dir.path()).await;
            assert_once(&sink, &rows, &[]);
            let tokens = sink.state().tokens.clone();
            assert!(tokens.iter().all(|known| known.len() == 1), "{tokens:?}");
        }
    }
}

/// A batch of two sections, of which the lookup knows the keys in their headers only: both are of
/// one shard.
fn unknown_sections(dir: &Path) -> (Log, InsertBatch<FrameSection>, Vec<EventRow<'static>>) {
    let first = nine_rows();
    let second = rows_of([11, 12, 13, 14, 15, 16, 17, 18, 19]);
    let (mut log, mut batch) = logged_rows(dir, &first);
    let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
    for row in &second {
        row.append_to(&mut bytes);
    }
    Compressor::new().compress_into(&bytes, &mut blocks);
    let header = SectionHeader {
        insert_target: Table::Events.insert_target().to_owned(),
        month: batch.key.month.0,
        rows: second.len() as u32,
        uncompressed_bytes: bytes.len() as u64,
        keys: vec![second[0].key().to_bytes()],
    };
    log.append(&[millrace_log::Section {
        header: &header,
        blocks: &blocks,
    }])
    .unwrap();
    log.sync().unwrap();
    let mut frames = log.handle().reader(Position::FIRST);
    frames.next().unwrap().unwrap();
    let frame = frames.next().unwrap().unwrap();
    batch.sections.push(Section {
        position: SectionPosition {
            frame: frame.position,
            section: 0,
        },
        rows: header.rows,
        row_bytes: bytes.len() as u64,
        keys: vec![second[0].key()],
        is_suspect: false,
        source: frame.sections[0].clone(),
    });
    batch.span = LogSpan::of(&batch.sections).unwrap();
    batch.key.insert_target = "events(uuid,colour)".into();
    (log, batch, [first, second].concat())
}

#[tokio::test(start_paused = true)]
async fn a_few_keys_of_sections_that_cannot_be_cut_do_not_stand_for_rows_of_other_shards() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch, rows) = unknown_sections(dir.path());
    for is_atomic in [false, true] {
        for fates in combinations(&[Stored, NotStored]) {
            let sink = Shards::new(is_atomic, &[fates]);
            store(&log, &sink, batch.clone(), dir.path()).await;
            assert_once(&sink, &rows, &[fates]);
            let tokens = sink.state().tokens.clone();
            assert!(tokens.iter().all(|known| known.len() == 1), "{tokens:?}");
        }
    }
}
