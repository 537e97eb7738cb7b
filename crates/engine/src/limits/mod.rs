//! Why a command waits or is refused: plain state that the gates read.
//!
//! Invariant: what acts on this state stands in higher rooms.

pub mod access;
pub mod auth_failures;
pub mod budget;
pub mod clock_renewal_state;
pub mod copied_slots;
pub mod defrag_state;
pub mod eviction_observer;
pub mod evictor;
pub mod gate_state;
pub mod loading;
pub mod log_buffers;
pub mod long_running;
pub mod memory;
pub mod pause;
pub mod quotas;
pub mod replica_role;
pub mod scripts;
pub mod slot_map;
pub mod sweep;
pub mod write_refusals;
