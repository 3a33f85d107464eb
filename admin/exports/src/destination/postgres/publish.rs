//! Transaction that publishes a run's rows, and how its outcome is found out.

use super::server::{Dialect, Server};
use super::session::{Session, settings, within};
use crate::destination::dialler::Dialler;
use crate::error::ExportError;
use uuid::Uuid;

/// Key of our advisory locks ("MILL").
const LOCK: i32 = 0x4D_49_4C_4C;

/// Attempt to export one window.
#[derive(Clone, Debug)]
pub(super) struct RunAttempt {
    /// Key of the window.
    pub(super) run: String,
    /// Id of the attempt.
    pub(super) attempt: String,
    /// Rows that arrived.
    pub(super) rows: u64,
}

impl RunAttempt {
    pub(super) fn new(run: String) -> Self {
        let attempt = Uuid::new_v4().to_string();
        Self {
            run,
            attempt,
            rows: 0,
        }
    }
}

/// Runs the statements in one transaction, together with the record of the run. All of it is done,
/// or nothing.
pub(super) async fn publish(
    session: Session,
    server: &Server,
    dialler: &dyn Dialler,
    this: &RunAttempt,
    statements: &[String],
) -> Result<(), ExportError> {
    session
        .run(server, &format!("BEGIN; {}", settings(server)))
        .await?;
    lock(&session, server).await?;
    for sql in statements {
        session.change(server, sql, &[]).await?;
    }
    session
        .change(server, &server.delete_run(), &[&this.run])
        .await?;
    let insert = server.insert_run(this.rows);
    session
        .change(server, &insert, &[&this.run, &this.attempt])
        .await?;
    let committed = session.client.batch_execute("COMMIT");
    let committed = within(server, server.limits.publish, committed).await;
    let Err(error) = committed else {
        return Ok(());
    };
    // The answer was lost, or the server is shutting down: the record of the run shows whether it
    // was committed.
    drop(session);
    if is_committed(server, dialler, this).await? {
        Ok(())
    } else {
        Err(error)
    }
}

/// Returns true if an attempt was committed. Waits for its end, as the server may still be working
/// on it.
async fn is_committed(
    server: &Server,
    dialler: &dyn Dialler,
    this: &RunAttempt,
) -> Result<bool, ExportError> {
    let session = Session::open(server, dialler).await?;
    session.run(server, "BEGIN").await?;
    lock(&session, server).await?;
    let params = [this.run.as_str(), this.attempt.as_str()];
    let found = session.query(server, &server.find_run(), &params).await?;
    Ok(!found.is_empty())
}

/// Locks the table for other runs: without a unique index two could insert the same rows.
async fn lock(session: &Session, server: &Server) -> Result<(), ExportError> {
    match server.dialect {
        Dialect::Postgres => {
            let sql = format!("SELECT pg_advisory_xact_lock({LOCK}, hashtext($1))");
            // The server's own time limit for locks applies.
            session
                .change(server, &sql, &[&server.target()])
                .await
                .map(drop)
        }
        Dialect::Redshift { .. } => {
            let sql = format!("LOCK {}", server.runs());
            session.run(server, &sql).await
        }
    }
}
