//! What INFO counts as changes since the last save, command by command as the real servers do.

use base::quote::split_arguments;
use tests::render::render;
use tests::{Client, Oracle, Server};

/// Every writing command of the string, list, set and generic families, and of libraries, where it
/// changes something, where it changes nothing, and where it does both. `PAYLOAD` stands for the
/// dump of a string.
const REQUESTS: &str = r##"
    SET a 1
    SET new 1
    SET a 2 GET
    SET a 2 NX
    SET nope 2 XX
    SET a 2 EX 100
    SET v y KEEPTTL
    SET a 2 PXAT 1
    SETNX a 1
    SETNX new 1
    SETEX a 100 x
    PSETEX new 100000 x
    GETSET a 2
    GETDEL a
    GETDEL new
    GETEX a
    GETEX a EX 100
    GETEX v PERSIST
    GETEX a PERSIST
    GETEX a EXAT 1
    GETEX nope EX 10
    APPEND s x
    APPEND s ""
    APPEND new ""
    SETRANGE s 0 h
    SETRANGE new 0 ""
    SETRANGE s 0 ""
    INCR n
    DECR new
    INCRBY n 0
    DECRBY n 2
    INCRBYFLOAT n 0
    INCR s
    MSET a 1 b 2 new 3
    MSET a 1 a 2
    MSETNX a 1 new 2
    MSETNX x 1 y 2 z 3
    MSETNX x 1 x 2
    GET a
    LCS s a
    DEL a b nope
    DEL a a
    UNLINK a b
    UNLINK nope
    EXPIRE a 100
    EXPIRE nope 100
    EXPIRE a -1
    EXPIRE a 100 XX
    EXPIRE v 10 GT
    PEXPIRE v 100000
    EXPIREAT a 1
    PEXPIREAT a 99999999999999
    PERSIST v
    PERSIST a
    RENAME a b
    RENAME a new
    RENAME a a
    RENAME v new
    RENAMENX a b
    RENAMENX a new
    RENAMENX a a
    COPY a new
    COPY a b
    COPY a b REPLACE
    COPY a new DB 1
    COPY v a DB 1 REPLACE
    MOVE a 1
    MOVE nope 1
    MOVE v 1
    TOUCH a b
    RESTORE new 0 PAYLOAD
    RESTORE a 0 PAYLOAD REPLACE
    RESTORE new 1 PAYLOAD ABSTTL
    RESTORE a 1 PAYLOAD ABSTTL REPLACE
    RESTORE a 0 PAYLOAD
    SWAPDB 0 0
    FLUSHDB
    FLUSHALL
    LPUSH l x y
    RPUSH new x
    LPUSHX l x y
    RPUSHX new x
    LPOP l
    RPOP l 2
    LPOP l 0
    LPOP l 100
    LPOP new
    LMPOP 2 new l LEFT COUNT 2
    LMPOP 1 new LEFT
    LINSERT l BEFORE one x
    LINSERT l AFTER nope x
    LSET l 0 x
    LSET l 0 one
    LREM l 0 one
    LREM l 0 nope
    LTRIM l 0 -1
    LTRIM l 1 -2
    LTRIM l 5 1
    LMOVE l new LEFT RIGHT
    LMOVE l l LEFT RIGHT
    LMOVE new l LEFT RIGHT
    RPOPLPUSH l new
    LRANGE l 0 -1
    LPOS l one
    BLPOP new l 0
    BRPOP l 0
    BLMPOP 0 2 new l LEFT COUNT 2
    BLMOVE l new LEFT RIGHT 0
    BRPOPLPUSH l l 0
    BLPOP new 0.01
    DEL l
    SADD m a 1 x
    SADD m a
    SREM m a nope
    SREM m a 1 b
    SREM m nope
    SMOVE m new a
    SMOVE m m a
    SMOVE m new nope
    SMOVE m o 1
    SPOP m
    SPOP m 2
    SPOP m 10
    SPOP m 0
    SPOP new 5
    SINTERSTORE new m o
    SINTERSTORE m m o
    SINTERSTORE m m nope
    SINTERSTORE new m nope
    SUNIONSTORE a m o
    SDIFFSTORE new m m
    SRANDMEMBER m
    SMEMBERS m
    FLUSHDB ASYNC
    RANDOMKEY
    SCAN 0
    FUNCTION LOAD REPLACE "#!lua name=one\nredis.register_function('f', function() return 1 end)"
    FUNCTION LOAD "#!lua name=one\nredis.register_function('f', function() return 1 end)"
    FUNCTION DELETE one
    FUNCTION DELETE one
    FUNCTION FLUSH
    SCRIPT LOAD "return 1"
    SCRIPT FLUSH
"##;

const PAYLOAD: &[u8] = b"\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc";

/// How many changes a request is, on keys made anew.
fn changes_of(client: &mut Client, request: &[Vec<u8>]) -> u64 {
    client.call(&["FLUSHALL"]);
    client.call(&["MSET", "a", "1", "b", "2", "c", "3", "n", "10", "s", "hello"]);
    client.call(&["SET", "v", "x", "EX", "1000"]);
    client.call(&["RPUSH", "l", "one", "two", "one", "three"]);
    client.call(&["SADD", "m", "a", "b", "1"]);
    client.call(&["SADD", "o", "1", "2"]);
    let before = changes(client);
    client.call(request);
    changes(client) - before
}

fn changes(client: &mut Client) -> u64 {
    let report = render(&client.call(&["INFO", "persistence"]));
    let (_, count) = report.split_once("rdb_changes_since_last_save:").expect("INFO has it");
    let digits = count.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).expect("it is a number")
}

#[test]
fn every_command_counts_as_in_the_real_servers() {
    // A server that saves by itself does so after FLUSHALL, and counts from there.
    let ours = Server::start(&["--save", ""]);
    let servers = [ours, Oracle::redis70(), Oracle::redis82()];
    let [mut ours, redis70, redis82] = servers.each_ref().map(Server::client);
    let mut theirs = [redis70, redis82];
    let lines = REQUESTS.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines {
        let mut request = split_arguments(line.as_bytes()).expect("quotes are balanced");
        request.iter_mut().filter(|word| *word == b"PAYLOAD").for_each(|word| {
            *word = PAYLOAD.to_vec();
        });
        let count = changes_of(&mut ours, &request);
        for theirs in &mut theirs {
            assert_eq!(count, changes_of(theirs, &request), "{line}");
        }
    }
}
