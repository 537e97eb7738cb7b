//! Nodes in one process, on a network that misbehaves and on disks that forget.

mod files;
mod histories;
mod hub;
mod members;
mod messages;
mod store;
mod world;
