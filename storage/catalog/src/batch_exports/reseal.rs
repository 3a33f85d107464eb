//! Resealing: encrypts the secrets of exports with another key.

use super::create_runs::lock_export;
use super::sealing_context;
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
    /// many exports. Their values do not change, so the activity log has no entry.
    ///
    /// Each export is a transaction of its own: other writers never wait for more than one of them,
    /// and a writer that locks several cannot wait for us while we wait for it. If it ends early,
    /// some secrets have the new key and others have not: all keys are needed until it is done
    /// again.
    ///
    /// # Errors
    ///
    /// A secret opens with none of the keys, and then nothing was done unless it was stored just
    /// now; or any database error.
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
        let context = sealing_context(id, &name);
        sealed.insert(name, Value::String(key.seal(&context, &secret)?));
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
