//! What two servers hold, compared through reads that show all of a value.
//! Invariant: every key that requests are drawn for is read, in both databases they are drawn for.

use proto::value::Value;

use super::families::{AHEAD, EVEN, LONE, POOLS};
use super::values::{ELEMENTS, KEYS};
use crate::differential::{Command, Difference, Duel, Rule};

/// What the other server has beyond Redis 7.0.
#[derive(Clone, Copy)]
pub struct Has {
    /// Fields of hashes that expire.
    pub field_times: bool,
    /// Small hashes whose fields stay as they came, be there times or not.
    pub field_order: bool,
    /// Sets in one piece whose members are no integers.
    pub small_sets: bool,
}

/// The first value that differs, and in which database; the replies in it are those of a read.
pub fn compare_states(duel: &mut Duel, has: Has) -> Result<(), (u8, Difference)> {
    for database in 0..2 {
        compare_database(duel, database, has).map_err(|difference| (database, difference))?;
    }
    Ok(())
}

fn compare_database(duel: &mut Duel, database: u8, has: Has) -> Result<(), Difference> {
    let pools = POOLS.iter().map(|(_, keys)| *keys);
    let keys: Vec<&[u8]> = pools.chain([KEYS, &[LONE, AHEAD, EVEN]]).flatten().copied().collect();
    let mut asked = vec![command(&[b"SELECT", database.to_string().as_bytes()])];
    asked.extend(keys.iter().map(|key| command(&[b"TYPE", key])));
    let types = duel.try_run_all(&asked)?;
    let mut reads = Vec::new();
    for (key, kind) in keys.iter().zip(&types[1..]) {
        read(&mut reads, key, kind, has);
    }
    let replies = duel.try_run_all(&reads)?;
    let ordered: Vec<Command> = (2..reads.len())
        .filter(|at| keeps_order(&reads[*at], &replies[*at - 2], has))
        .map(|at| match reads[at][0].as_slice() {
            b"HGETALL" => command(&[b"HKEYS", &reads[at][1]]),
            _ => reads[at].clone(),
        })
        .collect();
    duel.try_run_ruled(&ordered, |_| Rule::Exact)?;
    Ok(())
}

fn command(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The reads that show a value of this type.
fn read(reads: &mut Vec<Command>, key: &[u8], kind: &Value, has: Has) {
    let whole: &[&[u8]] = match kind.as_bytes().unwrap_or_default() {
        b"string" => &[b"GET"],
        b"list" => &[b"LRANGE", b"", b"0", b"-1"],
        b"set" => &[b"SMEMBERS"],
        b"hash" => &[b"HGETALL"],
        b"zset" => &[b"ZRANGE", b"", b"0", b"-1", b"WITHSCORES"],
        b"stream" => &[b"XRANGE", b"", b"-", b"+"],
        _ => return,
    };
    reads.push(command(&[b"OBJECT", b"ENCODING", key]));
    reads.push(command(&[b"PEXPIRETIME", key]));
    let mut words = vec![whole[0], key];
    words.extend(whole.iter().skip(2));
    reads.push(command(&words));
    if whole[0] == b"XRANGE" {
        reads.push(command(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]));
    }
    if whole[0] == b"HGETALL" && has.field_times {
        let count = ELEMENTS.len().to_string();
        let mut words = vec![b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
        words.extend(ELEMENTS);
        reads.push(command(&words));
    }
}

/// Whether a read shows members in an order that can be relied upon: integers are sorted, and
/// fields stay as they came.
fn keeps_order(read: &Command, encoding: &Value, has: Has) -> bool {
    match (read[0].as_slice(), encoding.as_bytes()) {
        (b"SMEMBERS", Some(b"intset")) => true,
        (b"HGETALL", Some(b"listpack" | b"listpackex")) => has.field_order,
        _ => false,
    }
}
