//! Admission: whether a connection, a request or its rows may come in.
//!
//! A request is asked as early as possible, because a body that is refused after it was read costs
//! the reading, too. It is asked again whenever more of it is known, because others may have taken
//! the capacity meanwhile. In the order in which a request meets them:
//!
//! 1. [`ConnectionLimiter`](crate::connection::limits::ConnectionLimiter): connections, when they
//!    are accepted;
//! 2. [`early_reject`]: while the core is overloaded, before hyper has read a byte ([`plain_head`]
//!    reads the head, [`control`] decides);
//! 3. [`Admission::check_before_body`](policy::Admission::check_before_body): log, fair queue and
//!    budget, by the head;
//! 4. [`budget`] and fair queue while the body comes;
//! 5. [`Admission::take_turn`](policy::Admission::take_turn): waits in the [`fair_queue`], before
//!    the body is decoded;
//! 6. [`OffloadPool`](crate::offload::OffloadPool): threads, for which projects take turns, too,
//!    and memory; for large bodies only;
//! 7. [`Admission::reserve_slot`](policy::Admission::reserve_slot): the log's queue, before the
//!    body is parsed;
//! 8. [`Admission::reserve_import`](policy::Admission::reserve_import) and
//!    [`Admission::charge_months`](policy::Admission::charge_months), by the rows.
//! 9. [`response_budget`]: memory of a response above 4 KiB, before the rows are stored.
//!
//! [`rejection`] builds every response of this table; "before" and "after" are of the body:
//!
//! | Rejected | When | By | Status | Code | Body |
//! |---|---|---|---|---|---|
//! | every connection | while the log is still being read | `connection::startup` | 503 | `starting` | before |
//! | a connection | too many of the process, none of which waits for a request, or of its address | `connection::limits` | 503 | `too_many_connections` | before |
//! | a request | no memory, turn or thread in time | `early_reject`, `fair_queue`, `budget`, `offload`, `response_budget` | 503 | `overloaded` | both |
//! | a request | its body is longer than any may be, as declared or as it comes | `http::body` | 413 | `payload_too_large` | both |
//! | a request | too much waits for the disk | pipeline | 503 | `queue_full` | both |
//! | a request | ClickHouse is behind by all of the log | pipeline | 503 | `log_full` | both |
//! | an import | ClickHouse is behind by most of the log | pipeline | 503 | `historical_shed` | both |
//! | a request | the disk is full of other files | pipeline | 503 | `disk_full` | both |
//! | a request | the log could not be written | pipeline | 503 | `log_failed` | both |
//! | a request | the process ends, and the log is closed or the client stalls in its body | pipeline, `http::body` | 503 | `shutting_down` | both |
//! | a request | its parser would need more memory than all may have | `offload` | 413 | `body_too_complex` | after |
//! | a request | its key, or the quota of its import, cannot be looked up | `keys`, `import_quota` | 503 | `catalog_unavailable` | after |
//! | an import | its organization may not import | `import_quota` | 403 | `payment_required` | after |
//! | an import | it has more events than may ever come in a minute | `import_quota` | 413 | `batch_exceeds_rate` | after |
//! | an import | the project has fewer events left | `import_quota` | 429 | `migration_volume_exceeded` | after |
//! | an import | the project imports too fast | `import_quota` | 429 | `migration_rate_exceeded` | after |
//! | a live request | it has more older months than are ever accepted at once | `month_limiter` | 413 | `too_many_months` | after |
//! | a request | its organization, or all together, began too many older months lately | `month_limiter` | 503 | `too_many_months` | after |
//! | a request | its rows are more than one insert may hold | pipeline | 413 | `batch_too_large` | after |
//! | a request | the process ends before its rows are in ClickHouse, which it waits for | pipeline | 503 | `not_shipped` | after |
//!
//! Requests that are malformed, unauthorized or too slow are no matter of admission: `request`,
//! `keys`, `http` and `connection` answer them.

pub mod budget;
pub mod cached_error;
pub mod control;
pub mod early_reject;
pub mod fair_queue;
pub mod month_limiter;
pub mod plain_head;
pub mod policy;
pub mod project_hint;
pub mod rejection;
pub mod response_budget;
