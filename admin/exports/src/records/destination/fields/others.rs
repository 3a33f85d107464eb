//! Destinations that take neither files nor rows of a table, and the fields that all types have.

use super::field::{DestinationField, DestinationSpec, FieldKind, Sample, field, text};

/// Fields of every type.
pub(super) const COMMON: [DestinationField; 2] = [
    field(
        "include_events",
        FieldKind::TextList,
        Sample::TextList(&["$pageview", "purchase"]),
        "Names of the events that are exported; all if none are given.",
    ),
    field(
        "exclude_events",
        FieldKind::TextList,
        Sample::TextList(&["$feature_flag_called"]),
        "Names of events that are not exported.",
    ),
];

pub(super) const HTTP: DestinationSpec = DestinationSpec {
    about: "Batches of events, posted to a server: up to 1000 events or 4 MiB each, with an \
            `Idempotency-Key`. If the URL's path ends with `/batch/`, batches have the form that \
            clients of Millrace send; otherwise they are lines of JSON, with the token as \
            `Authorization: Bearer`. `model` must be `events`.",
    needs: &[],
    own: &[
        text(
            "url",
            "https://in.example.com/batch/",
            "URL that batches are posted to.",
        )
        .of(FieldKind::Url)
        .required()
        .leading(),
        text(
            "token",
            "phc_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG",
            "Key of the project there, or the token of the server.",
        )
        .required()
        .secret(),
    ],
    shared: &[],
};

pub(super) const NO_OP: DestinationSpec = DestinationSpec {
    about: "Nothing is sent: runs are created and their rows counted, to try an interval or a \
            query.",
    needs: &[],
    own: &[text("arg", "try", "A note of yours.").with_default(Sample::Text(""))],
    shared: &[],
};
