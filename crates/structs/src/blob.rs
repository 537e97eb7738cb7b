//! Big byte strings as trees of shared leaves.
