//! Tests of members and coordinators: by hand, and by histories.

mod members;
mod simulation;
