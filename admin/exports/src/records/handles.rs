//! Handles to batch exports and what belongs to them.

use millrace_catalog::Catalog;

/// Batch exports of organizations and their projects.
#[derive(Clone, Copy, Debug)]
pub struct BatchExports<'a>(pub(super) &'a Catalog);

impl<'a> BatchExports<'a> {
    /// Returns a handle to the batch exports in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

/// Runs of batch exports.
#[derive(Clone, Copy, Debug)]
pub struct ExportRuns<'a>(pub(super) &'a Catalog);

impl<'a> ExportRuns<'a> {
    /// Returns a handle to the runs of exports in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

/// Backfills of batch exports.
#[derive(Clone, Copy, Debug)]
pub struct Backfills<'a>(pub(super) &'a Catalog);

impl<'a> Backfills<'a> {
    /// Returns a handle to the backfills in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

/// Log lines of batch exports and their runs.
#[derive(Clone, Copy, Debug)]
pub struct ExportLogs<'a>(pub(super) &'a Catalog);

impl<'a> ExportLogs<'a> {
    /// Returns a handle to the log lines of exports in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

/// Planning of runs, and deletion of those that ended long ago.
#[derive(Clone, Copy, Debug)]
pub struct ExportPlanner<'a>(pub(super) &'a Catalog);

impl<'a> ExportPlanner<'a> {
    /// Returns a handle that plans the exports in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}
