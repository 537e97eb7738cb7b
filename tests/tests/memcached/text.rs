//! The classic text protocol.

use proto::value::Value;
use tests::server::eventually;

use super::{Talk, start};

#[test]
fn items_are_stored_and_read() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.play(&[
        ("get k\r\n", "END\r\n"),
        ("set k 7 0 5\r\nhello\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 7 5\r\nhello\r\nEND\r\n"),
        ("set n 4294967295 0 2\r\n12\r\n", "STORED\r\n"),
        ("get k none n\r\n", "VALUE k 7 5\r\nhello\r\nVALUE n 4294967295 2\r\n12\r\nEND\r\n"),
        ("set k 0 0 0\r\n\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 0 0\r\n\r\nEND\r\n"),
        ("set k 0 0 2 noreply\r\nab\r\nget k\r\n", "VALUE k 0 2\r\nab\r\nEND\r\n"),
        ("set b 1 0 5\r\n\r\n\0\u{e9}\r\n", "STORED\r\n"),
        ("get b\r\n", "VALUE b 1 5\r\n\r\n\0\u{e9}\r\nEND\r\n"),
    ]);
}

#[test]
fn conditions_and_edits() {
    let server = start(&[]);
    Talk::to(&server).play(&[
        ("replace k 1 0 1\r\na\r\n", "NOT_STORED\r\n"),
        ("append k 1 0 1\r\na\r\n", "NOT_STORED\r\n"),
        ("prepend k 1 0 1\r\na\r\n", "NOT_STORED\r\n"),
        ("add k 5 0 1\r\nb\r\n", "STORED\r\n"),
        ("add k 6 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append k 9 9 2\r\ncd\r\n", "STORED\r\n"),
        ("prepend k 9 9 1\r\na\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 5 4\r\nabcd\r\nEND\r\n"),
        ("replace k 2 0 1\r\nz\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 2 1\r\nz\r\nEND\r\n"),
        ("delete k\r\n", "DELETED\r\n"),
        ("delete k\r\n", "NOT_FOUND\r\n"),
        ("delete k noreply\r\n", ""),
    ]);
}

#[test]
fn numbers_wrap_above_and_stop_below() {
    let server = start(&[]);
    Talk::to(&server).play(&[
        ("incr n 1\r\n", "NOT_FOUND\r\n"),
        ("set n 3 0 2\r\n10\r\n", "STORED\r\n"),
        ("incr n 5\r\n", "15\r\n"),
        ("decr n 100\r\n", "0\r\n"),
        ("incr n 18446744073709551615\r\n", "18446744073709551615\r\n"),
        ("incr n 2\r\n", "1\r\n"),
        ("get n\r\n", "VALUE n 3 1\r\n1\r\nEND\r\n"),
        ("set s 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("incr s 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("incr n x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ("incr n -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ]);
}

#[test]
fn a_cas_value_is_good_for_one_change() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.play(&[
        ("cas k 0 0 1 1\r\na\r\n", "NOT_FOUND\r\n"),
        ("set k 4 0 1\r\na\r\n", "STORED\r\n"),
    ]);
    let first = talk.cas("k");
    assert_eq!(talk.cas("k"), first, "reading does not change it");
    talk.ask("gets k\r\n", format!("VALUE k 4 1 {first}\r\na\r\nEND\r\n"));
    talk.ask("touch k 100\r\n", "TOUCHED\r\n");
    assert_eq!(talk.cas("k"), first, "nor does another deadline");
    talk.ask(format!("cas k 5 0 1 {first}\r\nb\r\n"), "STORED\r\n");
    talk.ask(format!("cas k 6 0 1 {first}\r\nc\r\n"), "EXISTS\r\n");
    let second = talk.cas("k");
    assert!(second > first);
    for edit in ["append k 0 0 1\r\nx\r\n", "set k 0 0 1\r\nb\r\n", "set k 0 0 1\r\nb\r\n"] {
        let before = talk.cas("k");
        talk.ask(edit, "STORED\r\n");
        assert_ne!(talk.cas("k"), before, "{edit:?}");
    }
    talk.is_in_step();
}

#[test]
fn items_expire() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.ask("set gone 0 -1 1\r\na\r\nget gone\r\n", "STORED\r\nEND\r\n");
    // More than 30 days are a moment: this one has passed.
    talk.ask("set old 0 1000000000 1\r\na\r\n", "STORED\r\n");
    talk.ask("get old\r\n", "END\r\n");
    talk.ask("set k 0 2592000 1\r\na\r\nmg k t\r\n", "STORED\r\nHD t2592000\r\n");
    talk.ask("touch k 50\r\nmg k t\r\n", "TOUCHED\r\nHD t50\r\n");
    talk.ask("touch k 0\r\nmg k t\r\n", "TOUCHED\r\nHD t-1\r\n");
    talk.ask("touch none 0\r\n", "NOT_FOUND\r\n");
    talk.ask("gat 60 k none\r\nmg k t\r\n", "VALUE k 0 1\r\na\r\nEND\r\nHD t60\r\n");
    let cas = talk.cas("k");
    talk.ask("gats 0 k\r\n", format!("VALUE k 0 1 {cas}\r\na\r\nEND\r\n"));
    talk.ask("gat -1 k\r\nget k\r\n", "VALUE k 0 1\r\na\r\nEND\r\nEND\r\n");
    talk.ask("set k 0 0 1\r\na\r\ntouch k -1\r\nget k\r\n", "STORED\r\nTOUCHED\r\nEND\r\n");
    talk.is_in_step();
}

#[test]
fn requests_are_served_however_they_are_cut() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    let requests = "set a 1 0 3\r\nabc\r\nget a\r\nincr a 1\r\nset big 0 0 100\r\n";
    let value = "x".repeat(100);
    let whole = format!("{requests}{value}\r\nget a big\r\n");
    let answers = format!(
        "STORED\r\nVALUE a 1 3\r\nabc\r\nEND\r\nCLIENT_ERROR cannot increment or decrement \
         non-numeric value\r\nSTORED\r\nVALUE a 1 3\r\nabc\r\nVALUE big 0 100\r\n{value}\r\nEND\r\n"
    );
    for size in [1, 2, 7, whole.len()] {
        for piece in whole.as_bytes().chunks(size) {
            talk.send(piece);
        }
        talk.hear(&format!("pieces of {size}"), answers.as_bytes());
    }
    let many = whole.repeat(200);
    talk.ask(many, answers.repeat(200));
    talk.is_in_step();
}

#[test]
fn what_is_sent_ahead_is_executed_when_nothing_more_comes() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    // Far more than a session reads, or executes, at once.
    let ahead: String = (0..20_000)
        .map(|number| format!("set key{number:09} 0 0 32 noreply\r\n{number:032}\r\n"))
        .collect();
    talk.send(ahead);
    talk.is_in_step();
    assert_eq!(talk.figure("curr_items"), "20000");
}

#[test]
fn large_values_and_many_keys() {
    let server = start(&["--memcached-item-size-max", "4mb"]);
    let mut talk = Talk::to(&server);
    for size in [65_536, 65_537, 1_000_000, 4 << 20] {
        let value = "v".repeat(size);
        talk.ask(format!("set k 3 0 {size}\r\n{value}\r\n"), "STORED\r\n");
        talk.ask("get k\r\n", format!("VALUE k 3 {size}\r\n{value}\r\nEND\r\n"));
    }
    talk.ask("append k 0 0 1\r\nv\r\n", "NOT_STORED\r\n");
    let keys: Vec<String> = (0..2000).map(|number| format!("key{number}")).collect();
    for key in &keys {
        talk.send(format!("set {key} 0 0 1 noreply\r\nv\r\n"));
    }
    let hits: String = keys.iter().map(|key| format!("VALUE {key} 0 1\r\nv\r\n")).collect();
    talk.ask(format!("get {}\r\n", keys.join(" ")), format!("{hits}END\r\n"));
    talk.is_in_step();
}

/// Each as if it had come alone, with the worker's other clients in between.
#[test]
fn very_many_keys_are_read_in_steps() {
    const COUNT: usize = 5000;
    let server = start(&["--worker-threads", "1", "--busy-reply-threshold", "600000"]);
    let (mut talk, mut client) = (Talk::to(&server), server.client());
    let (mut request, mut answer) = (String::from("get"), String::new());
    for number in 0..COUNT {
        request += &format!(" k{number}");
        if number % 3 > 0 {
            talk.ask(format!("set k{number} 5 0 1\r\nv\r\n"), "STORED\r\n");
            answer += &format!("VALUE k{number} 5 1\r\nv\r\n");
        }
    }
    talk.ask(format!("{request}\r\nversion\r\n"), format!("{answer}END\r\nVERSION 1.6.18\r\n"));
    let gets = request.replacen("get", "gets", 1);
    talk.send(format!("{gets}\r\n"));
    assert!(talk.read(20).starts_with(b"VALUE k1 5 1 "));
    // A key in the middle is held by another; all the rest are to be had meanwhile.
    let mut holder = server.client();
    let hold = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";
    holder.send(&["EVAL", hold, "1", "k2500"]);
    eventually("the script holds its key", || client.info("used_memory_scripts_eval") != "0");
    let mut other = Talk::to(&server);
    other.send(format!("{request}\r\nversion\r\n"));
    Talk::to(&server).ask("set k2501 5 0 1\r\nv\r\n", "STORED\r\n");
    client.call(&["CONFIG", "SET", "maxclients", "4321"]);
    other.hear("a get that waits", format!("{answer}END\r\nVERSION 1.6.18\r\n").as_bytes());
    holder.receive();
}

/// So many that they are not locked together.
#[test]
fn very_many_items_are_read_and_touched_in_one_request() {
    const COUNT: usize = 3000;
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    let (mut stores, mut names, mut items) = (String::new(), String::new(), String::new());
    for number in 0..COUNT {
        stores += &format!("set k{number} 0 0 1 noreply\r\nv\r\n");
        names += &format!(" k{number} none{number}");
        items += &format!("VALUE k{number} 0 1\r\nv\r\n");
    }
    talk.send(stores);
    talk.ask(format!("get{names}\r\n"), format!("{items}END\r\n"));
    talk.ask("mg k0 t\r\nmg k2999 t\r\n", "HD t-1\r\nHD t-1\r\n");
    talk.ask(format!("gat 100000{names}\r\n"), format!("{items}END\r\n"));
    for number in [0, 1500, COUNT - 1] {
        let key = format!("k{number}");
        let reply = server.client().call(&["TTL", &key]);
        assert!(matches!(reply, Value::Integer(90_000..=100_000)), "{key}: {reply:?}");
    }
}
