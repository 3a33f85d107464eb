//! Tables in PostgreSQL, and what of Redshift can be tried there.

mod arriving;
mod failing;
mod fixture;
mod gateway;
mod interrupted;
mod memory;
mod persons;
mod redshift;
mod shapes;
mod steps;
mod tls;
