//! Login server: checks passwords for the engine, over HTTP on loopback.
//!
//! The engine reads its own users once, at its start. It asks here for each connection and for
//! each HTTP request of the users that may change, so a new or removed password holds at once. The
//! response for the user of a project has the token as a setting. Its profile is `readonly`, which
//! holds in sessions, too: those do not get the settings of a login.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::QueryKey;
use crate::names::{EXPORT, QUERY, TOKEN_SETTING};
use crate::users_file::{FILE_NAME, Login, UsersFile, token_of};

/// Connections at once: the engine keeps one for each of its own that logs in.
const CONNECTIONS_MAX: usize = 1024;
/// Time within which a request must arrive.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// Server of one engine.
pub(crate) struct LoginServer {
    listener: std::net::TcpListener,
    users: CachedUsers,
}

/// Users as of the last change of their file.
struct CachedUsers {
    dir: PathBuf,
    query_key: QueryKey,
    cached: Mutex<Option<(SystemTime, UsersFile)>>,
}

// === impl LoginServer ===

impl LoginServer {
    /// Binds a free port of loopback, before the process is confined.
    pub(crate) fn bind(users_dir: PathBuf, query_key: QueryKey) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            users: CachedUsers {
                dir: users_dir,
                query_key,
                cached: Mutex::new(None),
            },
        })
    }

    /// Address that the engine asks.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers for as long as the process lives.
    pub(crate) async fn serve(self) -> std::io::Result<Infallible> {
        let listener = TcpListener::from_std(self.listener)?;
        let users: &'static CachedUsers = Box::leak(Box::new(self.users));
        let slots: &'static Semaphore = Box::leak(Box::new(Semaphore::new(CONNECTIONS_MAX)));
        loop {
            let Ok(slot) = slots.acquire().await else {
                return Err(std::io::Error::other("the login server's slots are closed"));
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(async move {
                        connection(stream, users).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    // Out of file descriptors, most likely: some come back as connections end.
                    tracing::warn!(%error, "cannot accept a login");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn connection(stream: TcpStream, users: &'static CachedUsers) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| async move {
        Ok::<_, Infallible>(respond(request.headers(), users))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of the login server ended early");
    }
}

/// Checks Basic authorization. A refusal names no reason.
fn respond(headers: &HeaderMap, users: &CachedUsers) -> Response<Full<Bytes>> {
    let login = basic(headers).and_then(|(name, password)| users.login(&name, &password));
    let (status, body) = match login {
        None => (StatusCode::FORBIDDEN, String::new()),
        Some(Login::User) => (StatusCode::OK, String::new()),
        // The statements of exports are the program's, which makes them read-only itself.
        Some(Login::Project { token } | Login::Export { token }) => {
            let settings = json!({"settings": {TOKEN_SETTING: token}});
            (StatusCode::OK, settings.to_string())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

// === impl CachedUsers ===

impl CachedUsers {
    fn login(&self, name: &str, password: &str) -> Option<Login> {
        if name == QUERY || name == EXPORT {
            let token = token_of(password);
            let login = match name {
                EXPORT => Login::Export { token },
                _ => Login::Project { token },
            };
            return self.query_key.accepts(password).then_some(login);
        }
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.dir.join(FILE_NAME);
        let changed = std::fs::metadata(&path).and_then(|file| file.modified());
        let is_current = match (&*cached, &changed) {
            (Some((known, _)), Ok(changed)) => known == changed,
            _ => false,
        };
        if !is_current {
            match UsersFile::load(&self.dir) {
                Ok(users) => *cached = changed.ok().map(|changed| (changed, users)),
                Err(error) => {
                    // Nobody logs in by a file that may have lost a user.
                    tracing::error!("{error}");
                    *cached = None;
                }
            }
        }
        let (_, users) = cached.as_ref()?;
        users.login(name, password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(users: &CachedUsers, authorization: &str) -> (u16, String) {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        let response = respond(&headers, users);
        let body = format!("{:?}", response.body());
        (response.status().as_u16(), body)
    }

    #[test]
    fn a_login_is_answered_by_the_file_as_it_is_now() {
        let home = tempfile::tempdir().unwrap();
        let users = CachedUsers {
            dir: home.path().to_owned(),
            query_key: QueryKey::of("own"),
            cached: Mutex::new(None),
        };
        let basic = |name: &str, password: &str| {
            format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
        };
        let mut file = UsersFile::default();
        let reader = file.rotate("reader");
        assert_eq!(status(&users, &basic("reader", &reader)).0, 403);
        file.store(home.path()).unwrap();
        for authorization in ["", "Basic", "Basic !", "Bearer x", &basic("reader", "x")] {
            assert_eq!(status(&users, authorization).0, 403, "{authorization}");
        }
        assert_eq!(status(&users, &basic("reader", &reader)).0, 200);
        let project = file.rotate("project_7");
        // A change of the file within the clock's resolution would not be seen.
        std::thread::sleep(Duration::from_millis(20));
        file.store(home.path()).unwrap();
        let (code, body) = status(&users, &basic("project", &project));
        assert_eq!(code, 200);
        assert!(
            body.contains(TOKEN_SETTING) && !body.contains("readonly"),
            "{body}"
        );
        let query = QueryKey::of("own").password(7);
        assert_eq!(status(&users, &basic(QUERY, &query)).0, 200);
        assert_eq!(status(&users, &basic("project", &query)).0, 403);
        let (code, body) = status(&users, &basic(EXPORT, &query));
        assert!(code == 200 && !body.contains("readonly"), "{body}");
        assert_eq!(status(&users, &basic(EXPORT, &project)).0, 403);
        assert_eq!(status(&users, &basic(QUERY, &project)).0, 403);
        file.remove("project_7");
        std::thread::sleep(Duration::from_millis(20));
        file.store(home.path()).unwrap();
        assert_eq!(status(&users, &basic("project", &project)).0, 403);
        std::fs::write(home.path().join(FILE_NAME), "broken").unwrap();
        assert_eq!(status(&users, &basic("reader", &reader)).0, 403);
    }
}
