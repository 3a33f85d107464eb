//! Steps of a destination's test.

use super::server::Server;
use super::{sql, table_schema, tsv};
use crate::destination::TestStep;
use crate::destination::table::row::Cell;
use crate::destination::warehouse::service::{scratch_name, unread};
use crate::error::ExportError;
use bytes::Bytes;
use millrace_clickhouse::quoted_text;
use std::borrow::Cow;
use uuid::Uuid;

/// Steps of the test, in order.
pub(super) const STEPS: [TestStep; 6] = [
    TestStep::Reach,
    TestStep::Authenticate,
    TestStep::Find,
    TestStep::Write,
    TestStep::Read,
    TestStep::Delete,
];

/// Makes one step after the first.
pub(super) async fn make(
    server: &Server,
    test_id: Uuid,
    step: TestStep,
) -> Result<(), ExportError> {
    let scratch = scratch_name(&server.table, test_id);
    match step {
        TestStep::Reach | TestStep::Authenticate => server.number("SELECT 1").await.map(drop),
        TestStep::Find => find(server).await,
        TestStep::Write => {
            let create = server.statement(sql::create_stage(server, &scratch));
            // Once: another try would find the table there.
            server.once(&create).await.map_err(|failed| failed.error)?;
            let mut insert = server.statement(sql::insert(server, &scratch));
            insert.settings = super::delivery::insert_settings(&insert.id);
            insert.rows = row(server);
            server.run(&insert).await.map(drop)
        }
        TestStep::Read => match server.number(&sql::count(server, &scratch)).await? {
            0 => Err(unread()),
            _ => Ok(()),
        },
        TestStep::Delete => {
            let dropping = server.statement(sql::drop_table(server, &scratch));
            server.run(&dropping).await.map(drop)
        }
    }
}

async fn find(server: &Server) -> Result<(), ExportError> {
    let sql = format!(
        "SELECT count() FROM system.databases WHERE name = {}",
        quoted_text(&server.database)
    );
    if server.number(&sql).await? == 0 {
        return Err(ExportError::permanent(format!(
            "There is no database {}.",
            server.database
        )));
    }
    table_schema::check(server).await
}

/// Row that the test writes: zeros, and empty texts.
fn row(server: &Server) -> Bytes {
    let value = |kind: &str| match kind {
        "UUID" => "00000000-0000-0000-0000-000000000000",
        "Int64" => "0",
        "String" => "",
        _ => "2000-01-01T00:00:00.000000Z",
    };
    let columns = server.layout.columns.iter();
    let cells = columns.map(|column| Some(Cow::Borrowed(value(sql::type_of(*column)))));
    let cells: Vec<Cell<'_>> = cells.collect();
    let mut row = Vec::new();
    tsv::append(&cells, &mut row);
    row.into()
}
