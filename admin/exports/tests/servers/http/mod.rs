//! Servers that take events over HTTP.

mod receiver;
mod sending;
