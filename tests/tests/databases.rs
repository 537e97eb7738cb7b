//! Databases: one costs what it holds, however many there may be.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::server::eventually;
use tests::{Client, Server, check};

const KEYS: usize = 20_000;

fn used(client: &mut Client) -> i64 {
    let reply = client.call(&["INFO", "memory"]);
    let text = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap().parse().unwrap()
}

fn fill(client: &mut Client, database: usize, keys: usize) {
    check(client, &format!("> SELECT {database}\nOK"));
    // By no script: one that takes long leaves its worker, and each thread keeps its interpreter.
    let numbers: Vec<usize> = (1..=keys).collect();
    for some in numbers.chunks(500) {
        let set = |number: &usize| vec!["SET".to_owned(), format!("k{number}"), "v".to_owned()];
        client.pipeline(&some.iter().map(set).collect::<Vec<_>>());
    }
    check(client, &format!("> DBSIZE\n(integer) {keys}"));
}

#[test]
fn keys_take_as_much_memory_in_any_database() {
    const KILOBYTE: i64 = 1024;
    let server = Server::start(&["--databases", "10000", "--save", ""]);
    let mut client = server.client();
    let few = Server::start(&["--save", ""]);
    let (empty, of_few) = (used(&mut client), used(&mut few.client()));
    assert!(empty - of_few < 700 * KILOBYTE, "10,000 databases take {}", empty - of_few);
    fill(&mut client, 0, KEYS);
    let in_first = used(&mut client) - empty;
    check(&mut client, "> FLUSHALL SYNC\nOK");
    eventually("all is freed", || used(&mut client) < empty + 300 * KILOBYTE);
    for database in [777, 9999] {
        fill(&mut client, database, KEYS);
        let taken = used(&mut client) - empty;
        // A table's name is kept beside it.
        assert!(taken < in_first + 1100 * KILOBYTE, "{taken} in {database}, {in_first} in 0");
        check(&mut client, "> FLUSHALL SYNC\nOK");
        eventually("all is freed", || used(&mut client) < empty + 300 * KILOBYTE);
    }
}

#[test]
fn what_lies_in_the_last_of_many_databases_is_swept_saved_and_loaded() {
    let mut server = Server::start(&["--databases", "10000", "--save", ""]);
    let mut client = server.client();
    fill(&mut client, 9999, 100);
    fill(&mut client, 5000, 2000);
    client.call(&["EVAL", "for i = 1, 2000 do redis.call('pexpire', 'k' .. i, 1) end", "0"]);
    // No client asks for them.
    eventually("the expired are gone", || client.call(&["DBSIZE"]) == Value::Integer(0));
    check(&mut client, "> SAVE\nOK");
    server.kill();
    server.restart();
    let mut client = server.client();
    let swapped = "> SELECT 9999\nOK\n> DBSIZE\n(integer) 100\n> SWAPDB 9999 0\nOK\n\
        > DBSIZE\n(integer) 0";
    check(&mut client, swapped);
}
