//! Folder for each organization below the folder of exports to files. Existing exports keep their
//! paths, unless another organization has files there, too.
//!
//! Exports that share a path are paused, all of them: this migration cannot tell which organization
//! was first, or meant it. When they are resumed they write below their organization's folder; the
//! log of each says so.

use super::columns::boolean;
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::sea_query::{Expr, ExprTrait, Query, Table};
use sea_orm::{ConnectionTrait, DbErr, QueryResult};

/// Message for people who own the export: it names no path of another organization.
const MESSAGE: &str = "The export was paused by an upgrade of the server, as its folder was not its \
     organization's alone. Unpause it to go on in the same folder below the organization's own; the \
     server's operator has the files of before.";

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0036_export_folders"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("batch_exports")
            .add_column(boolean("files_at_root").default(false));
        schema.execute(&table).await?;
        let folders = read(schema).await?;
        for folder in &folders {
            let is_own =
                !folders.iter().any(|other| folder.meets(other)) && !folder.is_in_another();
            if is_own {
                let kept = Expr::val(true);
                set(schema, folder.export_id, &[("files_at_root", kept)]).await?;
            } else {
                pause(schema, folder).await?;
            }
        }
        Ok(())
    }
}

/// Folder of one export's files.
struct ExportFolder {
    export_id: Uuid,
    organization_id: Uuid,
    /// Time of the export's last change: the best known time, without a clock.
    changed_at: i64,
    is_absolute: bool,
    parts: Vec<String>,
}

impl ExportFolder {
    fn of(row: &QueryResult) -> Result<Self, DbErr> {
        let config: Json = row.try_get("", "destination_config")?;
        let path = config.get("path").and_then(Json::as_str);
        let path = path.unwrap_or_default();
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        Ok(Self {
            export_id: row.try_get("", "id")?,
            organization_id: row.try_get("", "organization_id")?,
            changed_at: row.try_get("", "last_updated_at")?,
            is_absolute: path.starts_with('/'),
            parts: parts.map(str::to_owned).collect(),
        })
    }

    /// Returns true if files of both may be in one folder, or those of one below those of the
    /// other, which is as bad for whoever reads all files there.
    fn meets(&self, other: &Self) -> bool {
        if self.organization_id == other.organization_id {
            return false;
        }
        match (self.is_absolute, other.is_absolute) {
            (true, false) => self.meets_below(other),
            (false, true) => other.meets_below(self),
            _ => are_one(&self.parts, &other.parts),
        }
    }

    /// Returns true likewise where it is not known how much of our path is the folder of exports
    /// itself.
    fn meets_below(&self, other: &Self) -> bool {
        let ends = (0..=self.parts.len()).filter_map(|start| self.parts.get(start..));
        let mut ends = ends.filter(|end| !end.is_empty());
        ends.any(|end| are_one(end, &other.parts))
    }

    /// Returns true if the folder is in another organization's own folder from now on.
    fn is_in_another(&self) -> bool {
        let ids = self
            .parts
            .iter()
            .filter_map(|part| Uuid::try_parse(part).ok());
        ids.into_iter().any(|id| id != self.organization_id)
    }
}

/// Returns true if two folders may be the same, or one in the other; a placeholder in braces stands
/// for any text.
fn are_one(one: &[String], other: &[String]) -> bool {
    let mut pairs = one.iter().zip(other);
    pairs.all(|(one, other)| one == other || one.contains('{') || other.contains('{'))
}

async fn read(schema: &Schema<'_>) -> Result<Vec<ExportFolder>, DbErr> {
    let mut exports = Query::select();
    exports
        .columns([
            "id",
            "organization_id",
            "destination_config",
            "last_updated_at",
        ])
        .from("batch_exports")
        .and_where(Expr::col("destination_type").eq("FileSystem"));
    let rows = schema.connection().query_all(&exports).await?;
    rows.iter().map(ExportFolder::of).collect()
}

async fn set(
    schema: &Schema<'_>,
    export_id: Uuid,
    values: &[(&'static str, Expr)],
) -> Result<(), DbErr> {
    let mut update = Query::update();
    update
        .table("batch_exports")
        .values(values.iter().cloned())
        .and_where(Expr::col("id").eq(export_id));
    schema.execute(&update).await
}

async fn pause(schema: &Schema<'_>, folder: &ExportFolder) -> Result<(), DbErr> {
    tracing::warn!(
        export = %folder.export_id, organization = %folder.organization_id,
        "an export to files is paused, as its folder is not its organization's alone: see \
         \"Exports that an upgrade paused\" in the runbook"
    );
    set(schema, folder.export_id, &[("paused", Expr::val(true))]).await?;
    let mut line = Query::insert();
    line.into_table("batch_export_logs")
        .columns(["batch_export_id", "logged_at", "level", "message"])
        .values_panic([
            folder.export_id.into(),
            folder.changed_at.into(),
            "ERROR".into(),
            MESSAGE.into(),
        ]);
    schema.execute(&line).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(organization: u128, path: &str) -> ExportFolder {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        ExportFolder {
            export_id: Uuid::nil(),
            organization_id: Uuid::from_u128(organization),
            changed_at: 0,
            is_absolute: path.starts_with('/'),
            parts: parts.map(str::to_owned).collect(),
        }
    }

    #[test]
    fn folders_of_two_organizations_meet_where_one_may_contain_the_other() {
        let table = [
            ("lake", "lake", true),
            ("lake", "./lake/", true),
            ("lake/acme", "lake", true),
            ("", "lake", true),
            ("lake/acme", "lake/eve", false),
            ("lake", "lakes", false),
            ("lake/{year}", "lake/2026", true),
            ("{table}/acme", "lake/eve", false),
            ("/exports/lake", "lake", true),
            ("/exports/lake", "/exports/lake/x", true),
            ("/exports/lake", "/exports/pond", false),
            ("/exports/lake", "pond", false),
        ];
        for (one, other, expected) in table {
            let (here, there) = (folder(1, one), folder(2, other));
            assert_eq!(here.meets(&there), expected, "{one} {other}");
            assert_eq!(there.meets(&here), expected, "{other} {one}");
            assert!(!here.meets(&folder(1, other)), "{one} {other}");
        }
        let another = Uuid::from_u128(2);
        assert!(folder(1, &format!("{another}/x")).is_in_another());
        assert!(!folder(2, &format!("{another}/x")).is_in_another());
    }
}
