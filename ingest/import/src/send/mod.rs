//! Sends requests to the server.
//!
//! | Module | Holds |
//! |---|---|
//! | `target` | one exchange with the server |
//! | `outcome` | outcome of a request |
//! | `protocol_mismatch` | advice for an address with another protocol |
//! | `throttle` | number of requests in flight, and pauses |
//! | `validator` | the server's own rules, for requests that it refuses as a whole, and for the dry run |
//! | `deliver` | delivery of a request until each of its events is stored or refused |

mod deliver;
mod outcome;
mod protocol_mismatch;
mod target;
mod throttle;
mod validator;

pub use deliver::{Deliverer, RefusedEvent, Stop};
pub use outcome::{Refusal, RequestOutcome};
pub use target::{Compression, Target, client, client_with, server_url};
pub use throttle::Throttle;
pub use validator::Validator;
