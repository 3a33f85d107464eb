//! Rows that can be read of a section that is damaged in the log.

use super::*;
use millrace_clickhouse::{Body, Found, QueryError};
use millrace_log::block::decompress_into_vec;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

/// A ClickHouse that keeps what it is sent, and restarts when it is told to.
#[derive(Clone, Default)]
struct Keeping(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    rows: Vec<u8>,
    tokens: Vec<String>,
    run: u128,
    /// An insert that goes on while we are gone.
    running: Option<(String, Vec<u8>)>,
    /// Whether the next insert does.
    hangs: bool,
}

impl Kept {
    fn store(&mut self, token: &str, rows: &[u8]) {
        if !self.tokens.iter().any(|known| known == token) {
            self.tokens.push(token.to_owned());
            self.rows.extend_from_slice(rows);
        }
    }
}

impl Keeping {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    fn uuids(&self) -> Vec<Uuid> {
        let rows = events(&self.kept().rows);
        rows.iter().map(|row| row.uuid).collect()
    }
}

impl Sink for Keeping {
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
        if std::mem::take(&mut self.kept().hangs) {
            self.kept().running = Some((token.to_owned(), rows));
            return std::future::pending().await;
        }
        self.kept().store(token, &rows);
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
    ) -> Result<Found, QueryError> {
        let there = self.uuids();
        let found = keys.iter().filter(|key| there.contains(&key.id)).count() as u64;
        Ok(Found {
            keys: found,
            rows: found,
        })
    }

    async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        let mut kept = self.kept();
        let is_running = kept.running.as_ref().is_some_and(|(of, _)| of == token);
        if is_running && let Some((token, rows)) = kept.running.take() {
            kept.store(&token, &rows);
        }
        Ok(is_running)
    }

    async fn server_run(&self, _: &str) -> Result<Uuid, QueryError> {
        Ok(Uuid::from_u128(self.kept().run))
    }

    async fn migrate(&self) -> Result<(), String> {
        Ok(())
    }
}

fn context(log: &Log, sink: &Keeping, poison: &Path) -> Arc<Context<Keeping>> {
    Arc::new(Context {
        lane: "live",
        node: "node".to_owned(),
        prefix: "node-live".to_owned(),
        log: log.handle(),
        sink: sink.clone(),
        poison_dir: PoisonDir::new(poison),
        retries: Retries::new(1).0,
        stores: Stores::default(),
    })
}

/// Bytes of the rows that a block has.
const BLOCK_ROWS_BYTES: usize = 64 << 10;

#[tokio::test(start_paused = true)]
async fn rows_that_damage_did_not_touch_are_sent_once_and_the_blocks_are_kept_as_they_are() {
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
        let (log, unit) = logged_rows(dir.path(), &rows);
        let unit = Unit {
            run: Some(Uuid::nil()),
            ..unit
        };
        let raw = source::read(&log.handle(), &unit.sections)
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

        let sink = Keeping::default();
        let poison = dir.path().join("poison");
        // Again, as after a crash before it was noted.
        for _ in 0..2 {
            let context = context(&log, &sink, &poison);
            let unit = Arc::new(unit.clone());
            let verdict = context.carry_out(0, unit, Standing::Fresh).await;
            assert_eq!(verdict, Verdict::Settled);
        }
        let gone = damaged * BLOCK_ROWS_BYTES..(damaged + 1) * BLOCK_ROWS_BYTES;
        let sound = rows.iter().enumerate().filter(|(nth, _)| {
            let start = nth.checked_sub(1).map_or(0, |before| ends[before]);
            ends[*nth] <= gone.start || start >= gone.end
        });
        let sound: Vec<Uuid> = sound.map(|(_, row)| row.uuid).collect();
        assert_eq!(sink.uuids(), sound, "block {damaged}");
        assert!(std::fs::read(only_file(&poison, "blocks")).unwrap() == kept);
        let label = std::fs::read_to_string(only_file(&poison, "json")).unwrap();
        let says = format!("{} of {} rows can be read", sound.len(), rows.len());
        assert!(label.contains(&says), "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_damaged_section_are_sent_once_though_the_server_restarts_and_we_crash() {
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
    let dir = tempfile::tempdir().unwrap();
    let (log, unit) = logged_rows(dir.path(), &rows);
    let raw = source::read(&log.handle(), &unit.sections)
        .unwrap()
        .concat();
    let segment = only_file(dir.path(), "log");
    let mut file = std::fs::read(&segment).unwrap();
    let start = file.windows(64).position(|it| it == &raw[..64]).unwrap();
    file[start + raw.len() - 5] ^= 1;
    std::fs::write(&segment, &file).unwrap();

    let sink = Keeping::default();
    let context = context(&log, &sink, &dir.path().join("poison"));
    let carry_out = |unit: &Unit<FrameSection>| {
        Arc::clone(&context).carry_out(0, Arc::new(unit.clone()), Standing::Fresh)
    };
    let first = Unit {
        run: Some(Uuid::nil()),
        ..unit
    };
    sink.kept().run = 1;
    assert_eq!(carry_out(&first).await, Verdict::Absent);
    assert!(sink.uuids().is_empty(), "not recorded, and sent");
    // As the plan records it.
    let mut next = Unit {
        attempt: 1,
        run: Some(Uuid::from_u128(1)),
        ..first
    };
    sink.kept().hangs = true;
    let sent = carry_out(&next);
    let crashed = tokio::time::timeout(Duration::from_secs(5), sent).await;
    assert!(crashed.is_err() && sink.kept().running.is_some());
    next.in_doubt = true;
    assert_eq!(carry_out(&next).await, Verdict::Settled);
    let stored = sink.uuids();
    let distinct: HashSet<Uuid> = stored.iter().copied().collect();
    assert_eq!(stored.len(), distinct.len(), "stored twice");
    assert!(stored.len() > 100 && stored.len() < rows.len());
}
