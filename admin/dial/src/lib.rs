//! Connections to where customers point us, and nowhere inside: every address is looked at when it
//! is dialled, whatever a name resolved to before.
//!
//! | Module | Holds |
//! |---|---|
//! | [`addresses`] | which addresses are the world's and which are our own network's |
//! | [`guard`] | the one way out: names to addresses that may be dialled, connections to those |
//! | [`resolver`] | how names become addresses |
//! | [`tls`] | TLS to servers that say who they are |
//! | `http` | an HTTP client that goes the same way |
//!
//! Constraints:
//! - What is dialled is an address that was looked at, never a name that could be resolved anew.
//! - Whatever is refused is refused in the words for a name that does not resolve: what customers
//!   are told must not tell what there is in our network.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod guard;
mod http;
pub mod resolver;
pub mod tls;

pub use guard::{DialError, Guard};
pub use http::HttpSetupError;
pub use resolver::Resolver;
