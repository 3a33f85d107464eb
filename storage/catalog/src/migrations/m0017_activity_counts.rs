//! Number of entries of the activity log per organization and scope, and indexes that answer every
//! filter of the log.
//!
//! A trigger counts: entries are written by every kind of change, and two of those may run at the
//! same time in PostgreSQL. There the trigger is deferred to the end of the transaction, when it
//! has all other locks that it needs, so that counting cannot make two changes wait for each other.

use sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::schema::{big_integer, text, uuid};
use sea_orm_migration::sea_query::{Index, IndexOrder, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0017_activity_counts"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        counts(manager).await?;
        indexes(manager).await
    }
}

const COUNT_ALL: &str = "INSERT INTO activity_counts (organization_id, scope, entries) SELECT \
     organization_id, scope, COUNT(*) FROM activity_log WHERE organization_id IS NOT NULL GROUP BY \
     organization_id, scope";

const COUNT_IN_SQLITE: &str = "CREATE TRIGGER activity_counted AFTER INSERT ON activity_log \
     WHEN NEW.organization_id IS NOT NULL BEGIN INSERT INTO activity_counts (organization_id, \
     scope, entries) VALUES (NEW.organization_id, NEW.scope, 1) ON CONFLICT (organization_id, \
     scope) DO UPDATE SET entries = entries + 1; END";

const COUNT_IN_POSTGRES: &str = "CREATE FUNCTION activity_counted() RETURNS trigger LANGUAGE \
     plpgsql AS $$ BEGIN INSERT INTO activity_counts AS counted (organization_id, scope, entries) \
     VALUES (NEW.organization_id, NEW.scope, 1) ON CONFLICT (organization_id, scope) DO UPDATE SET \
     entries = counted.entries + 1; RETURN NULL; END $$; \
     CREATE CONSTRAINT TRIGGER activity_counted AFTER INSERT ON activity_log DEFERRABLE INITIALLY \
     DEFERRED FOR EACH ROW WHEN (NEW.organization_id IS NOT NULL) EXECUTE FUNCTION \
     activity_counted()";

async fn counts(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("activity_counts")
        .col(uuid("organization_id"))
        .col(text("scope"))
        .col(big_integer("entries"))
        .primary_key(Index::create().col("organization_id").col("scope"));
    manager.create_table(table).await?;
    let connection = manager.get_connection();
    connection.execute_unprepared(COUNT_ALL).await?;
    let trigger = match manager.get_database_backend() {
        DbBackend::Postgres => COUNT_IN_POSTGRES,
        _ => COUNT_IN_SQLITE,
    };
    connection.execute_unprepared(trigger).await.map(drop)
}

/// Order of lists.
const NEWEST: [&str; 2] = ["created_at", "id"];

/// Index of each filter. With several scopes at once the first is used, which ends with the scope,
/// so that entries of others are passed over without reading them.
const INDEXES: [(&str, &[&str], &[&str]); 3] = [
    ("activity_log_newest", &[], &["scope"]),
    ("activity_log_of_scope", &["scope"], &[]),
    ("activity_log_of_item", &["item_id"], &["scope"]),
];

async fn indexes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    for old in ["activity_log_newest", "activity_log_of_item"] {
        let mut index = Index::drop();
        index.name(old).table("activity_log");
        manager.drop_index(index).await?;
    }
    for (name, filtered, last) in INDEXES {
        let mut index = Index::create();
        index
            .name(name)
            .table("activity_log")
            .col("organization_id");
        for column in filtered {
            index.col(*column);
        }
        for column in NEWEST {
            index.col((column, IndexOrder::Desc));
        }
        for column in last {
            index.col(*column);
        }
        manager.create_index(index).await?;
    }
    Ok(())
}
