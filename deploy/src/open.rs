//! Opening what a configuration names, for modes and commands alike.

use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use anyhow::Context;
use millrace_catalog::Catalog;
use millrace_clickhouse::{ClickHouse, QueryError, Settings};

/// Runs a command's future to its end on a runtime of its own.
///
/// # Errors
/// What the future says, or that the system has no room for a runtime.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(future)
}

/// Opens the catalog of a server, migrated; nothing is made where there is none.
///
/// # Errors
/// When there is none, or it cannot be opened.
pub async fn catalog(config: &Config) -> anyhow::Result<Catalog> {
    let opened = Catalog::open_existing(&config.database_url).await;
    opened.context(match config.database_url.starts_with("sqlite:") {
        true => "cannot open the catalog of the server that --data-dir names",
        false => "cannot open the catalog",
    })
}

/// Opens the catalog as [`catalog`] does, and makes it if need be: for those whose it is.
///
/// # Errors
/// When it cannot be opened or made.
pub async fn catalog_or_make(config: &Config) -> anyhow::Result<Catalog> {
    let opened = Catalog::open(&config.database_url).await;
    opened.context("cannot open the catalog")
}

/// Runs a command on the catalog of a server, and leaves its folder as it was otherwise.
///
/// # Errors
/// As [`catalog`], and what the command says.
pub fn on_catalog<T>(
    config: &Config,
    command: impl AsyncFnOnce(&Catalog) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    block_on(async {
        let catalog = catalog(config).await?;
        let done = command(&catalog).await;
        // SQLite's journal goes back into its file with the last connection.
        if let Err(error) = catalog.close().await {
            tracing::debug!("the catalog was not closed well: {error}");
        }
        done
    })
}

/// How ClickHouse is reached: as configured, or as a running server wrote it down.
///
/// # Errors
/// When the embedded engine is meant and nothing runs.
pub fn clickhouse_settings(config: &Config) -> anyhow::Result<Settings> {
    match configured_settings(config) {
        Some(settings) => Ok(settings),
        None => Ok(embedded_settings(&running(config)?)),
    }
}

/// A ClickHouse that is configured; `None` for the embedded one.
#[must_use]
pub fn configured_settings(config: &Config) -> Option<Settings> {
    let Engine::Server {
        url,
        tls,
        user,
        password,
        cluster,
        insert_quorum,
    } = &config.engine
    else {
        return None;
    };
    Some(Settings {
        tls: tls.clone(),
        cluster: cluster.clone(),
        insert_quorum: *insert_quorum,
        ..Settings::new(url, user, password)
    })
}

/// The embedded engine as `credentials.json` has it.
#[must_use]
pub fn embedded_settings(credentials: &Credentials) -> Settings {
    Settings::new(
        &credentials.clickhouse_url,
        &credentials.clickhouse_user,
        &credentials.clickhouse_password,
    )
}

/// A client for ClickHouse.
///
/// # Errors
/// As [`clickhouse_settings`].
pub fn clickhouse(config: &Config) -> anyhow::Result<ClickHouse> {
    Ok(ClickHouse::new(&clickhouse_settings(config)?))
}

/// An error of ClickHouse for an operator, who is told what to do.
#[must_use]
pub fn explained(config: &Config, error: QueryError) -> anyhow::Error {
    if error.schema_is_missing() {
        return anyhow::Error::new(error).context(
            "ClickHouse has not the tables of this version; a server that has just started makes them, so try \
             again in a moment; if that does not help, run `millrace migrate`",
        );
    }
    match configured_settings(config) {
        Some(settings) => settings.explain(&error).into(),
        None if error.code.is_some() => error.into(),
        None => anyhow::Error::new(error).context(
            "ClickHouse does not answer; the embedded one runs while the server does: start it \
             with `millrace serve` and try again",
        ),
    }
}

/// What the running server wrote down.
///
/// # Errors
/// When there is no such file.
pub fn running(config: &Config) -> anyhow::Result<Credentials> {
    let path = config.credentials_path();
    Credentials::load(&path)?.with_context(|| {
        format!(
            "there is no {}; start the server first, or name its folder with --data-dir",
            path.display()
        )
    })
}
