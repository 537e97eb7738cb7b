//! Scripts over the commands of places; the figures are those of the real servers.

use crate::testing::{Session, check};

#[test]
fn places() {
    check("GEOADD g 13.361389 38.115556 Palermo", ":1");
}
