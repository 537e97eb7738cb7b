//! Placeholder head, replaced with the first inhabitant.
