//! Tests of servers that receive events over HTTP.

mod receiver;
mod sending;
