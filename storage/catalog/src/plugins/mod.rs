//! Plugins: destinations, frontend apps, import apps, transformations.
//!
//! There is one table; a [`Family`] is a view of it that shows the plugins with certain
//! capabilities. An organization sees its own plugins, the global ones, and those that its
//! projects use; it changes its own only, and global ones need the operator.
//!
//! | Module | Holds |
//! |---|---|
//! | `family` | which capabilities are seen where |
//! | `address` | where plugins come from |
//! | `fields` | what may be said of a plugin, checked |
//! | `access` | who may change which |
//! | `write` | create, update, delete |
//! | `files` | the files of the source: read, written, compared |
//! | `source` | a change of the source, and what follows from it |
//! | `release` | install and upgrade what a catalogue offers |
//! | `log` | what the activity log says |
//! | `configs` | how projects use plugins |
//! | `shared` | global plugins that others use |
//! | `masks` | which values of that are secrets |
//! | `capabilities` | which file says what a source can do, and who reads it |

mod access;
mod address;
mod capabilities;
mod configs;
mod family;
mod fields;
mod files;
mod log;
mod masks;
mod release;
mod shared;
mod source;
mod write;

pub use access::PluginWriter;
pub use capabilities::{PluginCapabilities, SourceParseError, SourceParser};
pub use configs::{PluginSetting, PluginUse};
pub use family::Family;
pub use fields::{PluginFields, PluginRelease};
pub use files::{FileChange, PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginFiles, source_bytes};
pub(crate) use shared::must_share_no_plugins;
pub use write::NewPlugin;

use crate::catalog::Catalog;
use crate::entities::{organizations, plugin_configs as configs_table, plugins, projects};
use crate::error::CatalogError;
use crate::page::{Page, PageRequest};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Condition, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};

/// A plugin as an organization sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPlugin {
    /// Itself.
    pub plugin: plugins::Model,
    /// Who made it.
    pub organization_name: String,
}

impl SeenPlugin {
    /// Where the catalogue has it, without what lets private code be fetched from there: neither
    /// user and password nor a token. The only form of the address that people may see.
    #[must_use]
    pub fn shown_url(&self) -> Option<String> {
        self.plugin.url.as_deref().map(address::without_secrets)
    }
}

impl Catalog {
    /// The plugins that an organization sees in a view, oldest first.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_plugins(
        &self,
        organization_id: Uuid,
        family: Family,
        page: PageRequest,
    ) -> Result<Page<SeenPlugin>, CatalogError> {
        let found = page_of(&self.db, visible(organization_id, family), page).await;
        found.map_err(|error| self.error(&error))
    }

    /// Those of them that no project of the organization uses.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_unused_plugins(
        &self,
        organization_id: Uuid,
        family: Family,
        page: PageRequest,
    ) -> Result<Page<SeenPlugin>, CatalogError> {
        let used = used_by(organization_id, Some(true));
        let unused =
            visible(organization_id, family).filter(plugins::Column::Id.not_in_subquery(used));
        let found = page_of(&self.db, unused, page).await;
        found.map_err(|error| self.error(&error))
    }

    /// One of the plugins that an organization sees in a view.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn plugin(
        &self,
        organization_id: Uuid,
        family: Family,
        id: i64,
    ) -> Result<Option<SeenPlugin>, CatalogError> {
        let found = one(&self.db, organization_id, family, id).await;
        found.map_err(|error| self.error(&error))
    }
}

/// One plugin, as seen; inside and outside of transactions.
async fn one<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    family: Family,
    id: i64,
) -> Result<Option<SeenPlugin>, DbErr> {
    let query = visible(organization_id, family).filter(plugins::Column::Id.eq(id));
    let Some(plugin) = query.one(db).await? else {
        return Ok(None);
    };
    Ok(named(db, vec![plugin]).await?.pop())
}

fn visible(organization_id: Uuid, family: Family) -> Select<plugins::Entity> {
    let mine = Condition::any()
        .add(plugins::Column::OrganizationId.eq(organization_id))
        .add(plugins::Column::IsGlobal.eq(true))
        .add(plugins::Column::Id.in_subquery(used_by(organization_id, None)));
    let query = plugins::Entity::find().filter(mine);
    match family {
        Family::Plugins => query,
        Family::Destinations => query.filter(plugins::Column::IsDestination.eq(true)),
        Family::FrontendApps => query.filter(plugins::Column::IsFrontendApp.eq(true)),
        Family::ImportApps => query.filter(plugins::Column::IsImportApp.eq(true)),
        Family::Transformations => query.filter(plugins::Column::IsTransformation.eq(true)),
    }
}

/// The ids of the plugins that an organization's projects use; `enabled`: only if so.
fn used_by(organization_id: Uuid, enabled: Option<bool>) -> SelectStatement {
    let teams = Query::select()
        .column(projects::Column::Id)
        .from(projects::Entity)
        .and_where(projects::Column::OrganizationId.eq(organization_id))
        .to_owned();
    let mut used = Query::select();
    used.column(configs_table::Column::PluginId)
        .from(configs_table::Entity)
        .and_where(configs_table::Column::TeamId.in_subquery(teams));
    if let Some(enabled) = enabled {
        used.and_where(configs_table::Column::Enabled.eq(enabled));
    }
    used.to_owned()
}

async fn page_of<C: ConnectionTrait>(
    db: &C,
    query: Select<plugins::Entity>,
    page: PageRequest,
) -> Result<Page<SeenPlugin>, DbErr> {
    let count = query.clone().count(db).await?;
    let found = query
        .order_by_asc(plugins::Column::Id)
        .offset(page.offset)
        .limit(page.limit)
        .all(db)
        .await?;
    let rows = named(db, found).await?;
    Ok(Page { count, rows })
}

/// Adds who made them, in one statement for all.
async fn named<C: ConnectionTrait>(
    db: &C,
    found: Vec<plugins::Model>,
) -> Result<Vec<SeenPlugin>, DbErr> {
    let mut makers: Vec<Uuid> = found.iter().map(|plugin| plugin.organization_id).collect();
    makers.sort_unstable();
    makers.dedup();
    let names: Vec<(Uuid, String)> = organizations::Entity::find()
        .select_only()
        .column(organizations::Column::Id)
        .column(organizations::Column::Name)
        .filter(organizations::Column::Id.is_in(makers))
        .into_tuple()
        .all(db)
        .await?;
    let with_name = |plugin: plugins::Model| {
        let maker = names.iter().find(|(id, _)| *id == plugin.organization_id);
        SeenPlugin {
            organization_name: maker.map(|(_, name)| name.clone()).unwrap_or_default(),
            plugin,
        }
    };
    Ok(found.into_iter().map(with_name).collect())
}
