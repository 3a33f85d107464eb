//! The parts of a request, as the stages take them.
//!
//! | Module | Holds |
//! |---|---|
//! | `origin` | where it comes from, and where its sender believes to be |
//! | `request_id` | its name in log lines |
//! | `auth` | who asks, and what their key allows |
//! | `throttle`, `window` | how often they may; counting that |
//! | `scope` | which organization and project its path speaks of |
//! | `path_id` | the one spelling of an id in its path |
//! | `body`, `violation` | from bytes to a checked body; the first error in it |

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod origin;
pub(crate) mod path_id;
pub(crate) mod request_id;
pub(crate) mod scope;
pub(crate) mod throttle;
mod violation;
mod window;
