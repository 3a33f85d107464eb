//! Plugins: destinations, frontend apps, import apps, transformations.
//!
//! There is one table; a [`PluginFamily`] selects the plugins with certain capabilities from it. An
//! organization sees its own plugins and the global ones; it changes its own only, and only the
//! operator changes global ones.
//!
//! | Module | Holds |
//! |---|---|
//! | `family` | families of plugins, by their capabilities |
//! | `source_url` | addresses that plugins are installed from |
//! | `fields` | fields of a plugin, validated |
//! | `access` | permissions to change plugins |
//! | `write` | create, update, delete |
//! | `files` | files of the source: read, written, compared |
//! | `source` | changes of the source, and the fields that follow from them |
//! | `release` | installing and upgrading releases of a catalogue |
//! | `audit` | entries of the activity log |
//! | `configs` | configurations of plugins in projects, which are listed only |
//! | `config_secrets` | secret values of configurations |
//! | `shared` | plugins that other organizations use, and their withdrawal |
//! | `capabilities` | main file of a source, and its parser |

mod access;
mod audit;
mod capabilities;
mod config_secrets;
mod configs;
mod family;
mod fields;
mod files;
mod release;
mod shared;
mod source;
mod source_url;
mod write;

pub use access::PluginWriter;
pub use capabilities::{PluginCapabilities, SourceParseError, SourceParser};
pub use configs::PluginUse;
pub use family::PluginFamily;
pub use fields::{NewPlugin, PluginFields, PluginRelease};
pub use files::{FileChange, PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginFiles, source_bytes};
pub(crate) use shared::must_share_no_plugins;

use millrace_catalog::entities::{
    organizations, plugin_configs as configs_table, plugins, projects,
};
use millrace_catalog::{Catalog, CatalogError, Page, PageRequest};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Condition, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};

/// Plugin as an organization sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginView {
    /// Row of the plugin.
    pub plugin: plugins::Model,
    /// Name of the organization that owns it.
    pub organization_name: String,
}

impl PluginView {
    /// Address of the plugin in a catalogue, without its secrets: neither user and password nor a
    /// token. Only this form of the address may be shown.
    #[must_use]
    pub fn shown_url(&self) -> Option<String> {
        self.plugin.url.as_deref().map(source_url::without_secrets)
    }
}

/// Plugins of organizations, and their sources.
#[derive(Clone, Copy, Debug)]
pub struct Plugins<'a> {
    catalog: &'a Catalog,
    /// Parser of main files; `None`: no source with one can be stored.
    parser: Option<&'a dyn SourceParser>,
}

impl<'a> Plugins<'a> {
    /// Returns a handle to the plugins in a catalog, which can read no sources.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            parser: None,
        }
    }

    /// Gives the handle a parser of main files.
    #[must_use]
    pub const fn with_parser(self, parser: Option<&'a dyn SourceParser>) -> Self {
        Self { parser, ..self }
    }
}

impl Plugins<'_> {
    /// Page of the plugins of a family that an organization sees, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        family: PluginFamily,
        page: PageRequest,
    ) -> Result<Page<PluginView>, CatalogError> {
        let found = page_of(
            self.catalog.reader(),
            visible(organization_id, family),
            page,
        )
        .await;
        found.map_err(|error| self.catalog.error(&error))
    }

    /// Page of the plugins of a family that an organization sees and none of its projects uses.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_unused(
        self,
        organization_id: Uuid,
        family: PluginFamily,
        page: PageRequest,
    ) -> Result<Page<PluginView>, CatalogError> {
        let used = used_by(organization_id);
        let unused =
            visible(organization_id, family).filter(plugins::Column::Id.not_in_subquery(used));
        let found = page_of(self.catalog.reader(), unused, page).await;
        found.map_err(|error| self.catalog.error(&error))
    }

    /// Reads a plugin of a family that an organization sees.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        organization_id: Uuid,
        family: PluginFamily,
        id: i64,
    ) -> Result<Option<PluginView>, CatalogError> {
        let found = one(self.catalog.reader(), organization_id, family, id).await;
        found.map_err(|error| self.catalog.error(&error))
    }
}

/// Reads a plugin that an organization sees, inside or outside of a transaction.
async fn one<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    family: PluginFamily,
    id: i64,
) -> Result<Option<PluginView>, DbErr> {
    let query = visible(organization_id, family).filter(plugins::Column::Id.eq(id));
    let Some(plugin) = query.one(db).await? else {
        return Ok(None);
    };
    Ok(named(db, vec![plugin]).await?.pop())
}

fn visible(organization_id: Uuid, family: PluginFamily) -> Select<plugins::Entity> {
    let mine = Condition::any()
        .add(plugins::Column::OrganizationId.eq(organization_id))
        .add(plugins::Column::IsGlobal.eq(true));
    let query = plugins::Entity::find().filter(mine);
    match family {
        PluginFamily::Plugins => query,
        PluginFamily::Destinations => query.filter(plugins::Column::IsDestination.eq(true)),
        PluginFamily::FrontendApps => query.filter(plugins::Column::IsFrontendApp.eq(true)),
        PluginFamily::ImportApps => query.filter(plugins::Column::IsImportApp.eq(true)),
        PluginFamily::Transformations => query.filter(plugins::Column::IsTransformation.eq(true)),
    }
}

/// Query for the ids of the plugins that are enabled in an organization's projects.
fn used_by(organization_id: Uuid) -> SelectStatement {
    let project_ids = Query::select()
        .column(projects::Column::Id)
        .from(projects::Entity)
        .and_where(projects::Column::OrganizationId.eq(organization_id))
        .to_owned();
    Query::select()
        .column(configs_table::Column::PluginId)
        .from(configs_table::Entity)
        .and_where(configs_table::Column::TeamId.in_subquery(project_ids))
        .and_where(configs_table::Column::Enabled.eq(true))
        .to_owned()
}

async fn page_of<C: ConnectionTrait>(
    db: &C,
    query: Select<plugins::Entity>,
    page: PageRequest,
) -> Result<Page<PluginView>, DbErr> {
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

/// Adds the names of the owners to plugins, in one statement for all.
async fn named<C: ConnectionTrait>(
    db: &C,
    found: Vec<plugins::Model>,
) -> Result<Vec<PluginView>, DbErr> {
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
        PluginView {
            organization_name: maker.map(|(_, name)| name.clone()).unwrap_or_default(),
            plugin,
        }
    };
    Ok(found.into_iter().map(with_name).collect())
}
