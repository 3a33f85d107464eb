//! Order in which requests are served that wait for the same: flows take turns, by bytes.

pub mod deficit_round_robin;
pub mod flow;
