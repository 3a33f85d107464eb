//! Delayed deletion of persons, distinct ids and groups after their project, and of entries of the
//! activity log after their organization. A million of them, deleted in one cascade, would keep all
//! other writers waiting. Triggers record the deletions, so that a deletion by an older version
//! that still runs, or by a cascade, leaves no rows that cleanup does not know of.
//!
//! SQLite cannot take a foreign key away, so the three tables are copied there.

use super::columns::{big_integer, big_integer_null, boolean, text, uuid, uuid_null};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Index, Query, Table, TableCreateStatement};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0038_deletions"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        marks(schema).await?;
        match schema.backend() {
            DbBackend::Postgres => release_in_postgres(schema).await?,
            _ => copy_in_sqlite(schema).await?,
        }
        let mut lease = Query::insert();
        lease
            .into_table("leases")
            .columns(["name", "holder", "lapses_at"])
            .values_panic(["cleanup".into(), Uuid::nil().into(), 0_i64.into()]);
        schema.execute(&lease).await
    }
}

const MARK_IN_SQLITE: &str = "CREATE TRIGGER projects_deleted AFTER DELETE ON projects BEGIN \
     INSERT INTO deleted_projects (team_id) VALUES (OLD.id) ON CONFLICT DO NOTHING; END; \
     CREATE TRIGGER organizations_deleted AFTER DELETE ON organizations BEGIN \
     INSERT INTO deleted_organizations (organization_id) VALUES (OLD.id) ON CONFLICT DO NOTHING; END";

const MARK_IN_POSTGRES: &str = "CREATE FUNCTION projects_deleted() RETURNS trigger LANGUAGE plpgsql \
     AS $$ BEGIN INSERT INTO deleted_projects (team_id) VALUES (OLD.id) ON CONFLICT DO NOTHING; \
     RETURN NULL; END $$; \
     CREATE TRIGGER projects_deleted AFTER DELETE ON projects FOR EACH ROW \
     EXECUTE FUNCTION projects_deleted(); \
     CREATE FUNCTION organizations_deleted() RETURNS trigger LANGUAGE plpgsql \
     AS $$ BEGIN INSERT INTO deleted_organizations (organization_id) VALUES (OLD.id) \
     ON CONFLICT DO NOTHING; RETURN NULL; END $$; \
     CREATE TRIGGER organizations_deleted AFTER DELETE ON organizations FOR EACH ROW \
     EXECUTE FUNCTION organizations_deleted()";

async fn marks(schema: &Schema<'_>) -> Result<(), DbErr> {
    let mut projects = Table::create();
    projects
        .table("deleted_projects")
        .col(big_integer("team_id").primary_key());
    schema.execute(&projects).await?;
    let mut organizations = Table::create();
    organizations
        .table("deleted_organizations")
        .col(uuid("organization_id").primary_key());
    schema.execute(&organizations).await?;
    let triggers = match schema.backend() {
        DbBackend::Postgres => MARK_IN_POSTGRES,
        _ => MARK_IN_SQLITE,
    };
    let made = schema.connection().execute_unprepared(triggers).await;
    made.map(drop)
}

async fn release_in_postgres(schema: &Schema<'_>) -> Result<(), DbErr> {
    for table in ["persons", "person_distinct_ids", "groups"] {
        let release = format!("ALTER TABLE {table} DROP CONSTRAINT fk_{table}_team_id");
        let connection = schema.connection();
        connection.execute_unprepared(&release).await?;
    }
    Ok(())
}

/// Indexes of the tables, which are dropped with the copied ones.
const INDEXES: [(&str, &str, &[&str]); 4] = [
    ("persons_changed", "persons", &["version", "team_id", "id"]),
    (
        "person_distinct_ids_changed",
        "person_distinct_ids",
        &["version", "team_id", "distinct_id"],
    ),
    (
        "person_distinct_ids_identified",
        "person_distinct_ids",
        &["team_id", "person_id", "identified_at", "identified_by"],
    ),
    (
        "groups_changed",
        "groups",
        &["version", "team_id", "group_type", "group_key"],
    ),
];

async fn copy_in_sqlite(schema: &Schema<'_>) -> Result<(), DbErr> {
    let connection = schema.connection();
    for (table, columns, create) in [
        ("persons", PERSON_COLUMNS, persons()),
        ("person_distinct_ids", ID_COLUMNS, ids()),
        ("groups", GROUP_COLUMNS, groups()),
    ] {
        schema.execute(&create).await?;
        let copy = format!(
            "INSERT INTO {table}_copied ({columns}) SELECT {columns} FROM {table}; \
             DROP TABLE {table}; ALTER TABLE {table}_copied RENAME TO {table}"
        );
        connection.execute_unprepared(&copy).await?;
    }
    for (name, table, columns) in INDEXES {
        let mut index = Index::create();
        index.name(name).table(table);
        for column in columns {
            index.col(*column);
        }
        schema.execute(&index).await?;
    }
    Ok(())
}

const PERSON_COLUMNS: &str =
    "team_id, id, created_at, is_identified, is_deleted, properties, version";
const ID_COLUMNS: &str = "team_id, distinct_id, person_id, version, identified_at, identified_by";
const GROUP_COLUMNS: &str = "team_id, group_type, group_key, created_at, properties, version";

fn persons() -> TableCreateStatement {
    Table::create()
        .table("persons_copied")
        .col(big_integer("team_id"))
        .col(uuid("id"))
        .col(big_integer("created_at"))
        .col(boolean("is_identified"))
        .col(boolean("is_deleted"))
        .col(text("properties"))
        .col(big_integer("version"))
        .primary_key(Index::create().col("team_id").col("id"))
        .take()
}

fn ids() -> TableCreateStatement {
    Table::create()
        .table("person_distinct_ids_copied")
        .col(big_integer("team_id"))
        .col(text("distinct_id"))
        .col(uuid("person_id"))
        .col(big_integer("version"))
        .col(big_integer_null("identified_at"))
        .col(uuid_null("identified_by"))
        .primary_key(Index::create().col("team_id").col("distinct_id"))
        .take()
}

fn groups() -> TableCreateStatement {
    Table::create()
        .table("groups_copied")
        .col(big_integer("team_id"))
        .col(text("group_type"))
        .col(text("group_key"))
        .col(big_integer("created_at"))
        .col(text("properties"))
        .col(big_integer("version"))
        .primary_key(
            Index::create()
                .col("team_id")
                .col("group_type")
                .col("group_key"),
        )
        .take()
}
