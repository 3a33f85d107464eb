//! Requests of tests.

use crate::observation::{Observed, RequestFacts, RequestOutcome};
use crate::row_copy::RowCopy;
use crate::shared::Shared;
use millrace_log::Position;
use millrace_rows::{
    Batch, EventRow, Lane, Micros, Month, ProjectId, RejectedRow, RowGroup, Table,
};
use std::sync::Arc;
use uuid::Uuid;

/// Project of all requests.
pub const PROJECT: ProjectId = ProjectId(1);
/// Position of a logged request.
pub const POSITION: Position = Position {
    segment: 1,
    offset: 640,
};
/// Time of receipt: 2026-11-20T14:38:00Z.
pub const NOW: Micros = Micros(1_795_185_480_000_000);

pub fn batch(groups: Vec<RowGroup>) -> Batch {
    Batch {
        lane: Lane::Live,
        groups,
    }
}

/// Events with these names, and with properties of a browser.
pub fn event_group(month: u32, names: &[&str]) -> RowGroup {
    let properties =
        r#"{"$ip":"192.0.2.1","$lib":"web","$lib_version":"1.2.3","plan":"pro","n":7}"#;
    let events: Vec<_> = names.iter().map(|name| (*name, properties)).collect();
    event_group_of(month, &events)
}

/// Events with these names and properties.
pub fn event_group_of(month: u32, events: &[(&str, &str)]) -> RowGroup {
    let mut bytes = Vec::new();
    for ((name, properties), number) in events.iter().zip(1..) {
        let row = EventRow {
            uuid: Uuid::from_u128(number),
            event: name.as_bytes(),
            properties: &[properties.as_bytes()],
            timestamp: NOW,
            team_id: PROJECT,
            distinct_id: b"ann",
            created_at: NOW,
            historical_migration: false,
        };
        row.append_to(&mut bytes);
    }
    group(Table::Events, month, events.len(), bytes)
}

/// Rejected events, the first of index 0.
pub fn rejected_group(raws: &[&str]) -> RowGroup {
    let mut bytes = Vec::new();
    for (raw, index) in raws.iter().zip(0..) {
        let row = RejectedRow {
            team_id: PROJECT,
            received_at: NOW,
            request_id: Uuid::nil(),
            index,
            code: "missing_event",
            attr: "batch[0].event",
            detail: "The event has no name.",
            raw: raw.as_bytes(),
            historical_migration: false,
        };
        row.append_to(&mut bytes);
    }
    group(Table::RejectedEvents, 202_611, raws.len(), bytes)
}

fn group(table: Table, month: u32, rows: usize, bytes: Vec<u8>) -> RowGroup {
    RowGroup {
        table,
        month: Month(month),
        rows: u32::try_from(rows).unwrap(),
        bytes,
        keys: Vec::new(),
    }
}

pub fn facts(accepted: u32, rejected: u32) -> RequestFacts {
    RequestFacts {
        key: Some("phc_...last".to_owned()),
        client_ip: Some([192, 0, 2, 1].into()),
        accepted,
        rejected,
        rejected_indexes: (0..rejected).collect(),
        warnings: Vec::new(),
        warning_count: 0,
    }
}

/// Request that was logged at [`POSITION`].
pub fn logged(groups: Vec<RowGroup>, facts: RequestFacts) -> Observed {
    Observed {
        project_id: PROJECT,
        facts,
        rows: RowCopy::of(&batch(groups), &Arc::<Shared>::default()),
        outcome: RequestOutcome::Logged {
            lane: Lane::Live,
            position: POSITION,
        },
    }
}
