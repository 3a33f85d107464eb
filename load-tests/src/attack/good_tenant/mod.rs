//! The good tenant's work during the whole run, and the responses that it must get.
//!
//! | File | Does |
//! |---|---|
//! | [`tenant`] | holds the tenant, and judges responses |
//! | [`load`] | sends single events and batches at a fixed rate, with a ledger |
//! | [`persons`] | names users, and waits until each name can be queried |
//! | [`exports`] | exports yesterday's events, and waits for the file |
//! | [`api`] | calls the organization API, with known responses |
//! | [`queries`] | runs long queries, which others try to stop |

mod api;
mod exports;
pub(super) mod load;
mod persons;
mod queries;
mod tenant;

pub(super) use tenant::GoodTenant;

use crate::runtime::current_thread_runtime;
use anyhow::Result;

impl GoodTenant<'_> {
    /// Names users until the run is over; returns their number.
    pub(super) fn name_persons(&self) -> Result<u64> {
        current_thread_runtime()?.block_on(persons::name_all(self))
    }

    /// Exports yesterday's events until the run is over.
    pub(super) fn export(&self) -> Result<()> {
        current_thread_runtime()?.block_on(exports::export_all(self))
    }

    /// Sends requests to the API until the run is over.
    pub(super) fn ask(&self) -> Result<()> {
        current_thread_runtime()?.block_on(api::ask_all(self))
    }

    /// Runs long queries until the run is over.
    pub(super) fn query(&self) -> Result<()> {
        current_thread_runtime()?.block_on(queries::query_all(self))
    }
}
