//! Tests of the engine as a whole: its configuration, its commands, each of its transitions, and
//! whole histories.

mod commands;
mod configuration;
mod failovers;
mod hellos;
mod rig;
mod simulation;
mod watching;
