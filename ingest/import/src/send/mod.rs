//! Requests out, answers in.
//!
//! | Module | Holds |
//! |---|---|
//! | `target` | one exchange with the server |
//! | `answer` | what an answer means |
//! | `gate` | how many requests at once, and when to wait |
//! | `judge` | the server's own rules, for requests that it refuses as a whole, and for the dry run |
//! | `deliver` | one request until all of its events are stored or refused |

mod answer;
mod deliver;
mod gate;
mod judge;
mod speech;
mod target;

pub use answer::{Answer, Refusal};
pub use deliver::{Delivered, Deliverer, Stop};
pub use gate::Gate;
pub use judge::Judge;
pub use target::{Compression, Target, client, client_with, server_url};
