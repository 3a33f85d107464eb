//! Access to the catalog and ClickHouse of a configuration, for modes and commands alike.

use crate::catalog_identity::{self, OtherCatalog};
use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use anyhow::Context;
use millrace_catalog::Catalog;
use millrace_clickhouse::{ClickHouse, QueryError, QueryErrorKind, Settings};
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait of a start for a ClickHouse that may have the rows of another catalog. One that
/// answers later is asked again before anything is sent.
const OWNER_WAIT: Duration = Duration::from_secs(2);

/// Runs a command's future to its end on a runtime of its own.
///
/// # Errors
/// The future's error, or that the runtime cannot be started.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(future)
}

/// Opens and migrates the existing catalog of a server; creates none. The data folder must not be
/// that of another catalog.
///
/// # Errors
/// When there is none, it cannot be opened, or it is another one: [`OtherCatalog`].
pub async fn catalog(config: &Config) -> anyhow::Result<Catalog> {
    let opened = Catalog::open_existing(&config.database_url).await;
    let opened = opened.context(match config.database_url.starts_with("sqlite:") {
        true => "cannot open the catalog of the server that --data-dir names",
        false => "cannot open the catalog",
    })?;
    checked(config, opened).await
}

/// Opens the catalog as [`catalog`] does, and creates a missing one: for the modes that own it.
///
/// # Errors
/// When it cannot be opened or created, or is another one: [`OtherCatalog`].
pub async fn catalog_or_create(config: &Config) -> anyhow::Result<Catalog> {
    let opened = Catalog::open(&config.database_url).await;
    checked(config, opened.context("cannot open the catalog")?).await
}

async fn checked(config: &Config, catalog: Catalog) -> anyhow::Result<Catalog> {
    let Err(error) = catalog_identity::check(config, &catalog).await else {
        return Ok(catalog);
    };
    // Its pools would hold their connections until they are dropped.
    let _ = catalog.close().await;
    Err(error)
}

/// Fails for a ClickHouse server that answers and has the rows of another catalog. The catalog must
/// have been opened. Without an answer nothing is known: then what needs ClickHouse fails later.
///
/// # Errors
/// [`OtherCatalog`].
pub async fn require_own_rows(config: &Config) -> anyhow::Result<()> {
    let Some(settings) = configured_settings(config) else {
        return Ok(());
    };
    match timeout(OWNER_WAIT, ClickHouse::new(&settings).ping()).await {
        Ok(Err(error)) if error.kind == QueryErrorKind::OtherCatalog => {
            Err(OtherCatalog(settings.explain(&error).to_string()).into())
        }
        _ => Ok(()),
    }
}

/// Runs a command on the catalog of a server, and leaves the rest of its folder unchanged.
///
/// # Errors
/// As [`catalog`], and those of the command.
pub fn with_catalog<T>(
    config: &Config,
    command: impl AsyncFnOnce(&Catalog) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    block_on(async {
        let catalog = catalog(config).await?;
        let done = command(&catalog).await;
        // SQLite's journal is merged into its file with the last connection.
        if let Err(error) = catalog.close().await {
            tracing::debug!("the catalog was not closed well: {error}");
        }
        done
    })
}

/// Settings of the ClickHouse to use: configured, or from `credentials.json` of a running server.
///
/// # Errors
/// When the embedded engine is meant and nothing runs.
pub fn clickhouse_settings(config: &Config) -> anyhow::Result<Settings> {
    match configured_settings(config) {
        Some(settings) => Ok(settings),
        None => Ok(embedded_settings(config, &running_credentials(config)?)),
    }
}

/// Settings of a configured ClickHouse server; `None` for the embedded engine.
#[must_use]
pub fn configured_settings(config: &Config) -> Option<Settings> {
    let Engine::Server {
        url,
        other_urls,
        tls,
        user,
        password,
        cluster,
        replication,
        insert_quorum,
    } = &config.engine
    else {
        return None;
    };
    Some(Settings {
        other_urls: other_urls.clone(),
        tls: tls.clone(),
        cluster: cluster.clone(),
        replication: *replication,
        insert_quorum: *insert_quorum,
        owner: config.row_owner.get(),
        ..Settings::new(url, user, password)
    })
}

/// Settings of the embedded engine, from `credentials.json`. The process that supervises the engine
/// connects to it directly.
#[must_use]
pub fn embedded_settings(config: &Config, credentials: &Credentials) -> Settings {
    let direct = match &config.engine {
        Engine::Embedded { direct, .. } => direct.get(),
        Engine::Server { .. } => None,
    };
    let direct = direct.map(|address| format!("http://{address}"));
    Settings {
        owner: config.row_owner.get(),
        ..Settings::new(
            direct.as_deref().unwrap_or(&credentials.clickhouse_url),
            &credentials.clickhouse_user,
            &credentials.clickhouse_password,
        )
    }
}

/// Address of ClickHouse for clients. The program itself connects to the embedded engine directly,
/// and clients to the gate before it.
///
/// # Errors
/// As [`clickhouse_settings`].
pub fn clients_url(config: &Config) -> anyhow::Result<String> {
    Ok(match configured_settings(config) {
        Some(settings) => settings.url,
        None => running_credentials(config)?.clickhouse_url,
    })
}

/// Client for the ClickHouse to use.
///
/// # Errors
/// As [`clickhouse_settings`].
pub fn clickhouse(config: &Config) -> anyhow::Result<ClickHouse> {
    Ok(ClickHouse::new(&clickhouse_settings(config)?))
}

/// Adds to an error of ClickHouse what an operator can do about it.
#[must_use]
pub fn explain(config: &Config, error: QueryError) -> anyhow::Error {
    if error.schema_is_missing() {
        return anyhow::Error::new(error).context(
            "ClickHouse lacks tables of this version; a server that has just started creates them, so try \
             again in a moment; if that does not help, run `millrace migrate`",
        );
    }
    match configured_settings(config) {
        Some(settings) => settings.explain(&error).into(),
        None if error.code.is_some() || error.kind == QueryErrorKind::OtherCatalog => error.into(),
        None => anyhow::Error::new(error).context(
            "ClickHouse does not answer; the embedded one runs while the server does: start it \
             with `millrace serve` and try again",
        ),
    }
}

/// Credentials that the running server wrote.
///
/// # Errors
/// When there is no such file.
pub fn running_credentials(config: &Config) -> anyhow::Result<Credentials> {
    let path = config.credentials_path();
    Credentials::load(&path)?.with_context(|| {
        format!(
            "there is no {}; start the server first, or name its folder with --data-dir",
            path.display()
        )
    })
}
