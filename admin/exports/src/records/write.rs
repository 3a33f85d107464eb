//! Creating, changing and deleting exports.

use super::audit::{audit_change, created, differences};
use super::destination::{ChangedDestination, StoredDestination, apply_change, stays_at_root};
use super::pause::{mark_paused, resume};
use super::size_limit::check_size;
use super::{
    BatchExportView, BatchExports, DestinationChange, DestinationLimits, ExportInterval,
    ExportPlace, find_view, found_for_use, found_to_stop, not_found, sealing_context,
};
use crate::secrets::SecretKey;
use millrace_catalog::entities::batch_exports::{self as exports, DestinationType, ExportModel};
use millrace_catalog::features::DATA_PIPELINES;
use millrace_catalog::limits::must_be_within_setting;
use millrace_catalog::transaction::{Abort, admit_to_pipelines};
use millrace_catalog::{Activity, Actor, ChangeError, UtcTime};
use millrace_organizations::{checked_name, project_or_default};
use millrace_rows::ProjectId;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use serde_json::Value;

/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 400;

/// Context of a change of exports: actor, scope, key and limits.
#[derive(Clone, Copy, Debug)]
pub struct ExportWriter<'a> {
    /// Actor who makes the change.
    pub actor: &'a Actor,
    /// Exports that the change may reach.
    pub place: ExportPlace,
    /// Key that secrets are encrypted with.
    pub key: &'a SecretKey,
    /// Destinations that are allowed.
    pub limits: DestinationLimits<'a>,
}

/// Input for a new export.
#[derive(Clone, Debug)]
pub struct NewBatchExport {
    /// Project whose events are exported; the organization's first project if neither this nor the
    /// scope names one.
    pub project_id: Option<ProjectId>,
    /// 1 to 400 characters.
    pub name: String,
    /// Data that is exported.
    pub model: ExportModel,
    /// Destination, with the values of its fields.
    pub destination: DestinationChange,
    /// `hour`, `day`, `week`, `every N minutes`.
    pub interval: String,
    /// True if the export begins paused.
    pub paused: bool,
    /// Time of the last pause, as the client has it.
    pub last_paused_at: Option<UtcTime>,
    /// Time before which no run is triggered.
    pub start_at: Option<UtcTime>,
    /// Time after which no run is triggered.
    pub end_at: Option<UtcTime>,
    /// Query for rows and columns, checked by the caller.
    pub hogql_query: Option<String>,
    /// Parsed form of the query.
    pub query_schema: Option<Json>,
}

/// Change of an export; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct BatchExportChange {
    /// 1 to 400 characters.
    pub name: Option<String>,
    /// Data that is exported.
    pub model: Option<ExportModel>,
    /// Destination.
    pub destination: Option<DestinationChange>,
    /// `hour`, `day`, `week`, `every N minutes`.
    pub interval: Option<String>,
    /// True: no runs are triggered.
    pub paused: Option<bool>,
    /// Time of the last pause.
    pub last_paused_at: Option<Option<UtcTime>>,
    /// Time before which no run is triggered.
    pub start_at: Option<Option<UtcTime>>,
    /// Time after which no run is triggered.
    pub end_at: Option<Option<UtcTime>>,
    /// Query for rows and columns, checked by the caller, with its parsed form.
    pub query: Option<Option<(String, Json)>>,
}

impl BatchExports<'_> {
    /// Creates an export.
    ///
    /// # Errors
    ///
    /// No right to write, no such organization, a bad field, or a project that is not the
    /// organization's.
    pub async fn create(
        self,
        writer: ExportWriter<'_>,
        new: NewBatchExport,
    ) -> Result<BatchExportView, ChangeError> {
        let transaction = self.0.begin().await?;
        let made = async {
            let organization_id = writer.place.organization_id;
            let organization =
                admit_to_pipelines(&transaction, writer.actor, organization_id).await?;
            organization.must_have(DATA_PIPELINES)?;
            // Secrets are sealed in the transaction: one that waits for its turn across rotations
            // would store them under a key that is gone.
            let export = self.checked(writer, new)?;
            let requested = writer.place.project_id.or(export.requested);
            self.check_limit(&transaction, organization_id).await?;
            let project_id = project_or_default(&transaction, organization_id, requested).await?;
            let mut row = export.model;
            row.team_id = project_id.0;
            let audit = created(&row);
            let row = row.into_active_model().reset_all();
            let export = exports::Entity::insert(row)
                .exec_with_returning(&transaction)
                .await?;
            self.0.record(&transaction, writer.actor, audit).await?;
            Ok(BatchExportView {
                export,
                latest_runs: Vec::new(),
            })
        };
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    /// Changes the fields that are given.
    ///
    /// # Errors
    ///
    /// No right to write, no such export, or a bad field.
    pub async fn update(
        self,
        writer: ExportWriter<'_>,
        id: Uuid,
        change: BatchExportChange,
    ) -> Result<BatchExportView, ChangeError> {
        let transaction = self.0.begin().await?;
        let changed = async {
            let before = found_for_use(&transaction, writer.actor, writer.place, id).await?;
            let after = self.with_change(writer, &before, change)?;
            self.save(&transaction, writer.actor, &before, after)
                .await?;
            let view = find_view(&transaction, writer.place, id).await?;
            Ok(view.ok_or_else(|| not_found(id))?)
        };
        let changed = changed.await;
        self.0.finish(transaction, changed).await
    }

    /// Deletes an export. Its runs, backfills and log lines follow piece by piece (`cleanup`).
    /// Files and rows that it exported stay where they are.
    ///
    /// # Errors
    ///
    /// No right to write, or no such export.
    pub async fn delete(
        self,
        actor: &Actor,
        place: ExportPlace,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = async {
            let export = found_to_stop(&transaction, actor, place, id).await?;
            exports::Entity::delete_by_id(id).exec(&transaction).await?;
            let audit = audit_change(Activity::Deleted, &export);
            self.0.record(&transaction, actor, audit).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.0.finish(transaction, deleted).await
    }

    /// Writes the fields that differ, with their entry in the activity log.
    pub(super) async fn save(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: &exports::Model,
        mut after: exports::Model,
    ) -> Result<(), Abort> {
        let audit = differences(before, &after);
        if audit.changes_nothing() {
            return Ok(());
        }
        after.last_updated_at = self.0.now();
        after.into_active_model().reset_all().update(within).await?;
        self.0.record(within, actor, audit).await?;
        Ok(())
    }

    /// Refuses one more export where an organization, which is locked, has as many as it may have.
    async fn check_limit(
        self,
        within: &DatabaseTransaction,
        organization_id: Uuid,
    ) -> Result<(), Abort> {
        let own = exports::Column::OrganizationId.eq(organization_id);
        let had = exports::Entity::find().filter(own).count(within).await?;
        let most = self.0.limits().batch_exports_max;
        Ok(must_be_within_setting(
            "batch exports",
            "batch_exports_max",
            had,
            most,
        )?)
    }

    fn checked(self, writer: ExportWriter<'_>, new: NewBatchExport) -> Result<NewRow, ChangeError> {
        let (id, now) = (Uuid::now_v7(), self.0.now());
        let destination = apply_change(None, &new.destination, &writer.limits)?;
        let destination = sealed(destination, id, writer.key)?;
        let paused_at = new.paused.then_some(now);
        let model = exports::Model {
            id,
            organization_id: writer.place.organization_id,
            // Known when the project is locked.
            team_id: 0,
            name: checked_name("a batch export's name", "name", &new.name, NAME_CHARS_MAX)?,
            model: new.model,
            destination_type: destination.kind,
            destination_config: Value::Object(destination.config),
            destination_secrets: Value::Object(destination.secrets),
            files_at_root: false,
            interval: checked_interval(&new.interval)?,
            paused: new.paused,
            last_paused_at: new.last_paused_at.or(paused_at),
            paused_since: paused_at,
            resumed_at: None,
            passed_over: None,
            start_at: new.start_at,
            end_at: new.end_at,
            hogql_query: new.hogql_query,
            query_schema: new.query_schema,
            live_since: None,
            windows_until: None,
            next_window_end: None,
            runs_count: 0,
            created_at: now,
            last_updated_at: now,
            waits_since: None,
            wait_told_at: None,
            busy_until: 0,
        };
        check_times(&model)?;
        check_model(&model)?;
        check_size(None, &model)?;
        let requested = new.project_id;
        Ok(NewRow { model, requested })
    }

    fn with_change(
        self,
        writer: ExportWriter<'_>,
        before: &exports::Model,
        change: BatchExportChange,
    ) -> Result<exports::Model, ChangeError> {
        let mut after = before.clone();
        if let Some(name) = change.name {
            after.name = checked_name("a batch export's name", "name", &name, NAME_CHARS_MAX)?;
        }
        after.model = change.model.unwrap_or(after.model);
        if let Some(change) = change.destination {
            let destination =
                apply_change(Some(StoredDestination::of(before)), &change, &writer.limits)?;
            after.files_at_root = stays_at_root(before, &destination.stored);
            let destination = sealed(destination, before.id, writer.key)?;
            after.destination_type = destination.kind;
            after.destination_config = Value::Object(destination.config);
            after.destination_secrets = Value::Object(destination.secrets);
        }
        if let Some(interval) = change.interval {
            after.interval = checked_interval(&interval)?;
        }
        if let Some(paused) = change.paused {
            if paused {
                mark_paused(&mut after, self.0.now());
            } else {
                resume(&mut after, self.0.now())?;
            }
        }
        after.last_paused_at = change.last_paused_at.unwrap_or(after.last_paused_at);
        after.start_at = change.start_at.unwrap_or(after.start_at);
        after.end_at = change.end_at.unwrap_or(after.end_at);
        if let Some(query) = change.query {
            (after.hogql_query, after.query_schema) = query.unzip();
        }
        check_times(&after)?;
        check_model(&after)?;
        check_size(Some(before), &after)?;
        // The next window is computed anew.
        after.next_window_end = None;
        Ok(after)
    }
}

/// Row of a new export whose project is not looked up yet.
struct NewRow {
    model: exports::Model,
    requested: Option<ProjectId>,
}

impl StoredDestination {
    pub(super) fn of(export: &exports::Model) -> Self {
        let object = |json: &Json| json.as_object().cloned().unwrap_or_default();
        Self {
            kind: export.destination_type,
            config: object(&export.destination_config),
            secrets: object(&export.destination_secrets),
        }
    }
}

/// Seals the new secrets of a destination.
fn sealed(
    changed: ChangedDestination,
    id: Uuid,
    key: &SecretKey,
) -> Result<StoredDestination, ChangeError> {
    let mut stored = changed.stored;
    for (name, secret) in changed.new_secrets {
        let sealed = key.seal(&sealing_context(id, name), &secret)?;
        stored.secrets.insert(name.to_owned(), sealed.into());
    }
    Ok(stored)
}

fn checked_interval(text: &str) -> Result<String, ChangeError> {
    let interval: Result<ExportInterval, _> = text.parse();
    interval
        .map(|interval| interval.to_string())
        .map_err(|error| ChangeError::invalid("interval", "invalid_choice", error.to_string()))
}

fn check_times(export: &exports::Model) -> Result<(), ChangeError> {
    match (export.start_at, export.end_at) {
        (Some(start), Some(end)) if start >= end => {
            let detail = "The end must be after the start.";
            Err(ChangeError::invalid("end_at", "invalid_input", detail))
        }
        _ => Ok(()),
    }
}

/// Refuses persons for servers that events are sent to: these know nothing of persons.
fn check_model(export: &exports::Model) -> Result<(), ChangeError> {
    match (export.destination_type, export.model) {
        (DestinationType::Http, ExportModel::Persons) => {
            let detail = "HTTP accepts events only: export persons to files or tables.";
            Err(ChangeError::invalid("model", "invalid_input", detail))
        }
        _ => Ok(()),
    }
}
