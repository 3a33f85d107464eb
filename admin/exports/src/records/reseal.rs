//! Resealing: encrypts the secrets of exports with another key.

use super::{BatchExports, open, sealing_context};
use crate::secrets::SecretKey;
use millrace_catalog::ChangeError;
use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::transaction::{Abort, locked};
use sea_orm::prelude::{Json, Uuid};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    Select,
};
use serde_json::{Map, Value};

impl BatchExports<'_> {
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
    pub async fn reseal(self, key: &SecretKey) -> Result<usize, ChangeError> {
        let all = sealed_secrets()
            .order_by_asc(exports::Column::Id)
            .into_tuple::<SealedSecrets>()
            .all(self.0.reader())
            .await;
        let mut sealed = Vec::new();
        for (id, name, secrets) in all.map_err(|error: DbErr| self.0.error(&error))? {
            let opened = open(id, &secrets, key).map_err(|_| does_not_open(id, &name))?;
            sealed.extend((!opened.is_empty()).then_some(id));
        }
        for id in &sealed {
            let transaction = self.0.begin().await?;
            let resealed = reseal(&transaction, key, *id).await;
            self.0.finish(transaction, resealed).await?;
        }
        Ok(sealed.len())
    }
}

/// Id, name and sealed secrets of an export.
type SealedSecrets = (Uuid, String, Json);

/// Secrets of exports. Other columns are not read: a later version may have written values into
/// them that this one does not know, and its exports need the new key as well.
fn sealed_secrets() -> Select<exports::Entity> {
    exports::Entity::find().select_only().columns([
        exports::Column::Id,
        exports::Column::Name,
        exports::Column::DestinationSecrets,
    ])
}

async fn reseal(within: &DatabaseTransaction, key: &SecretKey, id: Uuid) -> Result<(), Abort> {
    let own = sealed_secrets().filter(exports::Column::Id.eq(id));
    let own = locked(within, own).into_tuple::<SealedSecrets>();
    let Some((_, name, secrets)) = own.one(within).await? else {
        return Ok(());
    };
    let opened = open(id, &secrets, key).map_err(|_| does_not_open(id, &name))?;
    let mut sealed = Map::new();
    for (field, secret) in opened {
        let context = sealing_context(id, &field);
        sealed.insert(field, Value::String(key.seal(&context, &secret)?));
    }
    let sealed = Json::Object(sealed);
    exports::Entity::update_many()
        .col_expr(exports::Column::DestinationSecrets, Expr::value(sealed))
        .filter(exports::Column::Id.eq(id))
        .exec(within)
        .await?;
    Ok(())
}

fn does_not_open(id: Uuid, name: &str) -> ChangeError {
    let detail = format!(
        "The secrets of the batch export {name:?} ({id}) cannot be decrypted with any of the keys: \
         add the key that they were encrypted with, give them again, or delete the export."
    );
    ChangeError::invalid(None, "invalid_input", detail)
}
