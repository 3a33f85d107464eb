//! Configurations of plugins, which no operation of the catalog writes.

use crate::entities::plugin_configs as configs;
use crate::stored_json::StoredJson;
use crate::{Catalog, CatalogError, ProjectId};
use sea_orm::prelude::Json;
use sea_orm::{ActiveModelTrait, ActiveValue};

impl Catalog {
    /// Adds a plugin to a project, past all rules and without an entry in the log; answers the id
    /// of the configuration. `secret_keys` as in the table.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn configure_plugin(
        &self,
        plugin_id: i64,
        project_id: ProjectId,
        enabled: bool,
        values: Json,
        secret_keys: Option<&[&str]>,
    ) -> Result<i64, CatalogError> {
        let now = self.now();
        let secret_keys = secret_keys.map(|keys| {
            let keys = keys.iter().map(|key| (*key).to_owned());
            configs::SecretKeys(keys.collect())
        });
        let row = configs::ActiveModel {
            id: ActiveValue::NotSet,
            plugin_id: ActiveValue::Set(plugin_id),
            team_id: ActiveValue::Set(project_id.0),
            enabled: ActiveValue::Set(enabled),
            position: ActiveValue::Set(1),
            config: ActiveValue::Set(StoredJson(values)),
            secret_keys: ActiveValue::Set(secret_keys),
            created_at: ActiveValue::Set(now),
            updated_at: ActiveValue::Set(now),
        };
        let added = row.insert(&self.writer).await;
        let added = added.map_err(|error| self.error(&error))?;
        Ok(added.id)
    }
}
