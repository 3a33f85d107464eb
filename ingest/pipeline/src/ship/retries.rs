//! Places for inserts that fail again and again, beside those of a lane: an insert that nobody can carry
//! out keeps its table and month waiting, and nothing else.

use super::plan::UnitId;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

/// Failures from which on an insert is in trouble.
const TROUBLED_AFTER: u32 = 3;
/// News that can be told before the lane listens.
const TOLD_MAX: usize = 64;

/// News of an insert that fails again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Troubled {
    pub id: UnitId,
    /// Whether nobody could be reached at the last try, which says nothing of the insert.
    pub is_away: bool,
}

/// What inserts in trouble share: a few are tried at a time, however many there are.
#[derive(Debug)]
pub struct Retries {
    places: Semaphore,
    troubled: mpsc::Sender<Troubled>,
}

/// What is known of an insert that is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    #[default]
    Fresh,
    /// Its rows or the server are to blame for its failures, and there was no room to halve it: after a while of further
    /// ones that is looked at again.
    Kept,
    /// The same, and it cannot be halved: nothing is taken for refused without proof.
    Last,
}

/// Failures of one insert.
#[derive(Debug)]
pub struct Failures {
    count: u32,
    /// What the lane was told last, see [`Troubled::is_away`].
    told: Option<bool>,
}

impl Failures {
    /// Those of an insert before this try: any that is not fresh has failed often enough.
    pub const fn of(standing: Standing) -> Self {
        let count = match standing {
            Standing::Fresh => 0,
            Standing::Kept | Standing::Last => TROUBLED_AFTER,
        };
        Self { count, told: None }
    }
}

impl Retries {
    /// So many places, and where it is told who is in trouble.
    pub fn new(places: usize) -> (Self, mpsc::Receiver<Troubled>) {
        let (troubled, told) = mpsc::channel(TOLD_MAX);
        let places = Semaphore::new(places);
        (Self { places, troubled }, told)
    }

    /// Waits until an insert that failed so often may be tried.
    pub async fn place(&self, failures: &Failures) -> Option<SemaphorePermit<'_>> {
        match failures.count {
            0..TROUBLED_AFTER => None,
            _ => self.places.acquire().await.ok(),
        }
    }

    /// Counts a failure, and tells the lane of trouble, and whenever it is another one.
    pub async fn failed(&self, id: UnitId, failures: &mut Failures, is_away: bool) {
        failures.count = failures.count.saturating_add(1);
        if failures.count >= TROUBLED_AFTER && failures.told != Some(is_away) {
            failures.told = Some(is_away);
            // A lane that has ended needs not know.
            let _ = self.troubled.send(Troubled { id, is_away }).await;
        }
    }
}
