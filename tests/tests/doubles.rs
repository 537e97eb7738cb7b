//! Doubles are printed digit by digit as Redis 8.2 and Valkey 9.1 print them.

use base::Random;
use base::number::format_f64;
use tests::{Oracle, Server};

/// Doubles that are asked in one go.
const BATCH: usize = 1000;
const BATCHES: usize = 60;

#[test]
fn every_digit_is_that_of_the_real_servers() {
    for oracle in [Oracle::Redis82, Oracle::Valkey91] {
        let server = oracle.start(&[]);
        let mut random = Random::from_seed(0x6472_6962);
        for _ in 0..BATCHES {
            let numbers: Vec<f64> = (0..BATCH).map(|_| number(&mut random)).collect();
            let printed = printed(&server, &numbers);
            assert_eq!(printed.len(), BATCH);
            for (number, theirs) in numbers.iter().zip(printed) {
                let ours = format_f64(*number);
                assert_eq!(ours.as_str(), theirs, "{oracle:?} {number:e}");
            }
        }
    }
}

/// How a server prints these numbers in RESP3: the scores of a sorted set.
fn printed(server: &Server, numbers: &[f64]) -> Vec<String> {
    let mut client = server.client3();
    client.call(&["DEL", "z"]);
    let names: Vec<String> = (0..numbers.len()).map(|place| place.to_string()).collect();
    let mut add = vec!["ZADD".to_owned(), "z".to_owned()];
    for (name, number) in names.iter().zip(numbers) {
        add.extend([format!("{number:e}"), name.clone()]);
    }
    client.call(&add);
    let mut ask = vec!["ZMSCORE", "z"];
    ask.extend(names.iter().map(String::as_str));
    client.send(&ask);
    client.send(&["QUIT"]);
    // The digits themselves are wanted, so the reply is not parsed into numbers.
    let reply = String::from_utf8(client.receive_to_close()).expect("numbers are ASCII");
    reply.lines().filter_map(|line| Some(line.strip_prefix(',')?.to_owned())).collect()
}

/// Numbers of every magnitude, ones that people write, powers of two, and whole numbers.
fn number(random: &mut Random) -> f64 {
    let any = loop {
        let any = f64::from_bits(random.next_u64());
        if any.is_finite() {
            break any;
        }
    };
    let fraction = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    match random.below(5) {
        0 => any,
        1 => fraction * 10_f64.powi(random.below(30) as i32 - 10),
        2 => (fraction * 1e6).round() / 10_f64.powi(random.below(9) as i32),
        3 => 2_f64.powi(random.below(2000) as i32 - 1000) * if any > 0.0 { 1.0 } else { -1.0 },
        _ => (random.below(1 << 53) as f64) * 2_f64.powi(random.below(16) as i32),
    }
}
