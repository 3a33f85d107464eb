//! Steps of a destination's test, for PostgreSQL and Redshift.

use super::server::Server;
use super::session::Session;
use super::table_schema;
use crate::destination::TestStep;
use crate::destination::dialler::Dialler;
use crate::error::ExportError;

/// Steps of the test, in order.
pub(super) const STEPS: [TestStep; 6] = [
    TestStep::Reach,
    TestStep::Authenticate,
    TestStep::Find,
    TestStep::Write,
    TestStep::Read,
    TestStep::Delete,
];

/// Makes one step of the test.
pub(super) async fn make(
    server: &Server,
    dialler: &dyn Dialler,
    step: TestStep,
) -> Result<(), ExportError> {
    if step == TestStep::Reach {
        let reached = dialler.connect(&server.host, server.port);
        let reached = tokio::time::timeout(server.limits.connect, reached).await;
        return match reached {
            Ok(reached) => reached.map(drop),
            Err(_) => Err(super::failure::timed_out(server)),
        };
    }
    let session = Session::open(server, dialler).await;
    let scratch = server.scratch();
    match step {
        TestStep::Authenticate => match session {
            // A server that reports a missing database has accepted the credentials.
            Err(error) if error.message.contains("3D000") => Ok(()),
            session => session.map(drop),
        },
        TestStep::Find => find(&session?, server).await,
        TestStep::Write => {
            let sql =
                format!("CREATE TABLE {scratch} (a INTEGER); INSERT INTO {scratch} VALUES (1)");
            session?.run(server, &sql).await
        }
        TestStep::Read => {
            let sql = format!("SELECT a FROM {scratch}");
            let rows = session?.query(server, &sql, &[]).await?;
            if rows.is_empty() {
                let message = "The written row cannot be read back.";
                return Err(ExportError::permanent(message));
            }
            Ok(())
        }
        TestStep::Delete | TestStep::Reach => {
            session?
                .run(server, &format!("DROP TABLE IF EXISTS {scratch}"))
                .await
        }
    }
}

async fn find(session: &Session, server: &Server) -> Result<(), ExportError> {
    let sql = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
    if session
        .query(server, sql, &[&server.schema])
        .await?
        .is_empty()
    {
        let message = format!("There is no schema {}.", server.schema);
        return Err(ExportError::permanent(message));
    }
    let table_schema = table_schema::find(session, server).await?;
    if table_schema.is_there() {
        table_schema.check(server)
    } else {
        Ok(())
    }
}
