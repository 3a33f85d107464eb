//! Creating, changing and deleting exports.

use super::deeds::{created, deed, differences};
use super::destination::{Changed, Kept, changed, stays_at_root};
use super::plan::pass_over;
use super::size::check_size;
use super::{
    DestinationChange, DestinationLimits, ExportInterval, ExportPlace, SeenBatchExport,
    found_for_use, found_to_stop, not_found, sealing_place, seen,
};
use crate::activity::Activity;
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::batch_exports::{self as exports, DestinationType, ExportModel};
use crate::error::ChangeError;
use crate::features::DATA_PIPELINES;
use crate::limits::must_have_room;
use crate::names::checked_name;
use crate::projects::team_of_organization;
use crate::secrets::SecretKey;
use crate::time::UtcTime;
use crate::transaction::{Abort, admit_to_pipelines};
use millrace_rows::TeamId;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use serde_json::Value;

/// The longest name, in characters.
const NAME_CHARS_MAX: usize = 400;

/// Who changes exports, where, and what they may be made of.
#[derive(Clone, Copy, Debug)]
pub struct ExportWriter<'a> {
    /// Who.
    pub actor: &'a Actor,
    /// Whose exports.
    pub place: ExportPlace,
    /// What their secrets are encrypted with.
    pub key: &'a SecretKey,
    /// Where they may go.
    pub limits: DestinationLimits<'a>,
}

/// What a new export needs.
#[derive(Clone, Debug)]
pub struct NewBatchExport {
    /// Whose events; the organization's first project if not given. The place may say so, too.
    pub team_id: Option<TeamId>,
    /// 1 to 400 characters.
    pub name: String,
    /// What is exported.
    pub model: ExportModel,
    /// Where to.
    pub destination: DestinationChange,
    /// `hour`, `day`, `week`, `every N minutes`.
    pub interval: String,
    /// Whether it begins paused.
    pub paused: bool,
    /// When it was last paused, as the client has it.
    pub last_paused_at: Option<UtcTime>,
    /// No run is triggered before.
    pub start_at: Option<UtcTime>,
    /// No run is triggered after.
    pub end_at: Option<UtcTime>,
    /// Which rows and columns, checked by the caller.
    pub hogql_query: Option<String>,
    /// The same, taken apart.
    pub query_schema: Option<Json>,
}

/// What is to be different; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct BatchExportChange {
    /// 1 to 400 characters.
    pub name: Option<String>,
    /// What is exported.
    pub model: Option<ExportModel>,
    /// Where to.
    pub destination: Option<DestinationChange>,
    /// `hour`, `day`, `week`, `every N minutes`.
    pub interval: Option<String>,
    /// Whether runs are not triggered.
    pub paused: Option<bool>,
    /// When it was last paused.
    pub last_paused_at: Option<Option<UtcTime>>,
    /// No run is triggered before.
    pub start_at: Option<Option<UtcTime>>,
    /// No run is triggered after.
    pub end_at: Option<Option<UtcTime>>,
    /// Which rows and columns, checked by the caller, and the same taken apart.
    pub query: Option<Option<(String, Json)>>,
}

impl Catalog {
    /// Makes an export.
    ///
    /// # Errors
    ///
    /// No right to write, no such organization, a bad field, or a project that is not the
    /// organization's.
    pub async fn create_batch_export(
        &self,
        writer: ExportWriter<'_>,
        new: NewBatchExport,
    ) -> Result<SeenBatchExport, ChangeError> {
        let export = self.new_batch_export(writer, new)?;
        let transaction = self.begin().await?;
        let made = async {
            let wished = writer.place.team_id.or(export.wished);
            let organization_id = writer.place.organization_id;
            let organization =
                admit_to_pipelines(&transaction, writer.actor, organization_id).await?;
            organization.must_have(DATA_PIPELINES)?;
            self.must_have_room_for_export(&transaction, organization_id)
                .await?;
            let team_id = team_of_organization(&transaction, organization_id, wished).await?;
            let mut row = export.model;
            row.team_id = team_id.0;
            let deed = created(&row);
            let row = row.into_active_model().reset_all();
            let export = exports::Entity::insert(row)
                .exec_with_returning(&transaction)
                .await?;
            self.record(&transaction, writer.actor, deed).await?;
            Ok(SeenBatchExport {
                export,
                latest_runs: Vec::new(),
            })
        };
        let made = made.await;
        self.finish(transaction, made).await
    }

    /// Changes the fields that are given.
    ///
    /// # Errors
    ///
    /// No right to write, no such export, or a bad field.
    pub async fn update_batch_export(
        &self,
        writer: ExportWriter<'_>,
        id: Uuid,
        change: BatchExportChange,
    ) -> Result<SeenBatchExport, ChangeError> {
        let transaction = self.begin().await?;
        let changed = async {
            let before = found_for_use(&transaction, writer.actor, writer.place, id).await?;
            let after = self.with_change(writer, &before, change)?;
            self.save_batch_export(&transaction, writer.actor, &before, after)
                .await?;
            let seen = seen(&transaction, writer.place, id).await?;
            Ok(seen.ok_or_else(|| not_found(id))?)
        };
        let changed = changed.await;
        self.finish(transaction, changed).await
    }

    /// Deletes an export with its runs, its backfills and what they had to say, which follow piece by
    /// piece (`cleanup`). What it exported stays where it is.
    ///
    /// # Errors
    ///
    /// No right to write, or no such export.
    pub async fn delete_batch_export(
        &self,
        actor: &Actor,
        place: ExportPlace,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.begin().await?;
        let deleted = async {
            let export = found_to_stop(&transaction, actor, place, id).await?;
            exports::Entity::delete_by_id(id).exec(&transaction).await?;
            let deed = deed(Activity::Deleted, &export);
            self.record(&transaction, actor, deed).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.finish(transaction, deleted).await
    }

    /// Writes what differs, and the entry that says so.
    pub(super) async fn save_batch_export(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: &exports::Model,
        mut after: exports::Model,
    ) -> Result<(), Abort> {
        let deed = differences(before, &after);
        if deed.changes_nothing() {
            return Ok(());
        }
        after.last_updated_at = self.now();
        after.into_active_model().reset_all().update(within).await?;
        self.record(within, actor, deed).await?;
        Ok(())
    }

    /// Whether an organization, which is locked, may have one more.
    async fn must_have_room_for_export(
        &self,
        within: &DatabaseTransaction,
        organization_id: Uuid,
    ) -> Result<(), Abort> {
        let own = exports::Column::OrganizationId.eq(organization_id);
        let had = exports::Entity::find().filter(own).count(within).await?;
        let most = self.limits.batch_exports_max;
        Ok(must_have_room(
            "batch exports",
            "batch_exports_max",
            had,
            most,
        )?)
    }

    fn new_batch_export(
        &self,
        writer: ExportWriter<'_>,
        new: NewBatchExport,
    ) -> Result<NewRow, ChangeError> {
        let (id, now) = (Uuid::now_v7(), self.now());
        let destination = changed(None, &new.destination, &writer.limits)?;
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
        };
        check_times(&model)?;
        check_model(&model)?;
        check_size(None, &model)?;
        let wished = new.team_id;
        Ok(NewRow { model, wished })
    }

    fn with_change(
        &self,
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
            let destination = changed(Some(Kept::of(before)), &change, &writer.limits)?;
            after.files_at_root = stays_at_root(before, &destination.kept);
            let destination = sealed(destination, before.id, writer.key)?;
            after.destination_type = destination.kind;
            after.destination_config = Value::Object(destination.config);
            after.destination_secrets = Value::Object(destination.secrets);
        }
        if let Some(interval) = change.interval {
            after.interval = checked_interval(&interval)?;
        }
        if let Some(paused) = change.paused {
            self.set_paused(&mut after, paused);
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
        // What comes next is found anew.
        after.next_window_end = None;
        Ok(after)
    }

    /// Pauses what runs, or lets run what is paused; anything else changes nothing.
    pub(super) fn set_paused(&self, export: &mut exports::Model, paused: bool) {
        let now = self.now();
        if paused && !export.paused {
            export.last_paused_at = Some(now);
            export.paused_since = Some(now);
        }
        if !paused && export.paused {
            pass_over(export, now);
            export.paused_since = None;
            export.resumed_at = Some(now);
        }
        export.paused = paused;
    }
}

/// A row whose project is yet to be found.
struct NewRow {
    model: exports::Model,
    wished: Option<TeamId>,
}

impl Kept {
    pub(super) fn of(export: &exports::Model) -> Self {
        let object = |json: &Json| json.as_object().cloned().unwrap_or_default();
        Self {
            kind: export.destination_type,
            config: object(&export.destination_config),
            secrets: object(&export.destination_secrets),
        }
    }
}

/// With the new secrets sealed.
fn sealed(changed: Changed, id: Uuid, key: &SecretKey) -> Result<Kept, ChangeError> {
    let mut kept = changed.kept;
    for (name, secret) in changed.new_secrets {
        let sealed = key.seal(&sealing_place(id, name), &secret)?;
        kept.secrets.insert(name.to_owned(), sealed.into());
    }
    Ok(kept)
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

/// Servers that events are sent to know nothing of persons.
fn check_model(export: &exports::Model) -> Result<(), ChangeError> {
    match (export.destination_type, export.model) {
        (DestinationType::Http, ExportModel::Persons) => {
            let detail = "HTTP takes events only: export persons to files or tables.";
            Err(ChangeError::invalid("model", "invalid_input", detail))
        }
        _ => Ok(()),
    }
}
