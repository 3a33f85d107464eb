//! Choice of parts that run in one process.

/// Parts that run in this process.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Ingestion, with its log and shippers.
    pub ingest: bool,
    /// The organization API.
    pub admin: bool,
}

impl Parts {
    /// `millrace serve`.
    pub const ALL: Self = Self {
        ingest: true,
        admin: true,
    };
    /// `millrace ingest`.
    pub const INGEST: Self = Self {
        ingest: true,
        admin: false,
    };
    /// `millrace admin`.
    pub const ADMIN: Self = Self {
        ingest: false,
        admin: true,
    };
}
