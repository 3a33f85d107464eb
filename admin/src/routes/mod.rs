//! Operations of the API, one file for each resource; [`crate::operation`] says how to add one.

mod activity;
mod batch_exports;
mod clickhouse_user;
pub(crate) mod documentation;
mod domains;
mod historical_migrations;
mod invites;
mod live;
mod members;
mod organizations;
mod personal_api_keys;
mod plugins;
mod projects;
mod property_columns;
mod proxy_records;
mod queries;
mod rejected_events;
mod role_memberships;
mod role_scopes;
mod roles;
mod sessions;
mod sign_in;
mod signup;
mod stats;
mod users;

use crate::operation::Operation;
use documentation::Published;
use std::sync::Arc;

/// Table of all operations. `published` gets the document that is made of it.
pub(crate) fn operations(published: &Arc<Published>) -> Vec<Operation> {
    [
        activity::operations(),
        batch_exports::operations(),
        clickhouse_user::operations(),
        domains::operations(),
        historical_migrations::operations(),
        invites::operations(),
        live::operations(),
        members::operations(),
        organizations::operations(),
        personal_api_keys::operations(),
        plugins::operations(),
        projects::operations(),
        property_columns::operations(),
        proxy_records::operations(),
        queries::operations(),
        rejected_events::operations(),
        role_memberships::operations(),
        roles::operations(),
        sessions::operations(),
        sign_in::operations(),
        signup::operations(),
        stats::operations(),
        documentation::operations(published),
    ]
    .into_iter()
    .flatten()
    .collect()
}
