//! Plugins: permissions, fields, source and configurations.

mod access;
mod deleted;
mod limits;
mod log;
mod records;
mod reserved_names;
mod source;
mod uses;
mod withdrawn;

use millrace_catalog::{Actor, Catalog, ChangeError, Patch};
use millrace_organizations::testing::SourcesInProcess;
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::{
    FileChange, NewPlugin, PluginFamily, PluginFields, PluginView, PluginWriter, Plugins,
};

/// Plugins of a catalog, whose sources are read in this process.
fn plugins(catalog: &Catalog) -> Plugins<'_> {
    Plugins::new(catalog).with_parser(Some(&SourcesInProcess))
}

fn writer_in(fixture: &Fixture, family: PluginFamily) -> PluginWriter<'_> {
    PluginWriter {
        actor: &fixture.actor,
        organization_id: fixture.organization_id,
        family,
        is_operator: false,
    }
}

/// Actor with access to the other organization, which has no members.
static COMMAND_LINE: Actor = Actor::command_line();

fn foreign(fixture: &Fixture) -> PluginWriter<'_> {
    PluginWriter {
        actor: &COMMAND_LINE,
        organization_id: fixture.foreign_id,
        ..writer_in(fixture, PluginFamily::Plugins)
    }
}

fn named(name: &str) -> NewPlugin {
    let fields = PluginFields {
        name: Patch::Value(Some(name.to_owned())),
        ..PluginFields::default()
    };
    NewPlugin {
        fields,
        ..NewPlugin::default()
    }
}

fn files(changes: &[(&str, Option<&str>)]) -> Vec<FileChange> {
    let change = |(name, source): &(&str, Option<&str>)| FileChange {
        name: (*name).to_owned(),
        source: source.map(str::to_owned),
    };
    changes.iter().map(change).collect()
}

async fn create(writer: PluginWriter<'_>, fixture: &Fixture, name: &str) -> PluginView {
    plugins(&fixture.catalog)
        .create(writer, named(name))
        .await
        .unwrap()
}

fn code_of(error: &ChangeError) -> (Option<String>, &'static str) {
    match error.violation() {
        Some(violation) => (violation.field, violation.code),
        None if matches!(error, ChangeError::NotFound { .. }) => (None, "not_found"),
        None => (None, "forbidden"),
    }
}
