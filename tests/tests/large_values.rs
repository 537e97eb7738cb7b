//! Snapshots with values far larger than what is read at once: they are not in memory twice while
//! they are loaded, and a client that asks meanwhile is told how far that is.
//!
//! The snapshot is a pipe, so that it is known what the server can have read.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::Command;

use proto::value::Value;
use tests::render::render;
use tests::samples::run;
use tests::server::{eventually, free_port};
use tests::{Client, Server, check};

/// Bytes that a value has, about.
const LENGTH: usize = 200 << 20;

/// Bytes of an element, and of the value that a field has.
const ELEMENT: usize = 120;

/// What may be in memory beside the data: the server itself, and what is read at once.
const BESIDE: u64 = 48 << 20;

/// What a server may take more for its data than it counts, in percent.
const LOST: u64 = 20;

/// How a value is written, and how many elements one says that it has.
struct Shape {
    value_type: u8,
    count: usize,
    /// What stands behind an element.
    tail: &'static [u8],
    ask: [&'static str; 2],
}

const SHAPES: [Shape; 5] = [
    // A string is written without elements; its bytes are told instead.
    Shape { value_type: 0, count: LENGTH, tail: b"", ask: ["STRLEN", "key"] },
    Shape { value_type: 1, count: LENGTH / ELEMENT, tail: b"", ask: ["LLEN", "key"] },
    Shape { value_type: 2, count: LENGTH / ELEMENT, tail: b"", ask: ["SCARD", "key"] },
    Shape { value_type: 4, count: LENGTH / ELEMENT, tail: b"\x01v", ask: ["HLEN", "key"] },
    Shape { value_type: 5, count: LENGTH / ELEMENT, tail: &[0; 8], ask: ["ZCARD", "key"] },
];

/// Writes elements with these numbers, or as many bytes.
fn write_elements(pipe: &mut File, shape: &Shape, from: usize, to: usize) {
    let mut bytes = Vec::new();
    for number in from..to {
        if shape.value_type == 0 {
            bytes.push(b'a' + (number % 23) as u8);
        } else {
            bytes.extend_from_slice(&[0x40, ELEMENT as u8]);
            bytes.extend_from_slice(format!("{number:0>ELEMENT$}").as_bytes());
            bytes.extend_from_slice(shape.tail);
        }
        if bytes.len() >= 1 << 20 {
            pipe.write_all(&bytes).expect("the server reads");
            bytes.clear();
        }
    }
    pipe.write_all(&bytes).expect("the server reads");
}

/// Bytes of a field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> u64 {
    let text = render(&run(client, &["INFO", section]));
    let value = text.split(field).nth(1).and_then(|rest| rest.strip_prefix(':'));
    let digits = value.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
    digits.and_then(|digits: String| digits.parse().ok()).unwrap_or_default()
}

#[test]
fn a_large_value_is_loaded_without_being_in_memory_twice() {
    for shape in &SHAPES {
        let port = free_port();
        let mut server = Server::start(&["--save", "", "--port", &port.to_string()]);
        server.kill();
        let path = server.folder().join("dump.rdb");
        let made = Command::new("mkfifo").arg(&path).status().expect("there is mkfifo");
        assert!(made.success());
        server.restart_hastily();
        // Waits until the server reads it.
        let mut pipe = OpenOptions::new().write(true).open(&path).expect("the pipe is there");
        let mut head = b"REDIS0010".to_vec();
        head.extend_from_slice(&[shape.value_type, 3]);
        head.extend_from_slice(b"key\x80");
        head.extend_from_slice(&(shape.count as u32).to_be_bytes());
        pipe.write_all(&head).expect("the server reads");
        let half = shape.count / 2;
        write_elements(&mut pipe, shape, 0, half);
        let mut client = None;
        eventually("the server listens", || {
            client = Client::try_connect(port).ok();
            client.is_some()
        });
        let mut client = client.expect("it was just made");
        eventually("half of it is loaded", || {
            info(&mut client, "persistence", "loading_loaded_bytes") > LENGTH as u64 / 3
        });
        check(&mut client, "> GET key\n(error) LOADING Redis is loading the dataset in memory\n");
        write_elements(&mut pipe, shape, half, shape.count);
        pipe.write_all(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0]).expect("the server reads");
        drop(pipe);
        server.become_ready();
        let mut client = server.client();
        assert_eq!(run(&mut client, &shape.ask), Value::Integer(shape.count as i64));
        let (used, peak) = (info(&mut client, "memory", "used_memory"), server.peak());
        let limit = used + used * LOST / 100 + BESIDE;
        assert!(peak < limit, "{:?}: {peak} bytes at most, {used} in use", shape.ask);
        println!("{:?}: {peak} bytes at most, {used} in use", shape.ask);
    }
}
