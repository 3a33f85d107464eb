//! Tests of tables in ClickHouse, on the embedded engine.

mod delivery;
mod fixture;
mod steps;
