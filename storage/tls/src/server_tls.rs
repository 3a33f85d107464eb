//! Certificate of the listeners, as it is now, and its reload.

use crate::error::TlsError;
use crate::files::{FileStamps, TlsFiles};
use crate::metrics;
use crate::settings::{ClientCertificates, ListenerSettings};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls::ServerConfig;

/// Interval in which the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Certificate, key and authority of a process's listeners; clones share them.
#[derive(Clone)]
pub struct ServerTls(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    current: RwLock<Current>,
    /// State of the files when they were last read, whether they could be used or not.
    read: Mutex<FileStamps>,
}

/// Settings that are in use.
struct Current {
    settings: ListenerSettings,
    /// Time since 1970 at which the certificate expires.
    expires_at: Duration,
}

/// Outcome of a look at the files.
#[derive(Debug)]
pub enum Reload {
    /// They are as they were read last.
    Unchanged,
    /// They are used from now on.
    Done,
    /// They cannot be used; what was read before stays in use.
    Failed(TlsError),
}

// === impl ServerTls ===

impl ServerTls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let stamps = files.stamps();
        let current = Current::read(&files)?;
        Ok(Self(Arc::new(Shared {
            files,
            current: RwLock::new(current),
            read: Mutex::new(stamps),
        })))
    }

    /// Reads the files again, if they have changed since.
    #[must_use]
    pub fn reload(&self) -> Reload {
        let shared = &self.0;
        // Held to the end, so that two of these do not overtake each other.
        let mut stamps = shared.read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = shared.files.stamps();
        if *stamps == now {
            return Reload::Unchanged;
        }
        *stamps = now;
        match Current::read(&shared.files) {
            Ok(new) => {
                metrics::certificate(new.expires_at);
                metrics::reloaded();
                let current = shared.current.write();
                *current.unwrap_or_else(PoisonError::into_inner) = new;
                Reload::Done
            }
            Err(error) => {
                metrics::reload_failed();
                Reload::Failed(error)
            }
        }
    }

    /// Reloads the files whenever they change, for ever.
    pub async fn watch(self) -> Infallible {
        metrics::describe();
        metrics::certificate(self.current().expires_at);
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let tls = self.clone();
            // A disk that hangs must not hold other tasks up.
            let looked = tokio::task::spawn_blocking(move || tls.reload()).await;
            match looked {
                Ok(Reload::Unchanged) => {}
                Ok(Reload::Done) => tracing::info!("the certificate of the listeners was replaced"),
                // Once for each change of the files.
                Ok(Reload::Failed(error)) => tracing::error!(
                    %error,
                    "the changed certificate cannot be used, so the earlier one stays in use"
                ),
                Err(error) => tracing::error!(%error, "the certificate could not be looked at"),
            }
        }
    }

    /// Settings of the next handshake of a listener.
    pub(crate) fn settings(&self, clients: ClientCertificates) -> Arc<ServerConfig> {
        self.current().settings.of(clients)
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        let current = self.0.current.read();
        current.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the settings, which have keys.
        let files = &self.0.files;
        f.debug_tuple("ServerTls").field(files).finish()
    }
}

// === impl Current ===

impl Current {
    /// Reads the files, and checks that they can be used.
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let material = files.read()?;
        Ok(Self {
            settings: ListenerSettings::new(&material)?,
            expires_at: material.expires_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestAuthority, replace};

    #[test]
    fn files_that_cannot_be_used_leave_the_earlier_certificate_in_use() {
        let authority = TestAuthority::new();
        let files = authority.files("localhost");
        let other = authority.files("localhost");
        let tls = ServerTls::load(files.clone()).unwrap();
        let in_use = || tls.settings(ClientCertificates::Required);
        let first = in_use();
        assert!(matches!(tls.reload(), Reload::Unchanged));

        // Renewed in two steps: between them the key is another one's.
        replace(&files.certificate, &other.certificate);
        let error = match tls.reload() {
            Reload::Failed(error) => error.to_string(),
            reload => panic!("{reload:?}"),
        };
        assert!(error.contains("tls_key"), "{error}");
        assert!(matches!(tls.reload(), Reload::Unchanged), "it was told");
        assert!(Arc::ptr_eq(&first, &in_use()));

        replace(&files.key, &other.key);
        assert!(matches!(tls.reload(), Reload::Done));
        let second = in_use();
        assert!(!Arc::ptr_eq(&first, &second));

        std::fs::remove_file(&files.key).unwrap();
        assert!(matches!(tls.reload(), Reload::Failed(_)));
        assert!(Arc::ptr_eq(&second, &in_use()));
    }

    #[test]
    fn certificate_and_key_of_others_are_refused_at_the_start() {
        let authority = TestAuthority::new();
        let (mut files, other) = (authority.files("a"), authority.files("b"));
        files.key = other.key;
        let error = ServerTls::load(files).unwrap_err().to_string();
        assert!(error.starts_with("tls_cert and tls_key cannot"), "{error}");
    }
}
