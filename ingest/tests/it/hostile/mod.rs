//! Hostile clients: raw bytes against a real server, alone and behind the proxies that people put
//! in front of it.

mod json;
mod proxies;
mod slow;
mod smuggling;
mod vectors;
