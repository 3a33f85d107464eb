//! Tests of tables in PostgreSQL, and of the parts of Redshift that can be tried there.

mod delivery;
mod endless_types;
mod failing;
mod fixture;
mod gateway;
mod interrupted;
mod memory;
mod persons;
mod redshift;
mod steps;
mod table_schemas;
mod tls;
