//! The command-line tool as scripts see it: `docs/reference/cli.md`, sentence by sentence, on real
//! servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

mod bench;
mod by_service;
mod configuration;
mod counter;
mod deadlocks;
#[cfg(feature = "top")]
mod demo;
mod deployment;
mod distance;
mod environment;
mod exit_codes;
mod failures;
mod flags;
mod fleet;
mod how_to;
mod inspection;
mod json;
mod keeper;
mod known_nodes;
mod looking;
mod nodes;
mod one_node;
mod owners;
mod pages;
mod places;
mod plan;
mod program;
mod run;
mod scripts;
mod secrets;
mod serve;
mod serve_contract;
mod serve_door;
mod serve_leases;
mod serve_systemd;
#[cfg(feature = "otlp")]
mod serve_trace;
mod several;
mod sharing;
mod store;
mod terminal;
#[cfg(feature = "top")]
mod tmux;
#[cfg(feature = "top")]
mod top;
mod typing;
mod unavailable;
mod waiting;
mod watch;
mod yii2;
