//! A cluster: engines as shards in processes of their own, and nodes that share a PostgreSQL
//! catalog. Rows are counted plainly over all shards, where nothing merges.

mod figures;
mod grow;
mod kills;
mod link;
mod print;
mod test_env;
