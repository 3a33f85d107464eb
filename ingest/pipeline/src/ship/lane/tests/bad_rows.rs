//! Rows that are refused for no known reason, more of them than can be proven bad at once.

use super::*;
use millrace_clickhouse::{InsertError, InsertOutcome};
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Rows of a second, in one frame: with 2 % of them bad, of half a minute more are than can be proven bad in a minute.
const ROWS: u32 = 200;

/// A log that rows are appended to while it is shipped.
struct Stand {
    log: Log,
    synced: watch::Sender<Position>,
    settled: watch::Receiver<Position>,
    /// Events that the sink has stored, by their number.
    stored: Arc<Mutex<BTreeSet<u128>>>,
    rows: u128,
    poison: tempfile::TempDir,
    /// Bad rows are not refused any more.
    is_mended: Arc<AtomicBool>,
}

impl Stand {
    async fn start() -> Self {
        let fs = MemoryFs::new();
        let options = LogOptions {
            dir: PathBuf::from("/log"),
            segment_bytes: 1 << 20,
            bytes_max: 1 << 30,
        };
        let (log, recovery) = Log::open(options, Arc::new(fs)).unwrap();
        let handle = log.handle();
        let (synced, synced_receiver) = watch::channel(handle.synced());
        let (shipped, settled) = watch::channel(handle.start());
        let output = LaneOutput {
            lane: Lane::Live,
            log: handle,
            synced: synced_receiver,
            shipped,
            retention: Arc::default(),
            recovery,
        };
        let poison = tempfile::tempdir().unwrap();
        let stored = Arc::<Mutex<BTreeSet<u128>>>::default();
        let is_mended = Arc::<AtomicBool>::default();
        let sink = FakeSink::judging({
            let (stored, is_mended) = (Arc::clone(&stored), Arc::clone(&is_mended));
            move |rows| judge(rows, &stored, is_mended.load(Ordering::Relaxed))
        });
        let options = ShipOptions::of(Lane::Live, "node", poison.path());
        let clock = Arc::new(TestClock::at(NOVEMBER));
        let shipper = Shipper::open(options, output, sink, clock).await.unwrap();
        tokio::spawn(shipper.run(std::future::pending()));
        Self {
            log,
            synced,
            settled,
            stored,
            rows: 0,
            poison,
            is_mended,
        }
    }

    /// A frame of rows, bad or not.
    fn append(&mut self, are_bad: impl IntoIterator<Item = bool>) {
        let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
        let mut header = SectionHeader {
            insert_target: Table::Events.insert_target().to_owned(),
            month: Month::of(NOVEMBER).0,
            rows: 0,
            uncompressed_bytes: 0,
            keys: Vec::new(),
        };
        for is_bad in are_bad {
            self.rows += 1;
            let row = EventRow {
                uuid: Uuid::from_u128(self.rows),
                event: if is_bad { b"bad" } else { b"good" },
                properties: &[b"{}"],
                timestamp: NOVEMBER,
                team_id: TeamId(1),
                distinct_id: b"somebody",
                created_at: NOVEMBER,
                historical_migration: false,
            };
            row.append_to(&mut bytes);
            header.rows += 1;
            if header.keys.len() < 4 {
                header.keys.push(row.key().to_bytes());
            }
        }
        header.uncompressed_bytes = bytes.len() as u64;
        Compressor::new().compress_into(&bytes, &mut blocks);
        let section = Section {
            header: &header,
            blocks: &blocks,
        };
        self.log.append(&[section]).unwrap();
        self.synced.send_replace(self.log.sync().unwrap());
    }

    /// So many seconds of rows, of which each is bad by a chance.
    async fn live(&mut self, seconds: u32, rows: u32, chance: f64) {
        let mut random = rand::rngs::StdRng::seed_from_u64(1);
        for _ in 0..seconds {
            let rows: Vec<bool> = (0..rows).map(|_| random.random_bool(chance)).collect();
            self.append(rows);
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Until everything is stored or set aside: within so much time, and how many of each.
    async fn settled_within(&mut self, time: Duration) -> (usize, usize) {
        let end = *self.synced.borrow();
        let all = self.settled.wait_for(|settled| *settled >= end);
        let waited = tokio::time::timeout(time, all).await.map(|it| drop(it.unwrap()));
        if waited.is_err() { eprintln!("DBG settled {:?} end {end:?}", *self.settled.clone().borrow()); }
        waited.expect("rows wait without an end");
        let files = std::fs::read_dir(self.poison.path()).unwrap();
        let aside = files.count() / 2;
        (self.stored.lock().unwrap().len(), aside)
    }
}

/// Refuses rows among which one is bad, with FUNCTION_THROW_IF_VALUE_IS_NON_ZERO, as a view does.
fn judge(rows: &[u8], stored: &Mutex<BTreeSet<u128>>, is_mended: bool) -> Result<(), InsertError> {
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
async fn rows_that_are_refused_for_no_known_reason_hold_up_their_month_for_a_while_and_no_longer() {
    let mut stand = Stand::start().await;
    stand.live(60, ROWS, 0.02).await;
    // What is proven bad is so by rows that are stored.
    stand.live(600, 1, 0.0).await;
    let (stored, aside) = stand.settled_within(Duration::from_secs(60)).await;
    assert_eq!((stored + aside) as u128, stand.rows);
    assert!((200..300).contains(&aside), "{aside}");
}

#[tokio::test(start_paused = true)]
async fn so_do_such_rows_that_come_all_at_once_though_little_comes_behind_them() {
    let mut stand = Stand::start().await;
    for _ in 0..2 {
        stand.append(vec![true; 200]);
        stand.live(20, ROWS, 0.01).await;
    }
    stand.live(900, 1, 0.0).await;
    let (stored, aside) = stand.settled_within(Duration::from_secs(60)).await;
    assert_eq!((stored + aside) as u128, stand.rows);
    assert!(aside >= 400, "{aside}");
}

#[tokio::test(start_paused = true)]
async fn while_every_row_is_refused_none_is_set_aside() {
    let mut stand = Stand::start().await;
    stand.live(900, 10, 1.0).await;
    assert_eq!(std::fs::read_dir(stand.poison.path()).unwrap().count(), 0);
    stand.is_mended.store(true, Ordering::Relaxed);
    let (stored, aside) = stand.settled_within(Duration::from_secs(120)).await;
    assert_eq!((stored as u128, aside), (stand.rows, 0));
}
