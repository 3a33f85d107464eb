//! Result of an insert batch, from its delivery to the plan.

use millrace_clickhouse::InsertError;

/// Result of an insert batch: what is known of its rows once trying on tells no more. The plan
/// takes the next step by it.
#[derive(Debug)]
pub enum InsertResult {
    /// The rows are stored.
    Stored,
    /// The rows are dead letters, but for those that were salvaged and stored.
    DeadLettered,
    /// The rows are absent, and the token may be spent: they are sent under the next attempt.
    Absent,
    /// Nothing was sent that could have been stored, and the server restarted: its new boot id is
    /// recorded before the rows are sent.
    Restarted,
    /// Shards may have stored some of the rows and not others: the batch is launched again in
    /// doubt, so that all of its rows are looked up.
    InDoubt,
    /// Some shards have their rows, others lack them and may have spent the token: the batch is
    /// launched again in doubt, under the next attempt.
    Incomplete,
    /// Some of the rows are stored and others are not, or the rows are in doubt and not all of them
    /// can be read: the batch is halved, and each half looked up before it is sent.
    Parted,
    /// The rows are absent, as ClickHouse cannot read them: the batch is halved, or the rows become
    /// dead letters if it cannot be.
    Refused(InsertError),
    /// The rows are absent, and it is open whether they or the server are to blame.
    Unproven {
        error: InsertError,
        /// True unless it is known that the rows of the batch cannot be told apart, or not be
        /// looked up.
        can_halve: bool,
    },
    /// Unknown whether the rows are stored, and trying again does not help: they become dead
    /// letters, section by section.
    Unknowable(InsertError),
    /// Not all of the rows can be read or told apart, and no earlier try is known to have stored
    /// them. The batch is halved and each half sent: down to a section, of which all rows that can
    /// be read are sent together, or, of a part of one, down to rows that can all be read, or none.
    Lost(String),
}

impl InsertResult {
    /// The result of a batch that fails for its rows or for the server.
    pub const fn unproven(error: InsertError) -> Self {
        Self::Unproven {
            error,
            can_halve: true,
        }
    }
}
