//! The test of a destination, for PostgreSQL and what speaks like it.

use super::server::Server;
use super::session::Session;
use super::shape;
use crate::destination::TestStep;
use crate::destination::dialler::Dialler;
use crate::error::ExportError;

/// The steps, in order.
pub(super) const STEPS: [TestStep; 6] = [
    TestStep::Reach,
    TestStep::Authenticate,
    TestStep::Find,
    TestStep::Write,
    TestStep::Read,
    TestStep::Delete,
];

/// Makes one step.
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
            Err(_) => Err(super::failure::late(server)),
        };
    }
    let session = Session::open(server, dialler).await;
    let scratch = server.scratch();
    match step {
        TestStep::Authenticate => match session {
            // Who is told that there is no such database was let in.
            Err(error) if error.message.contains("3D000") => Ok(()),
            session => session.map(drop),
        },
        TestStep::Find => find(&session?, server).await,
        TestStep::Write => {
            let sql = format!(
                "CREATE TABLE IF NOT EXISTS {scratch} (a INTEGER); INSERT INTO {scratch} VALUES (1)"
            );
            session?.run(server, &sql).await
        }
        TestStep::Read => {
            let sql = format!("SELECT a FROM {scratch}");
            let rows = session?.query(server, &sql, &[]).await?;
            if rows.is_empty() {
                let message = "What was written cannot be read back.";
                return Err(ExportError::hopeless(message));
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
        return Err(ExportError::hopeless(message));
    }
    let shape = shape::find(session, server).await?;
    if shape.is_there() {
        shape.check(server)
    } else {
        Ok(())
    }
}
