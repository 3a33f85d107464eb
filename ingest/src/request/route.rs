//! Routes: the paths of the contract and how each is answered.

/// Bytes of a token in a path, at most: it is sent back, escaped, twice.
const TOKEN_BYTES_MAX: usize = 200;

/// Path of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/batch`.
    Batch,
    /// `/capture`.
    Capture,
    /// `/e`.
    E,
    /// `/i/v0/e`.
    IV0E,
    /// `/track`.
    Track,
    /// `/engage`, where an object without an event's name is a `$identify`.
    Engage,
    /// `/i/v1/analytics/events`, the per-event protocol.
    V1,
    /// `/i/v0/ai/batch`, which is `/batch` for events of language models.
    AiBatch,
    /// `/i/v0/ai`, one of these events in parts.
    Ai,
    /// `/flags`.
    Flags,
    /// `/decide`.
    Decide,
    /// `/s`, session replay.
    Replay,
    /// `/array/<token>/config`.
    Config,
    /// `/array/<token>/config.js`.
    ConfigJs,
    /// `/array/<token>/array.js`.
    ArrayJs,
    /// `/static/…`.
    Static,
    /// `/`.
    Root,
    /// `/_health/live`.
    Live,
    /// `/_health/ready`.
    Ready,
    /// Any other path.
    Unknown,
}

/// Kind of a route, which decides how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Takes events.
    Capture,
    /// Takes events by the per-event protocol.
    V1,
    /// Takes events of language models.
    Ai,
    /// Answers POST with a stub.
    Compat,
    /// Answers GET and HEAD.
    Page,
    /// Answers 404.
    Unknown,
}

impl Route {
    /// Number of routes.
    pub const COUNT: usize = Self::Unknown as usize + 1;

    /// Route of a path, with or without a slash at its end.
    pub fn of(path: &str) -> Self {
        match path.strip_suffix('/').unwrap_or(path) {
            "/batch" => Self::Batch,
            "/capture" => Self::Capture,
            "/e" => Self::E,
            "/i/v0/e" => Self::IV0E,
            "/track" => Self::Track,
            "/engage" => Self::Engage,
            "/i/v1/analytics/events" => Self::V1,
            "/i/v0/ai/batch" => Self::AiBatch,
            "/i/v0/ai" => Self::Ai,
            "/flags" => Self::Flags,
            "/decide" => Self::Decide,
            "/s" => Self::Replay,
            "" => Self::Root,
            "/_health/live" => Self::Live,
            "/_health/ready" => Self::Ready,
            other if other.starts_with("/static/") => Self::Static,
            other => Self::of_array(other),
        }
    }

    fn of_array(path: &str) -> Self {
        let Some((token, file)) = path
            .strip_prefix("/array/")
            .and_then(|rest| rest.split_once('/'))
        else {
            return Self::Unknown;
        };
        match file {
            _ if token.is_empty() || token.len() > TOKEN_BYTES_MAX => Self::Unknown,
            "config" => Self::Config,
            "config.js" => Self::ConfigJs,
            "array.js" => Self::ArrayJs,
            _ => Self::Unknown,
        }
    }

    /// Index of the route in a table.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Label of the route in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "/batch",
            Self::Capture => "/capture",
            Self::E => "/e",
            Self::IV0E => "/i/v0/e",
            Self::Track => "/track",
            Self::Engage => "/engage",
            Self::V1 => "/i/v1/analytics/events",
            Self::AiBatch => "/i/v0/ai/batch",
            Self::Ai => "/i/v0/ai",
            Self::Flags => "/flags",
            Self::Decide => "/decide",
            Self::Replay => "/s",
            Self::Config => "/array/config",
            Self::ConfigJs => "/array/config.js",
            Self::ArrayJs => "/array/array.js",
            Self::Static => "/static",
            Self::Root => "/",
            Self::Live => "/_health/live",
            Self::Ready => "/_health/ready",
            Self::Unknown => "unknown",
        }
    }

    /// Kind of the route.
    pub const fn kind(self) -> RouteKind {
        match self {
            Self::Batch | Self::Capture | Self::E | Self::IV0E | Self::Track | Self::Engage => {
                RouteKind::Capture
            }
            Self::V1 => RouteKind::V1,
            Self::AiBatch | Self::Ai => RouteKind::Ai,
            Self::Flags | Self::Decide | Self::Replay => RouteKind::Compat,
            Self::Config
            | Self::ConfigJs
            | Self::ArrayJs
            | Self::Static
            | Self::Root
            | Self::Live
            | Self::Ready => RouteKind::Page,
            Self::Unknown => RouteKind::Unknown,
        }
    }
}

impl RouteKind {
    /// Allowed methods, as `Allow` names them. Capture paths also answer a GET, with its events in
    /// the query; it is not named, as HEAD would belong to it, and nothing is stored by a HEAD.
    pub const fn allow(self) -> &'static str {
        match self {
            Self::Capture | Self::V1 | Self::Ai | Self::Compat => "POST, OPTIONS",
            Self::Page => "GET, HEAD, OPTIONS",
            Self::Unknown => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_with_and_without_its_last_slash() {
        let table = [
            ("/batch", Route::Batch),
            ("/capture", Route::Capture),
            ("/e", Route::E),
            ("/i/v0/e", Route::IV0E),
            ("/track", Route::Track),
            ("/engage", Route::Engage),
            ("/i/v1/analytics/events", Route::V1),
            ("/i/v0/ai/batch", Route::AiBatch),
            ("/i/v0/ai", Route::Ai),
            ("/s", Route::Replay),
            ("/flags", Route::Flags),
            ("/decide", Route::Decide),
            ("/array/phc_x/config", Route::Config),
            ("/array/phc_x/config.js", Route::ConfigJs),
            ("/array/phc_x/array.js", Route::ArrayJs),
            ("/static/array.js", Route::Static),
            ("/static/1.2.3/array.js", Route::Static),
            ("/_health/live", Route::Live),
            ("/_health/ready", Route::Ready),
            ("", Route::Root),
            ("/batch/x", Route::Unknown),
            ("/i/v0/ai/otel", Route::Unknown),
            ("/static", Route::Unknown),
            ("/BATCH", Route::Unknown),
            ("/array//config", Route::Unknown),
            ("/array/phc_x/surveys", Route::Unknown),
        ];
        for (path, route) in table {
            assert_eq!(Route::of(path), route, "{path}");
            assert_eq!(Route::of(&format!("{path}/")), route, "{path}/");
        }
        assert_eq!(Route::of("/batch//"), Route::Unknown);
        for (bytes, route) in [(200, Route::ConfigJs), (201, Route::Unknown)] {
            let path = format!("/array/{}/config.js", "\"".repeat(bytes));
            assert_eq!(Route::of(&path), route, "{bytes}");
        }
    }
}
