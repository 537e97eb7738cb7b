//! The meta protocol.

use super::{Talk, start};

#[test]
fn items_and_their_flags() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.play(&[
        ("mg k v\r\n", "EN\r\n"),
        ("ms k 2 F9 T100\r\nhi\r\n", "HD\r\n"),
        ("mg k\r\n", "HD\r\n"),
        ("mg k v\r\n", "VA 2\r\nhi\r\n"),
        ("mg k s f t v k Oabc\r\n", "VA 2 s2 f9 t100 kk Oabc\r\nhi\r\n"),
        ("mg k q v\r\nmg none q v\r\nmn\r\n", "VA 2\r\nhi\r\nMN\r\n"),
        ("ms k 2 ME F1\r\nno\r\n", "NS\r\n"),
        ("ms k 1 MA\r\n!\r\n", "HD\r\n"),
        ("ms k 1 MP\r\n>\r\n", "HD\r\n"),
        ("mg k f v\r\n", "VA 4 f9\r\n>hi!\r\n"),
        ("ms k 1 MR\r\nr\r\n", "HD\r\n"),
        ("md k q\r\nmd k\r\n", "NF\r\n"),
        ("ms none 1 MA\r\nx\r\n", "NS\r\n"),
        ("ms none 1 MA N30\r\nx\r\nmg none t v\r\n", "HD\r\nVA 1 t30\r\nx\r\n"),
        ("md none\r\n", "HD\r\n"),
    ]);
}

#[test]
fn what_is_over_as_it_is_deleted_leaves_nothing_behind() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    for delete in ["md k T-1", "md k I T-1", "md k x T-1", "md k x I T-1 E9"] {
        talk.play(&[
            ("set k 0 0 1\r\na\r\n", "STORED\r\n"),
            (&format!("{delete}\r\n"), "HD\r\n"),
            ("mg k v\r\n", "EN\r\n"),
        ]);
    }
}

#[test]
fn hits_before_are_told() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.play(&[
        ("set k 0 0 1\r\na\r\n", "STORED\r\n"),
        ("mg k h\r\n", "HD h0\r\n"),
        ("mg k h l\r\n", "HD h1 l0\r\n"),
        ("set k 0 0 1\r\nb\r\n", "STORED\r\n"),
        ("mg k h\r\n", "HD h0\r\n"),
    ]);
}

#[test]
fn keys_in_base64_are_any_bytes() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    // The bytes 0, 1 and a space.
    talk.play(&[
        ("ms AAEg 2 b\r\nhi\r\n", "HD\r\n"),
        ("mg AAEg b v k\r\n", "VA 2 kAAEg b\r\nhi\r\n"),
        ("ma AAEg b\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ]);
    let mut redis = server.client();
    let value = redis.call(&[&b"GET"[..], b"\0\x01 "]);
    assert_eq!(value.as_bytes(), Some(&b"hi"[..]));
}

#[test]
fn arithmetic() {
    let server = start(&[]);
    Talk::to(&server).play(&[
        ("ma n\r\n", "NF\r\n"),
        ("ma n N0 J13 v\r\n", "VA 2\r\n13\r\n"),
        ("ma n N0 J13 v\r\n", "VA 2\r\n14\r\n"),
        ("ma n D6 v\r\n", "VA 2\r\n20\r\n"),
        ("ma n MD D30 v\r\n", "VA 1\r\n0\r\n"),
        ("ma n T40 t\r\n", "HD t40\r\n"),
        ("ma n q\r\nma none q\r\nmn\r\n", "NF\r\nMN\r\n"),
    ]);
}

#[test]
fn the_right_to_fill_an_item_is_given_once() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.play(&[
        ("mg k v N30 t\r\n", "VA 0 t30 W\r\n\r\n"),
        ("mg k v\r\n", "VA 0 Z\r\n\r\n"),
        ("ms k 1 T100\r\na\r\n", "HD\r\n"),
        ("mg k v\r\n", "VA 1\r\na\r\n"),
        ("mg k v R200\r\n", "VA 1 W\r\na\r\n"),
        ("mg k v R200\r\n", "VA 1 Z\r\na\r\n"),
    ]);
    let before = talk.cas("k");
    talk.play(&[
        ("ms k 1 T100\r\nb\r\n", "HD\r\n"),
        ("md k I T30\r\n", "HD\r\n"),
        ("mg k v t\r\n", "VA 1 t30 X W\r\nb\r\n"),
        ("mg k v\r\n", "VA 1 Z X\r\nb\r\n"),
    ]);
    // A client that read it before may fill it, but what it stores is stale already.
    let now = talk.cas("k");
    assert!(now > before);
    talk.ask(format!("ms k 1 C{before} I\r\nc\r\n"), "HD\r\n");
    talk.ask("mg k v\r\n", "VA 1 Z X\r\nc\r\n");
    let now = talk.cas("k");
    talk.ask(format!("ms k 1 C{now}\r\nd\r\n"), "HD\r\n");
    talk.ask(format!("ms k 1 C{now}\r\ne\r\n"), "EX\r\n");
    talk.ask("mg k v\r\n", "VA 1\r\nd\r\n");
    talk.ask(format!("md k C{now}\r\n"), "EX\r\n");
    talk.ask("ms k 1 E77\r\nf\r\n", "HD\r\n");
    assert_eq!(talk.cas("k"), 77);
    talk.ask("md k x\r\nmg k f s v\r\n", "HD\r\nVA 0 f0 s0\r\n\r\n");
    talk.is_in_step();
}
