//! What must be true of the requests.
