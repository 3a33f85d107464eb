//! Secrets under another key.

use super::destination::sealed_otherwise;
use super::sealing_place;
use crate::catalog::Catalog;
use crate::entities::batch_exports as exports;
use crate::error::ChangeError;
use crate::secrets::SecretKey;
use crate::transaction::{Abort, locked};
use sea_orm::prelude::Json;
use sea_orm::{ActiveModelTrait, ActiveValue, DatabaseTransaction, EntityTrait, IntoActiveModel};
use serde_json::{Map, Value};

impl Catalog {
    /// Seals all secrets of exports anew with the first of the keys that open them, all of them or
    /// none; answers of how many exports. What they say does not change, so the log of activity is
    /// told nothing.
    ///
    /// # Errors
    ///
    /// A secret opens with none of the keys, or what the database says.
    pub async fn reseal_secrets(&self, key: &SecretKey) -> Result<usize, ChangeError> {
        let transaction = self.begin().await?;
        let resealed = reseal(&transaction, key).await;
        self.finish(transaction, resealed).await
    }
}

async fn reseal(within: &DatabaseTransaction, key: &SecretKey) -> Result<usize, Abort> {
    let all = locked(within, exports::Entity::find()).all(within).await?;
    let mut count = 0;
    for export in all {
        let secrets = export.secrets(key).map_err(|_| sealed_otherwise())?;
        if secrets.is_empty() {
            continue;
        }
        let mut sealed = Map::new();
        for (name, secret) in secrets {
            let place = sealing_place(export.id, &name);
            sealed.insert(name, Value::String(key.seal(&place, &secret)?));
        }
        let mut row = export.into_active_model();
        row.destination_secrets = ActiveValue::Set(Json::Object(sealed));
        row.update(within).await?;
        count += 1;
    }
    Ok(count)
}
