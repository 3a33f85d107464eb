//! The embedded ClickHouse: as our child, and as the child itself.

use crate::backup_dir;
use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use crate::signals;
use anyhow::{Context, bail};
use metrics::{counter, describe_counter};
use millrace_embedded::{
    EXIT_HOPELESS, EngineError, EngineOptions, LibraryError, State, Status, Supervisor,
    SupervisorOptions,
};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// How long the engine may take to name its port, when it was to choose one.
const PORT_WAIT: Duration = Duration::from_secs(30);
const RESTARTS: &str = "millrace_engine_restarts_total";
/// The variable that carries the password to the child: a command line can be read by everybody.
const PASSWORD_VARIABLE: &str = "MILLRACE_CLICKHOUSE_PASSWORD";
/// Variables of ours that the child gets.
const KEPT_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "RUST_BACKTRACE"];

/// Starts the engine as a supervised child and fills in where it is. `None` when a server is used
/// instead.
///
/// # Errors
/// When the engine is not installed, its port is busy, or it does not come up at all.
pub async fn start(
    config: &Config,
    credentials: &mut Credentials,
) -> anyhow::Result<Option<Supervisor>> {
    let (listen, library, user) = match &config.engine {
        Engine::Server {
            url,
            user,
            password,
            ..
        } => {
            credentials.clickhouse_url.clone_from(url);
            credentials.clickhouse_user.clone_from(user);
            credentials.clickhouse_password.clone_from(password);
            return Ok(None);
        }
        Engine::Embedded {
            listen,
            library,
            user,
            ..
        } => (*listen, library, user),
    };
    let library = millrace_embedded::find_library(library.as_deref())?;
    // The child would say it too, but only in the log, again and again.
    TcpListener::bind(listen).with_context(|| {
        format!("cannot listen on {listen}; give the embedded ClickHouse another address with --clickhouse-addr")
    })?;
    ensure_password(config, credentials)?;
    credentials.clickhouse_user.clone_from(user);
    let child = Child {
        executable: std::env::current_exe().context("cannot find the program's own file")?,
        config: config.clone(),
        library,
        password: credentials.clickhouse_password.clone(),
    };
    let supervisor = Supervisor::start(SupervisorOptions::default(), move |chosen| {
        child.command(chosen.unwrap_or(listen))
    })
    .context("cannot start the supervisor of ClickHouse")?;
    tokio::spawn(count_restarts(supervisor.status()));
    let address = if listen.port() == 0 {
        chosen_address(&supervisor).await?
    } else {
        listen
    };
    credentials.clickhouse_url = format!("http://{address}");
    Ok(Some(supervisor))
}

/// All that it takes to start the engine's process.
struct Child {
    executable: PathBuf,
    config: Config,
    library: PathBuf,
    password: String,
}

impl Child {
    /// The command line. Of our environment, where keys and passwords are, the child has what its loader needs; and it
    /// reads no file of settings, as they are all here.
    fn command(&self, listen: SocketAddr) -> Command {
        let mut command = Command::new(&self.executable);
        command.env_clear().env(PASSWORD_VARIABLE, &self.password);
        let kept = KEPT_VARIABLES.map(|name| (name, std::env::var_os(name)));
        for (name, value) in kept
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
        {
            command.env(name, value);
        }
        command
            .arg("clickhouse")
            .args(["--parent", &std::process::id().to_string()]);
        command.args([
            "--config",
            "/dev/null",
            "--log-level",
            &self.config.log_level,
        ]);
        command.arg("--data-dir").arg(&self.config.data_dir);
        command.arg("--libchdb").arg(&self.library);
        command.args(["--clickhouse-addr", &listen.to_string()]);
        if let Engine::Embedded {
            memory_bytes_max,
            user,
            backup_dir,
            sources,
            ..
        } = &self.config.engine
        {
            command.args(["--clickhouse-memory", &memory_bytes_max.to_string()]);
            command.args(["--clickhouse-user", user]);
            command.arg("--clickhouse-backup-dir").arg(backup_dir);
            for source in sources {
                command.args(["--clickhouse-sources", &source.to_string()]);
            }
        }
        command
    }
}

/// Counts how often the engine had to be started again, until the supervisor is gone.
async fn count_restarts(mut status: watch::Receiver<Status>) {
    describe_counter!(
        RESTARTS,
        "How often the embedded ClickHouse died and was started again"
    );
    loop {
        counter!(RESTARTS).absolute(status.borrow_and_update().restarts);
        if status.changed().await.is_err() {
            return;
        }
    }
}

async fn chosen_address(supervisor: &Supervisor) -> anyhow::Result<SocketAddr> {
    let mut status = supervisor.status();
    let is_settled = |status: &Status| {
        let settled = [State::Stopped, State::Failed];
        matches!(status.state, State::Up { .. }) || settled.contains(&status.state)
    };
    let settled = tokio::time::timeout(PORT_WAIT, status.wait_for(is_settled)).await;
    if let Ok(Ok(status)) = settled
        && let State::Up { address, .. } = status.state
    {
        return Ok(address);
    }
    match why_hopeless(supervisor) {
        Some(reason) => bail!(reason),
        None => bail!("the embedded ClickHouse does not come up; see the log"),
    }
}

/// Waits until it is known that the engine can never start.
pub async fn hopeless(mut status: watch::Receiver<Status>) {
    let failed = status.wait_for(|status| status.state == State::Failed);
    if failed.await.is_err() {
        // It was stopped.
        std::future::pending::<()>().await;
    }
}

/// Why the engine can never start; `None` unless that is known.
pub fn why_hopeless(supervisor: &Supervisor) -> Option<String> {
    let status = supervisor.status();
    let status = status.borrow();
    let words = status.last_words.as_deref().unwrap_or_default();
    let reason = words.strip_prefix("millrace: ").unwrap_or(words);
    (status.state == State::Failed)
        .then(|| format!("the embedded ClickHouse cannot start: {reason}"))
}

/// The status with which the supervised engine ends, by which its parent knows whether to try again.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let is_hopeless = error.is::<LibraryError>()
        || error
            .downcast_ref::<EngineError>()
            .is_some_and(EngineError::is_hopeless);
    if is_hopeless { EXIT_HOPELESS } else { 1 }
}

/// The configured password, else the one of earlier starts, else a new one.
fn ensure_password(config: &Config, credentials: &mut Credentials) -> anyhow::Result<()> {
    if let Engine::Embedded {
        password: Some(password),
        ..
    } = &config.engine
    {
        credentials.clickhouse_password.clone_from(password);
    } else if credentials.clickhouse_password.is_empty() {
        credentials.clickhouse_password = Uuid::new_v4().simple().to_string();
    }
    Ok(())
}

/// `millrace clickhouse`: the engine itself. `parent` is the process that supervises it, if any.
///
/// # Errors
/// When a server is configured instead, or the engine cannot start.
pub fn run(config: &Config, parent: Option<u32>) -> anyhow::Result<()> {
    let Engine::Embedded {
        listen,
        library,
        memory_bytes_max,
        user,
        backup_dir,
        sources,
        ..
    } = &config.engine
    else {
        bail!("clickhouse_url names a server, so there is no embedded ClickHouse to run; unset it");
    };
    if let Some(parent) = parent {
        millrace_embedded::end_with_parent(parent)?;
    }
    let path = config.credentials_path();
    let mut credentials = Credentials::load(&path)?.unwrap_or_default();
    ensure_password(config, &mut credentials)?;
    backup_dir::clear_unused(backup_dir);
    let options = EngineOptions {
        library: millrace_embedded::find_library(library.as_deref())?,
        data_dir: config.data_dir.join("clickhouse"),
        listen: *listen,
        user: user.clone(),
        password: credentials.clickhouse_password.clone(),
        memory_bytes_max: *memory_bytes_max,
        backup_dir: backup_dir.clone(),
        sources: sources.clone(),
    };
    let announce = match parent {
        Some(_) => Announcer::ToParent,
        None => Announcer::of_file(path, credentials, user.clone())?,
    };
    // A terminal's Ctrl-C reaches the whole group; a supervised engine waits for its parent's word.
    let shutdown = async move {
        if parent.is_some() {
            signals::terminate_only().await;
        } else {
            signals::Stop::listen().asked().await;
        }
    };
    let announce = move |address| announce.say(address);
    Ok(millrace_embedded::run(options, announce, shutdown)?)
}

/// The listener for the engine's address.
enum Announcer {
    ToParent,
    /// A thread that began before the engine's process was confined to its folders, and ends when it has written the
    /// file.
    ToFile(SyncSender<SocketAddr>),
}

impl Announcer {
    fn of_file(path: PathBuf, mut credentials: Credentials, user: String) -> anyhow::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel::<SocketAddr>(1);
        let write = move || {
            let Ok(address) = receiver.recv() else { return };
            credentials.clickhouse_url = format!("http://{address}");
            credentials.clickhouse_user.clone_from(&user);
            match credentials.store(&path) {
                Ok(()) => crate::print(&format!(
                    "ClickHouse answers at http://{address}, user {user}, password in {}",
                    path.display()
                )),
                Err(error) => tracing::error!("{error:#}"),
            }
        };
        let thread = thread::Builder::new().name("announcer".to_owned());
        thread.spawn(write).context("cannot start a thread")?;
        Ok(Self::ToFile(sender))
    }

    fn say(self, address: SocketAddr) {
        match self {
            Self::ToParent => millrace_embedded::announce(address),
            // It is there until it was told.
            Self::ToFile(sender) => drop(sender.send(address)),
        }
    }
}
