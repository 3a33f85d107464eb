//! The transaction that makes a run's rows seen, and what became of it.

use super::server::{Dialect, Server};
use super::session::{Session, Text, settings, within};
use crate::destination::dialler::Dialler;
use crate::error::ExportError;
use uuid::Uuid;

/// What locks of ours are told from those of others by.
const LOCK: i32 = 0x4D_49_4C_4C;

/// One try of one window.
#[derive(Clone, Debug)]
pub(super) struct Try {
    /// Which window.
    pub(super) run: String,
    /// Which try.
    pub(super) attempt: String,
    /// Rows that came.
    pub(super) rows: u64,
}

impl Try {
    pub(super) fn new(run: String) -> Self {
        let attempt = Uuid::new_v4().to_string();
        Self {
            run,
            attempt,
            rows: 0,
        }
    }
}

/// Carries out the statements of one transaction, with the record of the run. All of it is done,
/// or nothing.
pub(super) async fn publish(
    session: Session,
    server: &Server,
    dialler: &dyn Dialler,
    this: &Try,
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
    // The answer was lost, or a server that shuts down says only that it does: the record of the
    // run is there or it is not.
    drop(session);
    if is_committed(server, dialler, this).await? {
        Ok(())
    } else {
        Err(error)
    }
}

/// Whether a try was committed. Waits for its end, as a server may still be at it.
async fn is_committed(
    server: &Server,
    dialler: &dyn Dialler,
    this: &Try,
) -> Result<bool, ExportError> {
    let session = Session::open(server, dialler).await?;
    session.run(server, "BEGIN").await?;
    lock(&session, server).await?;
    let texts: [Text<'_>; 2] = [&this.run, &this.attempt];
    let found = session.query(server, &server.find_run(), &texts).await?;
    Ok(!found.is_empty())
}

/// Runs into one table go one after the other: without a unique index two could put in the same.
async fn lock(session: &Session, server: &Server) -> Result<(), ExportError> {
    match server.dialect {
        Dialect::Postgres => {
            let sql = format!("SELECT pg_advisory_xact_lock({LOCK}, hashtext($1))");
            // The server's own limit is the one for locks.
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
