//! Black-box test support.
