//! Order in which requests are served that wait for the same: flows take turns, by bytes.
//!
//! Each core has such a queue ([`fair_queue`](crate::admission::fair_queue)), and the threads
//! beside them have one together ([`offload`](crate::offload)).

pub mod deficit_round_robin;
pub mod flow;
