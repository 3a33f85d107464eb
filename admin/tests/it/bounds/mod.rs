//! Cost bounds of operations: the published table, and responses of a full organization.
//!
//! | Module | Holds |
//! |---|---|
//! | `table` | the bounds as `deploy/THREATS.md` has them |
//! | `full_organization` | an organization that is filled to all limits |
//! | `http` | requests over a socket |
//! | `pages` | every list and resource of it, measured |
//! | `unread` | clients that request its largest pages and do not read |

mod full_organization;
mod http;
mod pages;
mod table;
mod unread;
