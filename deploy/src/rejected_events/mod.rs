//! Rejected events that are corrected and sent again, by the operator's command and by the API.
//!
//! | Module | Holds |
//! |---|---|
//! | `fields` | fields of an event, which stay as they were sent |
//! | `mapping` | changes of these fields |
//! | `corrected` | an event as it is sent again |
//! | `raws` | the JSON of events, read in bounded groups |
//! | `client` | one request to the server, and its outcome |
//! | `pending` | the request under way, as the catalog keeps it |
//! | `reporter` | outcomes of events, as they become known |
//! | `resender`, `request` | the loop that sends events again, and one request of it |
//! | `error` | reasons why a resend ends early |
//! | `collected` | outcomes for the API's answer |
//! | `store` | rejected events as the API's trait asks for them |

mod client;
mod collected;
mod corrected;
mod error;
mod fields;
mod mapping;
mod pending;
pub mod raws;
mod reporter;
mod request;
mod resender;
mod store;

pub use client::{ResendClient, SendLimits};
pub use corrected::time_text;
pub use error::ResendError;
pub use fields::FieldPath;
pub use mapping::Mapping;
pub use reporter::{EventOutcome, Reporter};
pub use resender::{ResendOptions, Resender};
pub use store::RejectedEventStore;
