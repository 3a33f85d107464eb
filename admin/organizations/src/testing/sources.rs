//! Parser of plugins' sources that needs no process of its own.

use crate::{PluginCapabilities, SourceParseError, SourceParser};
use async_trait::async_trait;
use sea_orm::prelude::Uuid;

/// Reads sources in the test's own process, which ends with those that end their reader.
#[derive(Clone, Copy, Debug)]
pub struct SourcesInProcess;

#[async_trait]
impl SourceParser for SourcesInProcess {
    async fn parse(
        &self,
        _organization_id: Uuid,
        source: String,
    ) -> Result<PluginCapabilities, SourceParseError> {
        let read = millrace_plugin_source::capabilities_of(&source);
        let read = read.map_err(|mistake| SourceParseError::Mistake {
            line: mistake.line,
            column: mistake.column,
        })?;
        Ok(PluginCapabilities {
            methods: read.methods,
            jobs: read.jobs,
            scheduled_tasks: read.scheduled_tasks,
        })
    }
}
