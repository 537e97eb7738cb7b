//! The server: workers, sessions, configuration and administration.
#![forbid(unsafe_code)]

pub mod config;
