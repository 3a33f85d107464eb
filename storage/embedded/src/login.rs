//! Login server: checks passwords for the engine, over HTTP on loopback.
//!
//! The engine reads its own users once, at its start. It asks here for each connection and for
//! each HTTP request of the users that may change, so a new or removed password holds at once. The
//! response for the user of a project has the token as a setting. Its profile is `readonly`, which
//! holds in sessions, too: those do not get the settings of a login.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
use tokio::time::sleep;

use crate::cached_users::CachedUsers;
use crate::connections::Connections;
use crate::names::TOKEN_SETTING;
use crate::users_file::Login;

/// Connections at once; one more ends the oldest.
const CONNECTIONS_MAX: usize = 1024;
/// Time within which a request must arrive.
const HEAD_MAX: Duration = Duration::from_secs(2);

/// Server of one engine.
pub(crate) struct LoginServer {
    listener: std::net::TcpListener,
    users: Arc<CachedUsers>,
}

// === impl LoginServer ===

impl LoginServer {
    /// Binds a free port of loopback, before the process is confined.
    pub(crate) fn bind(users: Arc<CachedUsers>) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, users })
    }

    /// Address that the engine asks.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers for as long as the process lives.
    pub(crate) async fn serve(self) -> std::io::Result<Infallible> {
        let listener = TcpListener::from_std(self.listener)?;
        // All come from this machine, so the engine has no address of its own to be known by.
        let places = Connections::new(CONNECTIONS_MAX, CONNECTIONS_MAX);
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(place) = places.register(peer.ip()) else {
                        continue;
                    };
                    let users = Arc::clone(&self.users);
                    tokio::spawn(async move {
                        tokio::select! {
                            () = connection(stream, &users) => {}
                            () = place.evicted() => {}
                        }
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

/// Answers one request. The connection ends with it, so that the engine meets none that timed out.
async fn connection(stream: TcpStream, users: &CachedUsers) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| async move {
        Ok::<_, Infallible>(respond(request.headers(), users))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .keep_alive(false)
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

/// Name and password of the header `Authorization`.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    basic_login(headers.get(AUTHORIZATION)?)
}

/// Name and password of Basic authorization; `None` for other schemes, and for no text.
pub(crate) fn basic_login(value: &HeaderValue) -> Option<(String, String)> {
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{EXPORT, QUERY};
    use crate::users_file::FILE_NAME;
    use crate::{QueryKey, UsersFile, UsersFileError};
    use std::path::Path;

    fn status(users: &CachedUsers, authorization: &str) -> (u16, String) {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        let response = respond(&headers, users);
        let body = format!("{:?}", response.body());
        (response.status().as_u16(), body)
    }

    /// Changes the file of users.
    fn change<T>(dir: &Path, change: impl FnOnce(&mut UsersFile) -> T) -> T {
        let changed = UsersFile::change(dir, |users| Ok::<_, UsersFileError>(change(users)));
        changed.unwrap()
    }

    #[test]
    fn a_login_is_answered_by_the_file_as_it_is_now() {
        let home = tempfile::tempdir().unwrap();
        let users = CachedUsers::new(home.path().to_owned(), QueryKey::of("own"));
        let basic = |name: &str, password: &str| {
            format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
        };
        assert_eq!(status(&users, &basic("reader", "none yet")).0, 403);
        let reader = change(home.path(), |users| users.rotate("reader"));
        for authorization in ["", "Basic", "Basic !", "Bearer x", &basic("reader", "x")] {
            assert_eq!(status(&users, authorization).0, 403, "{authorization}");
        }
        assert_eq!(status(&users, &basic("reader", &reader)).0, 200);
        let project = change(home.path(), |users| users.rotate("project_7"));
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
        change(home.path(), |users| users.remove("project_7"));
        assert_eq!(status(&users, &basic("project", &project)).0, 403);
        std::fs::write(home.path().join(FILE_NAME), "broken").unwrap();
        assert_eq!(status(&users, &basic("reader", &reader)).0, 403);
    }
}
