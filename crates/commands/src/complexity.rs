//! A law of growth: what a command looks at grows no faster with the data, and with what lies
//! beside them, than its complexity says. Steps are counted, not time.

pub(crate) mod every_command;

use crate::testing::{START, Session};

/// How much larger the larger data are.
const TIMES: usize = 16;

/// Steps that are no growth: a level of a tree, a page that happens to be split.
const SLACK: u64 = 100;

/// How the steps of a request may grow when the data are [`TIMES`] as large.
#[derive(Clone, Copy)]
enum Growth {
    /// With their logarithm at most.
    Flat,
    /// In proportion. What is long is made in pieces, at up to three times the steps.
    Linear,
    /// As the product of two of them: small containers are one block, which is walked for each
    /// element that is looked for.
    Product,
}

impl Growth {
    fn limit(self, steps: u64) -> u64 {
        match self {
            Self::Flat => steps * 2 + SLACK,
            Self::Linear => steps * TIMES as u64 * 4 + SLACK,
            Self::Product => steps * (TIMES * TIMES) as u64 + SLACK,
        }
    }
}

/// Fills a session with data of a size, runs the requests, separated by semicolons, and tells the
/// steps of each. `{n}` in a request is the size.
fn steps_of(fill: fn(&mut Session, usize), size: usize, requests: &str) -> Option<Vec<u64>> {
    let mut session = Session::new();
    fill(&mut session, size);
    let mut steps = Vec::new();
    for request in requests.split(';') {
        let request = request.trim().replace("{n}", &size.to_string());
        let before = base::step_count::taken()?;
        let reply = session.call(&request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        steps.push(base::step_count::taken()? - before);
    }
    Some(steps)
}

#[track_caller]
fn check(fill: fn(&mut Session, usize), size: usize, growth: Growth, requests: &str) {
    let (Some(small), Some(large)) =
        (steps_of(fill, size, requests), steps_of(fill, size * TIMES, requests))
    else {
        return;
    };
    let grown =
        requests.split(';').zip(small).zip(large).filter_map(|((request, small), large)| {
            let request = request.trim();
            let line =
                format!("{request}: {small} steps of {size}, {large} of {TIMES} x as much\n");
            (large > growth.limit(small)).then_some(line)
        });
    let grown: String = grown.collect();
    assert!(grown.is_empty(), "{grown}");
}

/// A hash `h`, a set `s`, a sorted set `z` and a list `l` of members `m:0`, `m:1` and so on.
fn containers(session: &mut Session, size: usize) {
    let members: Vec<String> = (0..size).map(|number| format!("m:{number}")).collect();
    session.call(&format!("HSET h {} v", members.join(" v ")));
    session.call(&format!("SADD s {}", members.join(" ")));
    session.call(&format!("RPUSH l {}", members.join(" ")));
    let scored = members.iter().zip(0..).map(|(member, score)| format!("{score} {member}"));
    session.call(&format!("ZADD z {}", scored.collect::<Vec<_>>().join(" ")));
}

/// Gives every so many of their members a deadline, and lets it pass.
fn let_expire(session: &mut Session, size: usize, step: usize) {
    let over: Vec<String> = (0..size).step_by(step).map(|number| format!("m:{number}")).collect();
    for key in ["h", "s", "z"] {
        session.call(&format!("FIELDEXPIRE {key} 1 {}", over.join(" ")));
    }
    session.advance(1000);
}

#[test]
fn a_request_for_a_few_members_does_not_look_at_all() {
    let requests = "
        HGET h m:1; HSET h m:1 w; HSET h new w; HDEL h m:2; HEXISTS h m:3; HLEN h;
        HINCRBY h count 1; HRANDFIELD h; HRANDFIELD h 5; HRANDFIELD h -5; HSCAN h 0;
        HPEXPIRE h 100000 FIELDS 1 m:5; HTTL h FIELDS 1 m:5; HGETDEL h FIELDS 1 m:6;
        SADD s new; SREM s m:1; SISMEMBER s m:2; SCARD s; SRANDMEMBER s; SRANDMEMBER s 5;
        SRANDMEMBER s -5; SPOP s; SPOP s 5; SMOVE s t m:3; SSCAN s 0; ZADD z 5 new;
        ZSCORE z m:1; ZRANK z m:2; ZREM z m:3; ZCARD z; ZCOUNT z 5 9; ZRANGE z 5 9;
        ZRANGE z 5 9 BYSCORE; ZRANGE z 9 5 BYSCORE REV; ZPOPMIN z; ZPOPMAX z;
        ZRANDMEMBER z; ZRANDMEMBER z 5; ZINCRBY z 1 m:9; ZREMRANGEBYRANK z 3 5; ZSCAN z 0;
        RPUSH l new; LPOP l; RPOP l 5; LLEN l; LRANGE l 5 9; LINDEX l 700; LSET l 700 x;
        LTRIM l 1 -2; LMOVE l k LEFT RIGHT; OBJECT ENCODING h; TYPE s; COPY h g;
        RENAME s r; EXISTS l; EXPIRE z 100";
    check(containers, 1000, Growth::Flat, requests);
}

#[test]
fn members_that_are_over_are_removed_by_one_request_and_no_work_of_others() {
    fn due(session: &mut Session, size: usize) {
        containers(session, size);
        let_expire(session, size, 2);
        // Each of these pays for the container.
        ["HRANDFIELD h", "SCARD s", "ZCARD z"].iter().for_each(|request| _ = session.call(request));
    }
    let requests = "
        HRANDFIELD h; HRANDFIELD h 5; HLEN h; HGET h m:1; HSET h m:1 w; SCARD s;
        SRANDMEMBER s; SRANDMEMBER s -5; SISMEMBER s m:1; SPOP s; SADD s new; ZCARD z;
        ZRANK z m:1; ZRANDMEMBER z 5; ZADD z 1 new; ZPOPMIN z";
    check(due, 1000, Growth::Flat, requests);
}

#[test]
fn a_few_members_that_are_over_are_found_without_a_walk() {
    fn four_due(session: &mut Session, size: usize) {
        containers(session, size);
        let_expire(session, size, size / 4);
    }
    check(four_due, 1000, Growth::Flat, "HRANDFIELD h 5; SRANDMEMBER s; ZCARD z");
    check(four_due, 1000, Growth::Flat, "HSET h m:1 w; SCARD s; ZADD z 1 new");
    check(four_due, 1000, Growth::Flat, "HDEL h m:1; SPOP s 5; ZRANK z m:1");
}

#[test]
fn as_many_members_as_there_are_cost_one_walk_of_a_small_container() {
    let requests = "
        HRANDFIELD h {n} WITHVALUES; HRANDFIELD h -{n}; HGETALL h; SRANDMEMBER s {n};
        SRANDMEMBER s -{n}; SPOP s 7; ZRANDMEMBER z {n}; ZRANDMEMBER z -{n};
        ZRANGE z 0 {n}; LRANGE l 0 {n}; SMEMBERS s";
    check(containers, 8, Growth::Linear, requests);
}

#[test]
fn a_set_that_is_named_again_is_no_work() {
    let steps = |times: usize| {
        let names = " s".repeat(times);
        let requests = format!("SUNION{names}; SUNIONSTORE d{names}; SINTER{names}");
        steps_of(containers, 1000, &requests)
    };
    let (Some(once), Some(often)) = (steps(1), steps(TIMES)) else { return };
    for (once, often) in once.into_iter().zip(often) {
        let limit = Growth::Flat.limit(once);
        assert!(often <= limit, "{once} steps of a set, {often} where it is named {TIMES} times");
    }
}

#[test]
fn another_database_is_no_work() {
    fn two_databases(session: &mut Session, size: usize) {
        for database in [1, 0] {
            session.select(database);
            (0..size).for_each(|number| _ = session.call(&format!("SET {database}:{number} v")));
        }
    }
    check(two_databases, 300, Growth::Flat, "RANDOMKEY; DBSIZE; GET 0:1; MOVE 0:1 1");
}

/// So many entries and so many groups, of which all have acknowledged what they read but one.
fn read_stream(session: &mut Session, size: usize) {
    let ids: Vec<String> = (1..=size).map(|number| format!("{number}-1")).collect();
    ids.iter().for_each(|id| _ = session.call(&format!("XADD x {id} f v")));
    for group in 0..size {
        session.call(&format!("XGROUP CREATE x g{group:04} {START}"));
    }
    session.call("XGROUP CREATE x slow 0");
    session.call("XREADGROUP GROUP slow c STREAMS x >");
}

#[test]
fn groups_are_no_work_of_each_entry() {
    let requests = "
        XADD x ACKED MAXLEN 4 * f v; XTRIM x MAXLEN 4 ACKED; XRANGE x - +;
        XTRIM x MAXLEN 4 DELREF; XLEN x; XINFO STREAM x";
    check(read_stream, 8, Growth::Linear, requests);
}

/// So many entries, all of which one group has read and acknowledged none.
fn stream_behind(session: &mut Session, size: usize) {
    let ids: Vec<String> = (1..=size).map(|number| format!("{number}-1")).collect();
    ids.iter().for_each(|id| _ = session.call(&format!("XADD x {id} f v")));
    session.call("XGROUP CREATE x slow 0");
    session.call("XREADGROUP GROUP slow c STREAMS x >");
}

#[test]
fn what_a_group_has_pending_is_no_work_of_each_claim_and_of_each_trim() {
    let requests = "
        XADD x ACKED MAXLEN {n} * f v; XTRIM x MAXLEN {n} ACKED;
        XREADGROUP GROUP slow d COUNT 1 CLAIM 0 STREAMS x >;
        XREADGROUP GROUP slow d COUNT 1 STREAMS x >;
        XREADGROUP GROUP slow d COUNT 1 BLOCK 1 CLAIM 3600000 STREAMS x >;
        XDEL x 1-1 2-1; XREADGROUP GROUP slow e COUNT 2 CLAIM 0 STREAMS x >";
    check(stream_behind, 300, Growth::Flat, requests);
}

#[test]
fn an_element_of_a_hyperloglog_is_added_without_a_walk_over_all() {
    fn sparse(session: &mut Session, size: usize) {
        let elements: Vec<String> = (0..size).map(|number| format!("e{number}")).collect();
        session.call(&format!("PFADD p {}", elements.join(" ")));
        session.call(&format!("PFADD q {}", elements.join("x ")));
    }
    check(sparse, 50, Growth::Linear, "PFADD p e1; PFADD p new; PFMERGE d p q; PFCOUNT p q");
    let known = (0..32).map(|number| format!(" e{number}")).collect::<String>();
    let new = (0..32).map(|number| format!(" n{number}")).collect::<String>();
    let requests = format!("PFCOUNT p q; PFADD p{known}; PFADD p{new}");
    let Some(steps) = steps_of(sparse, 800, &requests) else { return };
    let few_walks = 2 * steps[0];
    assert!(steps[1..].iter().all(|many| *many < few_walks), "{steps:?}");
}
