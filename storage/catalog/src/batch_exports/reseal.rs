//! Secrets under another key.

use super::making::lock_export;
use super::sealing_place;
use crate::catalog::Catalog;
use crate::entities::batch_exports as exports;
use crate::error::ChangeError;
use crate::secrets::SecretKey;
use crate::transaction::Abort;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::{
    ActiveModelTrait, ActiveValue, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    QueryOrder,
};
use serde_json::{Map, Value};

impl Catalog {
    /// Seals all secrets of exports anew with the first of the keys that open them; answers of how
    /// many exports. What they say does not change, so the log of activity is told nothing.
    ///
    /// Each export is a transaction of its own: nobody waits for more than one of them, and nobody
    /// who locks several can wait for us while we wait for them. Where it ends early, some secrets
    /// have the new key and others have not: all keys are needed until it was done again.
    ///
    /// # Errors
    ///
    /// A secret opens with none of the keys, and then nothing was done unless it was kept just now;
    /// or what the database says.
    pub async fn reseal_secrets(&self, key: &SecretKey) -> Result<usize, ChangeError> {
        let all = exports::Entity::find()
            .order_by_asc(exports::Column::Id)
            .all(&self.db)
            .await;
        let mut sealed = Vec::new();
        for export in all.map_err(|error: DbErr| self.error(&error))? {
            let secrets = export.secrets(key).map_err(|_| does_not_open(&export))?;
            sealed.extend((!secrets.is_empty()).then_some(export.id));
        }
        for id in &sealed {
            let transaction = self.begin().await?;
            let resealed = reseal(&transaction, key, *id).await;
            self.finish(transaction, resealed).await?;
        }
        Ok(sealed.len())
    }
}

async fn reseal(within: &DatabaseTransaction, key: &SecretKey, id: Uuid) -> Result<(), Abort> {
    let Some(export) = lock_export(within, id).await? else {
        return Ok(());
    };
    let secrets = export.secrets(key).map_err(|_| does_not_open(&export))?;
    let mut sealed = Map::new();
    for (name, secret) in secrets {
        let place = sealing_place(id, &name);
        sealed.insert(name, Value::String(key.seal(&place, &secret)?));
    }
    let mut row = export.into_active_model();
    row.destination_secrets = ActiveValue::Set(Json::Object(sealed));
    row.update(within).await?;
    Ok(())
}

fn does_not_open(export: &exports::Model) -> ChangeError {
    let detail = format!(
        "The secrets of the batch export {:?} ({}) open with none of the keys: add the key that \
         they were encrypted with, give them again, or delete the export.",
        export.name, export.id
    );
    ChangeError::invalid(None, "invalid_input", detail)
}
