//! Batch exports: records, pauses, runs, backfills and lines.

mod access;
mod backfill_turns;
mod backfills;
mod claims;
mod deleted;
mod destinations;
mod features;
mod folders;
mod forgetting;
mod logs;
mod pauses;
mod plan;
mod records;
mod runs;
mod together;
mod waits;

use crate::fixture::Fixture;
use millrace_catalog::{
    Actor, BackfillTurns, BatchExport, ChangeError, DestinationChange, DestinationLimits,
    DestinationType, ExportPlace, ExportWriter, NewBatchExport, OpenBackfill, SecretKey, testing,
};
use serde_json::{Value, json};
use std::path::Path;
use uuid::Uuid;

/// An hour, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// The claim of a run that nobody has claimed.
const UNCLAIMED: Option<Uuid> = None;

/// Who may write in the other organization, which has no members.
static COMMAND_LINE: Actor = Actor::command_line();

/// A catalog, and what exports are made with.
struct Stand {
    fixture: Fixture,
    key: SecretKey,
}

impl Stand {
    async fn open(database: &testing::TestDatabase) -> Self {
        Self {
            fixture: Fixture::open(database).await,
            key: SecretKey::generate().unwrap(),
        }
    }

    fn place(&self) -> ExportPlace {
        ExportPlace {
            organization_id: self.fixture.organization_id,
            team_id: None,
        }
    }

    fn foreign_place(&self) -> ExportPlace {
        ExportPlace {
            organization_id: self.fixture.foreign_id,
            team_id: None,
        }
    }

    fn writer(&self) -> ExportWriter<'_> {
        ExportWriter {
            actor: &self.fixture.actor,
            place: self.place(),
            key: &self.key,
            limits: DestinationLimits {
                allow_private: false,
                is_public: |_| true,
                export_root: Some(Path::new("/exports")),
            },
        }
    }

    async fn make(&self, new: NewBatchExport) -> Result<BatchExport, ChangeError> {
        let made = self.fixture.catalog.create_batch_export(self.writer(), new);
        made.await.map(|seen| seen.export)
    }

    async fn made(&self) -> BatchExport {
        self.make(new_export()).await.unwrap()
    }

    /// Backfills that have runs to be made, in turn.
    async fn backfills_to_plan(&self) -> Vec<OpenBackfill> {
        let (mut turns, mut found) = (BackfillTurns::default(), Vec::new());
        loop {
            let next = self.fixture.catalog.next_backfill_to_plan(&turns, &[]);
            let Some(next) = next.await.unwrap() else {
                return found;
            };
            let is_again = |known: &OpenBackfill| known.backfill.id == next.backfill.id;
            if found.iter().any(is_again) {
                return found;
            }
            turns.had(&next);
            found.push(next);
        }
    }
}

fn destination(kind: DestinationType, config: Value) -> DestinationChange {
    let Value::Object(config) = config else {
        panic!("{config} is no object");
    };
    DestinationChange {
        kind: Some(kind),
        config,
    }
}

fn s3() -> DestinationChange {
    let config = json!({
        "bucket_name": "bucket", "region": "r", "prefix": "p", "aws_access_key_id": "AKIA",
        "aws_secret_access_key": "s3cret",
    });
    destination(DestinationType::S3, config)
}

fn new_export() -> NewBatchExport {
    testing::new_export(s3())
}

/// The field to blame and the code.
fn blame(error: &ChangeError) -> (Option<String>, &'static str) {
    let violation = error.violation().unwrap();
    (violation.field, violation.code)
}
