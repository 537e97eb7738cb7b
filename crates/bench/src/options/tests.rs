//! What must be true of the command line.
