//! Dashboards as Grafana imports them.

use super::source::{Dashboard, Kind, Panel, Query};
use serde_json::{Value, json};

/// Columns of Grafana's grid.
const COLUMNS: u32 = 24;
/// Version of Grafana's schema of dashboards: that of Grafana 10.
const SCHEMA_VERSION: u32 = 39;
/// Names of queries within a panel.
const QUERY_NAMES: [&str; 4] = ["A", "B", "C", "D"];

/// Makes the JSON of a dashboard.
pub fn made(dashboard: &Dashboard) -> Value {
    json!({
        "uid": format!("millrace-{}", dashboard.file),
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["millrace"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "links": [{
            "type": "dashboards", "tags": ["millrace"], "title": "Millrace", "asDropdown": true,
            "includeVars": true, "keepTime": true,
        }],
        "templating": { "list": variables() },
        "panels": panels(dashboard),
    })
}

/// Source of data, and the instances that are shown: all unless chosen.
fn variables() -> Value {
    let query = "label_values(millrace_ready, instance)";
    json!([
        { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus" },
        {
            "name": "instance", "label": "Instance", "type": "query",
            "datasource": datasource(),
            "definition": query,
            "query": { "query": query, "refId": "instances" },
            "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
            "current": { "text": ["All"], "value": ["$__all"] },
        },
    ])
}

fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// Titles of rows and their panels, from left to right and from top to bottom.
fn panels(dashboard: &Dashboard) -> Vec<Value> {
    let (mut panels, mut top) = (Vec::new(), 0);
    for row in &dashboard.row {
        let id = panels.len() + 1;
        panels.push(json!({
            "id": id, "type": "row", "title": row.title, "collapsed": false,
            "panels": [], "gridPos": { "x": 0, "y": top, "w": COLUMNS, "h": 1 },
        }));
        top += 1;
        let (mut left, mut line_height) = (0, 0);
        for panel in &row.panel {
            let (width, height) = size(panel.kind);
            if left + width > COLUMNS {
                (left, top) = (0, top + line_height);
                line_height = 0;
            }
            let place = json!({ "x": left, "y": top, "w": width, "h": height });
            let id = panels.len() + 1;
            panels.push(panel_at(panel, id, &place));
            left += width;
            line_height = line_height.max(height);
        }
        top += line_height;
    }
    panels
}

/// Width and height of a panel.
fn size(kind: Kind) -> (u32, u32) {
    match kind {
        Kind::Graph | Kind::Stack => (8, 8),
        Kind::Stat | Kind::Name => (4, 4),
    }
}

fn panel_at(panel: &Panel, id: usize, place: &Value) -> Value {
    let is_graph = matches!(panel.kind, Kind::Graph | Kind::Stack);
    let queries = panel.queries.iter().zip(QUERY_NAMES);
    let targets: Vec<Value> = queries
        .map(|(query, name)| target(query, name, !is_graph))
        .collect();
    json!({
        "id": id,
        "type": if is_graph { "timeseries" } else { "stat" },
        "title": panel.title,
        "description": panel.description,
        "datasource": datasource(),
        "gridPos": place,
        "targets": targets,
        "fieldConfig": { "defaults": field_defaults(panel), "overrides": [] },
        "options": options(panel.kind),
    })
}

fn target(query: &Query, name: &str, is_instant: bool) -> Value {
    json!({
        "refId": name, "datasource": datasource(), "expr": query.expr,
        "legendFormat": query.legend, "instant": is_instant, "range": !is_instant,
    })
}

fn field_defaults(panel: &Panel) -> Value {
    let stacking = match panel.kind {
        Kind::Stack => "normal",
        _ => "none",
    };
    match panel.kind {
        Kind::Graph | Kind::Stack => json!({
            "unit": panel.unit, "min": 0,
            "custom": {
                "drawStyle": "line", "fillOpacity": 10, "lineWidth": 1, "showPoints": "never",
                "stacking": { "mode": stacking, "group": "A" },
            },
        }),
        Kind::Stat | Kind::Name => json!({ "unit": panel.unit }),
    }
}

fn options(kind: Kind) -> Value {
    let text = match kind {
        Kind::Name => "name",
        _ => "value_and_name",
    };
    match kind {
        Kind::Graph | Kind::Stack => json!({
            "legend": { "displayMode": "list", "placement": "bottom", "showLegend": true },
            "tooltip": { "mode": "multi", "sort": "desc" },
        }),
        Kind::Stat | Kind::Name => json!({
            "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false },
            "colorMode": "none", "graphMode": "none", "textMode": text,
        }),
    }
}
