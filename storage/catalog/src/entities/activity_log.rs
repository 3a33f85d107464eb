//! The activity log: who changed what, and when.

use crate::UtcTime;
use crate::activity::{Activity, ActivityDetail, ActivityScope};
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One entry; never changed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "activity_log")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Who may read it; null: only the operator.
    pub organization_id: Option<Uuid>,
    /// Who did it; null: the operator or Millrace itself.
    pub user_id: Option<i64>,
    /// With which key.
    pub key_id: Option<Uuid>,
    /// The actor's first name then.
    pub actor_name: String,
    /// The actor's address then.
    pub actor_email: Option<String>,
    /// What was done.
    pub activity: Activity,
    /// To which kind of thing.
    pub scope: ActivityScope,
    /// To which one: its id in the API's paths.
    pub item_id: String,
    /// What changed, without secrets.
    pub detail: ActivityDetail,
    /// When.
    pub created_at: UtcTime,
}

/// It outlives what it speaks of, so it refers to nothing.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
