//! What many clients are told: in order, on whatever workers they live, and not for ever if they do
//! not listen.

use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server, check};

fn watchers(server: &Server, count: usize) -> Vec<Client> {
    let watch = |_| {
        let mut client = server.client();
        check(&mut client, "> MONITOR\nOK");
        client
    };
    (0..count).map(watch).collect()
}

/// Sends numbered requests, all at once.
fn send_numbers(client: &mut Client, numbers: std::ops::Range<usize>) {
    let requests: String = numbers.map(|number| format!("ECHO number:{number}\r\n")).collect();
    client.send_raw(requests.as_bytes());
}

/// The next line that shows a numbered request.
fn next_number(watcher: &mut Client) -> usize {
    loop {
        let line = render(&watcher.receive());
        if let Some((_, rest)) = line.split_once("number:") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            return digits.parse().expect("a number follows");
        }
    }
}

/// The sum of a figure over all workers.
fn total(client: &mut Client, name: &str) -> u64 {
    let info = render(&client.call(&["INFO", "workers"]));
    let label = format!(",{name}=");
    let figures = info.split(&label).skip(1);
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    figures.map(|rest| digits(rest).parse::<u64>().expect("figures are numbers")).sum()
}

#[test]
fn all_watchers_see_all_commands_in_order_and_workers_are_woken_by_the_batch() {
    const COUNT: usize = 3000;
    let server = Server::start(&["--worker-threads", "3"]);
    let mut watchers = watchers(&server, 30);
    let mut client = server.client();
    let before = ["letters", "letter_wakes"].map(|name| total(&mut client, name));
    send_numbers(&mut client, 0..COUNT);
    for watcher in &mut watchers {
        for number in 0..COUNT {
            assert_eq!(next_number(watcher), number);
        }
    }
    (0..COUNT).for_each(|_| _ = client.receive());
    let after = ["letters", "letter_wakes"].map(|name| total(&mut client, name));
    let (letters, wakes) = (after[0] - before[0], after[1] - before[1]);
    assert!(letters >= 3 * COUNT as u64 && letters < 4 * COUNT as u64, "{letters}");
    assert!(wakes > 0 && wakes < letters / 2, "{wakes} wakes for {letters} letters");
}

#[test]
fn watchers_that_move_between_workers_miss_nothing() {
    const ROUNDS: usize = 40;
    const COUNT: usize = 200;
    let server = Server::start(&["--worker-threads", "4"]);
    let mut watchers = watchers(&server, 12);
    let (mut client, mut admin) = (server.client(), server.client());
    for round in 0..ROUNDS {
        send_numbers(&mut client, round * COUNT..(round + 1) * COUNT);
        let workers = (1 + round * 7 % 4).to_string();
        assert_eq!(render(&admin.call(&["CONFIG", "SET", "worker-threads", &workers])), "OK");
    }
    for watcher in &mut watchers {
        for number in 0..ROUNDS * COUNT {
            assert_eq!(next_number(watcher), number);
        }
    }
}

#[test]
fn a_monitor_that_resets_gets_no_line_after_the_reply() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut watcher = server.client();
    let mut client = server.client();
    for round in 0..50 {
        check(&mut watcher, "> MONITOR\nOK");
        send_numbers(&mut client, 0..200);
        watcher.send_raw(b"RESET\r\nPING\r\n");
        while render(&watcher.receive()) != "RESET" {}
        assert_eq!(render(&watcher.receive()), "PONG", "round {round}");
        (0..200).for_each(|_| _ = client.receive());
    }
}

#[test]
fn a_watcher_that_does_not_read_is_closed_by_the_limit_for_subscribers() {
    let server = Server::start(&["--client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let _deaf = watchers(&server, 1);
    let mut listener = watchers(&server, 1).remove(0);
    let mut client = server.client();
    let text = "x".repeat(50_000);
    let is_told = |client: &mut Client| {
        let info = render(&client.call(&["INFO", "stats"]));
        info.contains("client_output_buffer_limit_disconnections:1")
    };
    eventually("the deaf one is closed", || {
        client.call(&["ECHO", &text]);
        // The listener stays.
        while !render(&listener.receive()).contains("xxx") {}
        is_told(&mut client)
    });
    check(&mut client, "> ECHO end\n\"end\"");
    while !render(&listener.receive()).contains("end") {}
}
