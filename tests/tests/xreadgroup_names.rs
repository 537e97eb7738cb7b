//! XREADGROUP whose groups, consumers and streams have the names of its options: the keys that are
//! locked, and that rights are asked for, are those that it reads.

use base::Random;
use tests::{Duel, Oracle, Server, check};

const NAMES: &[&str] = &["STREAMS", "GROUP", "COUNT", "NOACK", "BLOCK", "g", ">", "0"];

fn name(random: &mut Random) -> &'static str {
    NAMES[usize::try_from(random.below(NAMES.len() as u64)).expect("it is below a length")]
}

/// A request of which each part is in order, whatever its names are.
fn request(random: &mut Random) -> String {
    let mut words = vec!["XREADGROUP"];
    let parts = 1 + random.below(4);
    let reader = random.below(parts);
    for part in 0..parts {
        match if part == reader { 0 } else { random.below(4) } {
            0 => words.extend(["GROUP", name(random), name(random)]),
            1 => words.extend(["COUNT", "1"]),
            2 => words.extend(["BLOCK", "0"]),
            _ => words.push("NOACK"),
        }
    }
    let id = if random.below(2) == 0 { ">" } else { "0" };
    words.extend(["STREAMS", name(random), id]);
    words.join(" ")
}

#[test]
fn names_of_options_are_names_within_transactions() {
    let [ours, theirs] = Oracle::Redis82.beside(&[]);
    let mut duel = Duel::new(ours.client(), theirs.client(), 0);
    let mut lines = String::from(
        "MULTI\nSET a 1\nXREADGROUP COUNT 1 GROUP g STREAMS STREAMS k >\nEXEC\nGET a\n\
         EVAL \"return redis.call(unpack(ARGV))\" 0 \
         XREADGROUP COUNT 1 GROUP g STREAMS STREAMS k >\n",
    );
    for stream in NAMES {
        for entry in 1..4 {
            lines += &format!("XADD {stream} {entry}-1 f v\n");
        }
        for group in NAMES.iter().take(6) {
            lines += &format!("XGROUP CREATE {stream} {group} 0\n");
        }
    }
    let mut random = Random::from_seed(5);
    for _ in 0..60 {
        let [one, other] = [request(&mut random), request(&mut random)];
        lines += &format!("MULTI\nINCR a\n{one}\n{other}\nEXEC\n");
    }
    duel.run_lines(&lines);
}

#[test]
fn a_user_reads_the_streams_that_the_rules_name() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(
        &mut client,
        r#"
        > XADD secret 1-1 f v
        "1-1"
        > XGROUP CREATE secret g 0
        OK
        > ACL SETUSER reader on nopass ~STREAMS ~0 ~g +@all
        OK
        > AUTH reader x
        OK
        > XREADGROUP COUNT 1 GROUP g STREAMS STREAMS secret >
        (error) NOPERM No permissions to access a key
        > XREADGROUP NOACK GROUP STREAMS g STREAMS secret >
        (error) NOPERM No permissions to access a key
        > MULTI
        OK
        > XREADGROUP BLOCK 0 GROUP g STREAMS STREAMS secret >
        (error) NOPERM No permissions to access a key
        > EXEC
        (error) EXECABORT Transaction discarded because of previous errors.
        "#,
    );
}
