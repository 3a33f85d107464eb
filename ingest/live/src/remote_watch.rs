//! Wish to watch a project, as it goes to another node.

use crate::feed::WatchRequest;
use crate::filter::LiveFilter;
use millrace_rows::ProjectId;
use serde::{Deserialize, Serialize};

/// Wish to watch a project, as it goes to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteWatch {
    project_id: i64,
    #[serde(default)]
    filter: LiveFilter,
    shows_ip: bool,
    #[serde(default)]
    seen: Option<String>,
}

impl From<WatchRequest> for RemoteWatch {
    fn from(request: WatchRequest) -> Self {
        Self {
            project_id: request.project_id.0,
            filter: request.filter,
            shows_ip: request.shows_ip,
            seen: request.seen,
        }
    }
}

impl From<RemoteWatch> for WatchRequest {
    fn from(remote: RemoteWatch) -> Self {
        Self {
            project_id: ProjectId(remote.project_id),
            filter: remote.filter,
            shows_ip: remote.shows_ip,
            seen: remote.seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Fate;

    #[test]
    fn a_watch_survives_its_json() {
        let filter = LiveFilter {
            event: Some("page".to_owned()),
            fate: Some(Fate::Rejected),
            properties: vec![("plan".to_owned(), "pro".to_owned())],
            ..LiveFilter::default()
        };
        let remote = RemoteWatch::from(WatchRequest {
            project_id: ProjectId(7),
            filter: filter.clone(),
            shows_ip: true,
            seen: Some("8-n1".to_owned()),
        });
        let json = serde_json::to_string(&remote).unwrap();
        let read: RemoteWatch = serde_json::from_str(&json).unwrap();
        assert_eq!(read, remote);
        let request = WatchRequest::from(read);
        assert_eq!((request.project_id, request.filter), (ProjectId(7), filter));
    }

    #[test]
    fn a_watch_of_a_version_without_filters_wants_all() {
        let read: RemoteWatch =
            serde_json::from_str(r#"{"project_id":7,"shows_ip":false}"#).unwrap();
        assert_eq!(WatchRequest::from(read).filter, LiveFilter::default());
    }
}
