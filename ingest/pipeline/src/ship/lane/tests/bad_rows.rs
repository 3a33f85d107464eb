//! Rows that are refused for no known reason, more of them than can be proven bad at once.

use super::*;
use millrace_clickhouse::{InsertError, InsertOutcome};
use millrace_log::fs::DiskFs;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Rows of a second, in one frame: of 2 % of them in half a minute more are bad than may be proven
/// bad at once.
const ROWS: u32 = 200;

/// A lane that ships while rows are appended, some of them bad.
struct BadRows {
    env: TestEnv,
    /// Events that the sink has stored, by their number.
    stored: Arc<Mutex<BTreeSet<u128>>>,
    rows: u128,
    /// Bad rows are not refused any more.
    is_mended: Arc<AtomicBool>,
}

impl BadRows {
    async fn start() -> Self {
        Self::start_in("/log", MemoryFs::new()).await
    }

    /// Starts with a log in the folder `dir`.
    async fn start_in(dir: impl Into<PathBuf>, fs: impl Fs + 'static) -> Self {
        let (env, output) = TestEnv::open(dir, fs);
        let stored = Arc::<Mutex<BTreeSet<u128>>>::default();
        let is_mended = Arc::<AtomicBool>::default();
        let sink = FakeSink::answering_by_rows({
            let (stored, is_mended) = (Arc::clone(&stored), Arc::clone(&is_mended));
            move |rows| respond(rows, &stored, is_mended.load(Ordering::Relaxed))
        });
        let shipper = env.shipper(output, sink).await;
        tokio::spawn(shipper.run(std::future::pending()));
        Self {
            env,
            stored,
            rows: 0,
            is_mended,
        }
    }

    /// Appends a frame of rows, bad or not, and returns its position.
    fn append(&mut self, are_bad: impl IntoIterator<Item = bool>) -> Position {
        let numbered = (self.rows + 1..).zip(are_bad);
        let rows = numbered.map(|(nth, is_bad)| match is_bad {
            true => row(nth, b"bad"),
            false => row(nth, b"good"),
        });
        let rows: Vec<EventRow<'_>> = rows.collect();
        self.rows += rows.len() as u128;
        self.env.append(&rows)
    }

    /// Appends so many bad rows, and damages the last of their blocks in the log's only segment,
    /// which is in the folder `dir`. Returns once they are in a batch of their own.
    async fn append_damaged(&mut self, dir: &Path, rows: usize) {
        let position = self.append(vec![true; rows]);
        let mut reader = self.env.log.handle().reader(position);
        let frame = reader.next().unwrap().unwrap();
        let raw = reader.read_blocks(&frame.sections[0]).unwrap();
        let path = dir.join("00000000000000000001.log");
        let bytes = std::fs::read(&path).unwrap();
        let start = bytes.windows(64).position(|it| it == &raw[..64]).unwrap();
        let at = start + raw.len() - 5;
        let segment = std::fs::File::options().write(true).open(path).unwrap();
        segment.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
        sleep(Duration::from_secs(2)).await;
    }

    /// Appends rows for so many seconds, each of them bad by a chance.
    async fn live(&mut self, seconds: u32, rows: u32, chance: f64) {
        let mut random = rand::rngs::StdRng::seed_from_u64(1);
        for _ in 0..seconds {
            let rows: Vec<bool> = (0..rows).map(|_| random.random_bool(chance)).collect();
            self.append(rows);
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Number of dead letters, of two files each.
    fn dead_letters(&self) -> usize {
        let files = std::fs::read_dir(self.env.dead_letters.path()).unwrap();
        files.count() / 2
    }

    /// Waits until everything is stored or dead-lettered; returns the number of each.
    async fn settled_within(&mut self, time: Duration) -> (usize, usize) {
        let waited = tokio::time::timeout(time, self.env.wait_until_settled()).await;
        waited.expect("rows wait without an end");
        (self.stored.lock().unwrap().len(), self.dead_letters())
    }
}

/// Refuses rows among which one is bad, with FUNCTION_THROW_IF_VALUE_IS_NON_ZERO, as a view does.
fn respond(
    rows: &[u8],
    stored: &Mutex<BTreeSet<u128>>,
    is_mended: bool,
) -> Result<(), InsertError> {
    let rows = millrace_rows::testing::events(rows);
    if !is_mended && rows.iter().any(|row| row.event == "bad") {
        return Err(InsertError {
            outcome: InsertOutcome::Unknown,
            code: Some(395),
            message: "no".to_owned(),
        });
    }
    let mut stored = stored.lock().unwrap();
    for row in rows {
        assert!(stored.insert(row.uuid.as_u128()), "stored twice: {row:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn rows_refused_for_no_known_reason_hold_up_their_month_for_a_while_and_no_longer() {
    let mut env = BadRows::start().await;
    env.live(60, ROWS, 0.02).await;
    // Stored rows are the proof that the others are bad.
    env.live(600, 1, 0.0).await;
    let (stored, bad) = env.settled_within(Duration::from_secs(60)).await;
    assert_eq!((stored + bad) as u128, env.rows);
    assert!((200..300).contains(&bad), "{bad}");
}

#[tokio::test(start_paused = true)]
async fn bad_rows_that_come_all_at_once_are_found_though_little_comes_behind_them() {
    let mut env = BadRows::start().await;
    for _ in 0..2 {
        env.append(vec![true; 200]);
        env.live(20, ROWS, 0.01).await;
    }
    env.live(900, 1, 0.0).await;
    let (stored, bad) = env.settled_within(Duration::from_secs(60)).await;
    assert_eq!((stored + bad) as u128, env.rows);
    assert!(bad >= 400, "{bad}");
}

#[tokio::test(start_paused = true)]
async fn while_every_row_is_refused_none_becomes_a_dead_letter() {
    let mut env = BadRows::start().await;
    env.live(900, 10, 1.0).await;
    assert_eq!(env.dead_letters(), 0);
    env.is_mended.store(true, Ordering::Relaxed);
    let (stored, bad) = env.settled_within(Duration::from_secs(120)).await;
    assert_eq!((stored as u128, bad), (env.rows, 0));
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_refused_for_no_known_reason_hold_up_their_month_for_a_while_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut env = BadRows::start_in(dir.path(), DiskFs).await;
    env.append_damaged(dir.path(), 3_000).await;
    env.live(300, 1, 0.0).await;
    // The blocks are kept; the salvaged rows are given up, as good rows are stored beside them.
    let settled = env.settled_within(Duration::from_secs(60)).await;
    assert_eq!(settled, (300, 1));
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_are_stored_after_an_outage_that_refuses_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let mut env = BadRows::start_in(dir.path(), DiskFs).await;
    env.append_damaged(dir.path(), 3_000).await;
    env.live(300, 1, 1.0).await;
    env.is_mended.store(true, Ordering::Relaxed);
    let (stored, dead_letters) = env.settled_within(Duration::from_secs(120)).await;
    assert_eq!(dead_letters, 1, "the blocks");
    assert!((300 + 1_500..300 + 3_000).contains(&stored), "{stored}");
}
