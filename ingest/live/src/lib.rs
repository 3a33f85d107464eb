//! Live stream: the events of a project as they are accepted or rejected, for people who watch.
//!
//! ```text
//! request ──observe──> copy of its rows ──logged──> queue ──> hub ──> viewers
//! ```
//!
//! | Module | Does |
//! |---|---|
//! | [`live`] (`channel`) | creates the ends |
//! | [`LiveTap`] (`tap`) | what requests call: is anybody watching, and if so, a copy of the rows |
//! | `shared` | state that the ends share |
//! | `watched_projects` | the projects that are watched, for requests to look at without waiting |
//! | `row_copy` | the copy of a request's rows |
//! | [`Observation`] (`observation`) | a copy that waits for the outcome of its request |
//! | `decode` | copied rows to events |
//! | `event`, `render` | an event, and its JSON |
//! | [`LiveFilter`] (`filter`) | the events that a viewer wants |
//! | `sampler` | a part of the events, where there are too many to read |
//! | `shipped` | positions up to which the logs are shipped |
//! | `unstored` | events that are logged and not in ClickHouse yet |
//! | `viewer` | one viewer, with its queue |
//! | `watched_project` | a project with its viewers and its last events |
//! | [`LiveHub`] (`hub`) | the thread that looks at copies and serves the viewers |
//! | [`LiveFeed`] (`feed`) | what viewers call |
//! | [`LiveMessage`] (`message`) | messages to a viewer |
//! | [`RemoteWatch`] (`remote_watch`) | a wish to watch, as it goes to another node |
//!
//! Promises: while nobody watches, a request costs one relaxed load; otherwise it copies at most
//! 64 KiB of rows, or one event, and never waits; what is left out for that is counted and told.
//! Every queue has a limit in number, and the copies together have one in bytes.

#![forbid(unsafe_code)]

mod channel;
mod decode;
mod event;
mod feed;
mod filter;
mod hub;
mod message;
mod observation;
mod remote_watch;
mod render;
mod row_copy;
mod sampler;
mod shared;
mod shipped;
mod tap;
mod unstored;
mod viewer;
mod watched_project;
mod watched_projects;

#[cfg(test)]
mod testing;

pub use channel::live;
pub use feed::{LiveFeed, WatchRefused, WatchRequest};
pub use filter::{Fate, LiveFilter};
pub use hub::{HubOptions, LiveHub, PROJECT_VIEWERS_MAX, VIEWERS_MAX};
pub use message::{LiveMessage, LiveRate};
pub use observation::{Observation, RequestFacts};
pub use remote_watch::RemoteWatch;
pub use sampler::{SHOWN_PER_SECOND_MAX, Sampler};
pub use shipped::ShippedPositions;
pub use tap::LiveTap;
