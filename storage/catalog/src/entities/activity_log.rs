//! Activity log: the audit trail of changes.

use crate::UtcTime;
use crate::activity::{Activity, ActivityDetail, ActivityScope};
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Entry of the log; never changed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "activity_log")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization whose members may read it; null: only the operator.
    pub organization_id: Option<Uuid>,
    /// User who made the change; null: the operator or Millrace itself.
    pub user_id: Option<i64>,
    /// Key that was used.
    pub key_id: Option<Uuid>,
    /// First name of the actor at that time.
    pub actor_name: String,
    /// E-mail address of the actor at that time.
    pub actor_email: Option<String>,
    /// Kind of change.
    pub activity: Activity,
    /// Kind of object that was changed.
    pub scope: ActivityScope,
    /// Id of the object in the API's paths.
    pub item_id: String,
    /// Changes of fields, without secrets.
    pub detail: ActivityDetail,
    /// Time of the change.
    pub created_at: UtcTime,
}

/// Relations: none, as entries outlive the objects that they are about.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
