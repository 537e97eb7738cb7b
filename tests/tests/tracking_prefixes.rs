//! CLIENT TRACKING in broadcast mode: a client that names prefixes is told of all their keys.

use crate::tracking::everywhere;

const PREFIXES: &str = r#"
    alice> HELLO 3
    ...
    alice> CLIENT TRACKING ON BCAST PREFIX user: PREFIX item:
    OK
    alice> CLIENT TRACKING ON BCAST PREFIX z:
    OK
    alice> CLIENT TRACKINGINFO
    1# "flags" =>
       1~ "on"
       2~ "bcast"
    2# "redirect" => (integer) 0
    3# "prefixes" =>
       1) "item:"
       2) "user:"
       3) "z:"
    bob> HELLO 3
    ...
    bob> CLIENT TRACKING ON BCAST NOLOOP
    OK
    > MSET user:2 b user:1 a other x item:1 i user:2 c
    OK
    alice<
    1> "invalidate"
    2> 1) "item:1"
    alice<
    1> "invalidate"
    2> 1) "user:1"
       2) "user:2"
    bob<
    1> "invalidate"
    2> 1) "item:1"
       2) "other"
       3) "user:1"
       4) "user:2"
    bob> SET z: 1
    OK
    alice<
    1> "invalidate"
    2> 1) "z:"
    bob<
    (silence)
    alice> SET user:1 own
    OK
    alice<
    1> "invalidate"
    2> 1) "user:1"
    bob<
    ...
    > DEL nothing
    (integer) 0
    alice> CLIENT TRACKING OFF
    OK
    > SET user:1 x
    OK
    alice<
    (silence)
"#;

#[test]
fn a_client_that_names_prefixes_is_told_of_all_their_keys() {
    everywhere(PREFIXES);
}

/// Once a client names no prefix it hears of all keys, whatever it named before.
#[test]
fn a_client_that_names_no_prefix_any_more_is_told_of_all_keys() {
    everywhere(
        r#"
        alice> HELLO 3
        ...
        alice> CLIENT TRACKING ON BCAST PREFIX ab
        OK
        alice> CLIENT TRACKING ON BCAST
        OK
        > SET zz 1
        OK
        alice<
        1> "invalidate"
        2> 1) "zz"
        alice> CLIENT TRACKING ON BCAST PREFIX c
        ~ (error) ERR Prefix 'c' overlaps with an existing prefix ''*
        "#,
    );
}
