//! The real daemon through its public API: one file per area of the specification.

mod access;
mod backup;
mod cli;
mod faults_bytes;
mod faults_kill;
mod faults_places;
mod gateway_bounds;
mod gateway_browser;
mod gateway_errors;
mod gateway_events;
mod gateway_health;
mod gateway_lists;
mod gateway_repeat;
mod gateway_socket;
mod gateway_stop;
mod gateway_tls;
mod gateway_wire;
mod identity;
mod identity_matrix;
mod ledger_actions;
mod ledger_full;
mod ledger_search;
mod ledger_secrets;
mod skeleton;
