//! Bounds of operations: what the table says, and that an organization that has all it may have is
//! answered within them.
//!
//! | Module | Holds |
//! |---|---|
//! | `table` | the bounds as `deploy/THREATS.md` has them |
//! | `filled` | an organization with as much of everything as it may have |
//! | `http` | requests over a socket |
//! | `pages` | every list, page and thing of it, measured |
//! | `unread` | readers who ask for its largest pages and do not read |

mod filled;
mod http;
mod pages;
mod table;
mod unread;
