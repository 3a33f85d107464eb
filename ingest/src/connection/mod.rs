//! Connections: sockets, from the listener to hyper.
//!
//! | Module | Does |
//! |---|---|
//! | `listener` | listening sockets, one per core |
//! | `startup` | answers 503 while the log is still being read |
//! | `worker` | one core: accepts, serves, drains |
//! | `open_connections` | which connections give way to new ones |
//! | `head_wait` | wait of a connection for a head, which can be ended |
//! | `limits` | open connections of the process and of each address |
//! | `stream` | socket of one connection: timeouts, and checks that hyper lacks |
//! | `transport` | socket with TLS or without |
//! | `write_pace` | pace at which a peer reads responses |
//! | `stop_phase` | stop of the process, as workers and connections are told of it |
//! | `state` | state that the socket and the handlers of a connection share |
//! | `framing` | where each request of a connection begins |
//! | `raw_response` | error responses without hyper |

pub mod framing;
pub mod head_wait;
pub mod limits;
pub mod listener;
mod open_connections;
pub mod raw_response;
pub mod startup;
pub mod state;
pub mod stop_phase;
pub mod stream;
mod transport;
pub mod worker;
pub mod write_pace;
