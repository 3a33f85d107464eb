//! Opens connections to addresses that customers give us, and none into our own network: every
//! address is checked when it is dialled, whatever its name resolved to before.
//!
//! | Module | Holds |
//! |---|---|
//! | [`addresses`] | tells public addresses from those of our own network |
//! | [`guard`] | SSRF egress guard: resolves names to addresses that may be dialled, and connects |
//! | `policy` | addresses that may be dialled |
//! | [`resolver`] | name resolution |
//! | [`tls`] | TLS configuration for clients |
//! | `http` | HTTP client that dials through the guard |
//!
//! Constraints:
//! - Only an address that was checked is dialled, never a name that could be resolved anew.
//! - Every refusal has the words for a name that does not resolve, so that customers cannot find
//!   out what there is in our network.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod guard;
mod http;
mod policy;
pub mod resolver;
pub mod tls;

pub use guard::Guard;
pub use http::HttpSetupError;
pub use policy::DialError;
pub use resolver::Resolver;
