//! Parts of a request, in the order in which the middleware takes them.
//!
//! | Module | Holds |
//! |---|---|
//! | `origin` | the client's address, and the API's address as the client reaches it |
//! | `request_id` | its id in log lines |
//! | `accept` | media types that the client names |
//! | `auth` | authentication, and checks of what the caller may |
//! | `session_cookie` | cookie of a session; requests of other sites' pages |
//! | `throttle`, `window` | rate limits; sliding windows that count requests |
//! | `scope` | the organization and the project of its path |
//! | `path_id`, `uuid_text` | normalization of ids in its path; their one accepted spelling |
//! | `body`, `violation` | from bytes to a checked body; the first error in it |

pub(crate) mod accept;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod origin;
pub(crate) mod path_id;
pub(crate) mod request_id;
pub(crate) mod scope;
pub(crate) mod session_cookie;
pub(crate) mod throttle;
pub(crate) mod uuid_text;
mod violation;
pub(crate) mod window;
