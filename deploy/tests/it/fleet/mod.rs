//! Several processes with one catalog in PostgreSQL: their keys, their names, what is known of
//! each, and what they do while the catalog is away.

mod away;
mod drain;
mod names;
mod secret_keys;
mod states;
mod test_env;
