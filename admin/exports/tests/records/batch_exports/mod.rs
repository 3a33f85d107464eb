//! Batch exports: records, pauses, runs, backfills and lines.

mod access;
mod backfill_planners;
mod backfill_round_robin;
mod backfills;
mod claims;
mod deleted;
mod destinations;
mod empty_backfills;
mod features;
mod field_dependencies;
mod folders;
mod logs;
mod operator_wait;
mod pauses;
mod plan;
mod records;
mod retention;
mod runs;
mod unknown_values;
mod wrong_interval;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, BatchExport, ChangeError, DestinationType, UtcTime};
use millrace_exports::{
    BackfillRange, BackfillRoundRobin, Backfills, BatchExports, DestinationChange,
    DestinationLimits, ExportPlace, ExportRuns, ExportWriter, NewBatchExport, NewRun, OpenBackfill,
    SecretKey,
};
use millrace_organizations::testing::fixture::Fixture;
use serde_json::{Value, json};
use std::path::Path;
use uuid::Uuid;

/// An hour, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// Claim of a run that no process has claimed.
const UNCLAIMED: Option<Uuid> = None;

/// Actor who may write in the other organization, which has no members.
static COMMAND_LINE: Actor = Actor::command_line();

/// Catalog, with the inputs of exports.
struct TestEnv {
    fixture: Fixture,
    key: SecretKey,
}

impl TestEnv {
    async fn open(database: &TestDatabase) -> Self {
        Self {
            fixture: Fixture::open(database).await,
            key: SecretKey::generate().unwrap(),
        }
    }

    fn place(&self) -> ExportPlace {
        ExportPlace {
            organization_id: self.fixture.organization_id,
            project_id: None,
        }
    }

    fn foreign_place(&self) -> ExportPlace {
        ExportPlace {
            organization_id: self.fixture.foreign_id,
            project_id: None,
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
        let made = BatchExports::new(&self.fixture.catalog).create(self.writer(), new);
        made.await.map(|seen| seen.export)
    }

    async fn made(&self) -> BatchExport {
        self.make(new_export()).await.unwrap()
    }

    /// Creates an export of the other organization.
    async fn foreign_export(&self) -> BatchExport {
        let writer = ExportWriter {
            actor: &COMMAND_LINE,
            place: self.foreign_place(),
            ..self.writer()
        };
        let made = BatchExports::new(&self.fixture.catalog).create(writer, new_export());
        made.await.unwrap().export
    }

    /// Starts a backfill of everything; returns its id.
    async fn backfill(&self, export_id: Uuid) -> Uuid {
        let (catalog, actor) = (&self.fixture.catalog, &self.fixture.actor);
        let range = BackfillRange::default();
        let started = Backfills::new(catalog).start(actor, self.place(), export_id, range);
        started.await.unwrap().id
    }

    /// Begins a run of an export; returns its id.
    async fn begin_run(&self, export_id: Uuid, new: NewRun) -> Uuid {
        let begun = ExportRuns::new(&self.fixture.catalog).begin(export_id, new);
        begun.await.unwrap().id
    }

    /// Backfills to plan, in turn.
    async fn backfills_to_plan(&self) -> Vec<OpenBackfill> {
        let (mut round_robin, mut found) = (BackfillRoundRobin::default(), Vec::new());
        loop {
            let next = Backfills::new(&self.fixture.catalog).next_to_plan(&round_robin, &[]);
            let Some(next) = next.await.unwrap() else {
                return found;
            };
            let is_again = |known: &OpenBackfill| known.backfill.id == next.backfill.id;
            if found.iter().any(is_again) {
                return found;
            }
            round_robin.mark_served(&next);
            found.push(next);
        }
    }
}

/// Run of the nth hour since 1970, of a backfill or by the clock.
fn hourly_run(number: i64, backfill_id: Option<Uuid>) -> NewRun {
    NewRun {
        backfill_id,
        data_interval_start: Some(UtcTime(number * HOUR)),
        data_interval_end: UtcTime((number + 1) * HOUR),
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
    millrace_exports::testing::new_export(s3())
}

/// Field at fault, and the code.
fn violation(error: &ChangeError) -> (Option<String>, &'static str) {
    let violation = error.violation().unwrap();
    (violation.field, violation.code)
}
