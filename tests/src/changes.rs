//! Random changes of values of every type, small and in trees: alone, in EXEC, in scripts.
//!
//! Invariant: what a change leaves depends on nothing but what was there before it: no command here
//! tells a time, or draws.

use base::random::Random;

use crate::units::Words;

/// Keys, with the type in the letter: of some the value is one block, of others a tree.
pub const KEYS: [&str; 30] = [
    "s1", "s2", "s3", "l1", "l2", "l3", "h1", "h2", "h3", "u1", "u2", "u3", "u4", "z1", "z2", "z3",
    "x1", "x2", "y1", "y2", "b1", "b2", "a1", "a2", "q", "w", "e1", "e2", "new", "over",
];

/// What makes values large again. `%` stands for a member of sixty bytes, `@` for a number below
/// 200, `#` for a key, `^` for a number that rises,
/// `&` for one that it was lately.
const GROWTH: &[&str] = &[
    "SET s1 %",
    "SETRANGE s2 30000 %",
    "SETRANGE s3 200000 %",
    "RPUSH l1 @ % @",
    "RPUSH l2 * 120",
    "HSET h1 @ % @ %",
    "HSET h2 ** 120",
    "SADD u1 @ @ @ @",
    "SADD u2 % % %",
    "SADD u3 * 120",
    "ZADD z1 @ % @ %",
    "ZADD z2 ** 120",
    "PFADD y1 % % %",
    "PFADD y2 * 400",
    "SETBIT b1 9000 1",
    "SETBIT b2 900000 1",
    "ARMSET a1 @ % @ %",
    "ARMSET a2 ** 120",
    "XADD x1 ^-* f %",
    "XADD x2 ^-* f %",
    "XADD x2 ^-* f % g %",
    "XADD x2 ^-* f %",
    "XGROUP CREATE x1 p 0",
    "XGROUP CREATE x2 p 0",
    "XREADGROUP GROUP p c COUNT 2 STREAMS x2 >",
];

const CHANGES: &[&str] = &[
    "SET s1 %",
    "SET s1 @",
    "SET # % PXAT 4000000000000",
    "SET s3 % KEEPTTL",
    "INCR s1",
    "INCRBYFLOAT s1 1.5",
    "APPEND s1 %",
    "APPEND s2 %",
    "APPEND s3 %",
    "SETRANGE s2 @ %",
    "SETRANGE s3 @000 %",
    "GETDEL s1",
    "GETEX s1 PXAT 4000000000000",
    "GETEX s1 PERSIST",
    "MSET s1 % s2 % e1 @",
    "MSETNX e1 @ e2 @",
    "SETBIT b1 @ 1",
    "SETBIT b2 @000 1",
    "BITOP OR b2 b1 s3",
    "BITOP NOT b1 s2",
    "BITFIELD b2 SET u8 @ 7 INCRBY i16 #@ 3",
    "PFADD y1 % % %",
    "PFADD y2 % % %",
    "PFMERGE y2 y1 y2",
    "PFCOUNT y1",
    "LPUSH l1 % @",
    "RPUSH l2 % % %",
    "LINSERT l1 BEFORE @ x",
    "LINSERT l2 AFTER % x",
    "LSET l2 @ %",
    "LREM l2 0 %",
    "LREM l1 1 @",
    "LTRIM l2 1 -2",
    "LTRIM l1 0 4",
    "LPOP l2 3",
    "RPOP l1",
    "LMOVE l2 l1 LEFT RIGHT",
    "LMPOP 2 l3 l2 RIGHT COUNT 2",
    "RPUSH q % @",
    "HSET h1 @ %",
    "HSET h2 % % % @",
    "HSETNX h1 @ @",
    "HDEL h1 @",
    "HDEL h2 % % %",
    "HINCRBY h2 n@ 1",
    "HINCRBYFLOAT h1 n 1.5",
    "HPEXPIREAT h1 4000000000000 FIELDS 1 @",
    "HPEXPIREAT h2 4000000000000 FIELDS 3 % % %",
    "HPEXPIREAT h2 1 FIELDS 2 % %",
    "HPERSIST h2 FIELDS 2 % %",
    "HGETDEL h2 FIELDS 2 % %",
    "HGETEX h2 PXAT 4000000000000 FIELDS 2 % %",
    "HSETEX h2 PXAT 4000000000000 FIELDS 2 % @ % @",
    "SADD u1 @ @",
    "SADD u1 99999999999",
    "SADD u1 text",
    "SADD u2 % %",
    "SADD u3 % %",
    "SREM u1 @ @",
    "SREM u3 % % %",
    "SMOVE u3 u2 %",
    "SUNIONSTORE u4 u1 u3",
    "SINTERSTORE u4 u3 u2",
    "SDIFFSTORE u3 u3 u2",
    "ZADD z1 @ % @ @",
    "ZADD z2 @ % @ % @ %",
    "ZADD z2 GT CH @ %",
    "ZINCRBY z2 @ %",
    "ZINCRBY z1 @ @",
    "ZREM z2 % % %",
    "ZREMRANGEBYRANK z2 0 1",
    "ZREMRANGEBYSCORE z2 190 199",
    "ZPOPMIN z2 2",
    "ZPOPMAX z1",
    "ZRANGESTORE z3 z2 0 -1",
    "ZUNIONSTORE z3 2 z1 z2",
    "ZINTERSTORE z3 2 z2 z2",
    "GEOADD z3 1 1 %",
    "ZADD w @ %",
    "XADD x1 ^-* f %",
    "XADD x2 ^-* f % g %",
    "XADD x2 MAXLEN 60 ^-* f %",
    "XTRIM x2 MAXLEN 50",
    "XDEL x2 ^-0 @-0",
    "XGROUP CREATE x2 g@ 0",
    "XGROUP DESTROY x2 g@",
    "XGROUP CREATECONSUMER x1 g@ c",
    "XSETID x1 ^-9",
    "XREADGROUP GROUP p c COUNT 3 STREAMS x2 >",
    "XREADGROUP GROUP p d COUNT 20 STREAMS x1 x2 > >",
    "XREADGROUP GROUP p d NOACK COUNT 2 STREAMS x2 >",
    "XREADGROUP GROUP p c STREAMS x2 0",
    "XACK x2 p &-0 &-0 &-0",
    "XCLAIM x2 p d 0 &-0 &-0 &-0 TIME 5 RETRYCOUNT 2",
    "XCLAIM x2 p c 0 &-0 &-0 FORCE JUSTID",
    "XAUTOCLAIM x2 p c 0 0 COUNT 5",
    "XAUTOCLAIM x2 p d 0 &-0 JUSTID",
    "XDEL x2 &-0 &-0",
    "XDELEX x2 ACKED IDS 2 &-0 &-0",
    "XDELEX x2 DELREF IDS 2 &-0 &-0",
    "XACKDEL x2 p DELREF IDS 2 &-0 &-0",
    "XACKDEL x2 p ACKED IDS 1 &-0",
    "XADD x2 DELREF MAXLEN 40 ^-* f %",
    "XTRIM x2 MAXLEN 30 DELREF",
    "XTRIM x2 MAXLEN 30 ACKED",
    "XGROUP DELCONSUMER x2 p c",
    "XGROUP SETID x2 p &-0",
    "ARSET a1 @ %",
    "ARSET a2 @ % % %",
    "ARDEL a1 @",
    "ARDEL a2 @ @ @",
    "ARDELRANGE a2 @ @",
    "ARRING a2 100 %",
    "DEL # #",
    "UNLINK #",
    "RENAME # new",
    "RENAME # #",
    "COPY # # REPLACE",
    "MOVE # 1",
    "PEXPIREAT # 4000000000000",
    "PEXPIREAT # 1",
    "PERSIST #",
    "SORT l2 ALPHA STORE l3",
    "SORT u1 STORE new",
    "TOUCH # #",
    "GET over",
    "SET over @",
    "LRANGE l2 0 -1",
    "HGETALL h2",
    "ZRANGE z2 0 -1",
    "FLUSHDB",
    "SWAPDB 0 1",
];

/// Draws changes.
pub struct Draw {
    /// What they are drawn by.
    pub random: Random,
    next: u64,
}

impl Draw {
    /// Begins with this.
    #[must_use]
    pub fn new(random: Random) -> Self {
        Self { random, next: 1 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn member(&mut self) -> String {
        format!("{:-<60}", format!("member {}", self.below(200)))
    }

    fn words(&mut self, form: &str) -> Words {
        let mut words = Words::new();
        let mut repeated = None;
        for word in form.split(' ') {
            match (word, repeated.take()) {
                ("*" | "**", _) => repeated = Some(word),
                (count, Some(what)) => {
                    for number in 0..count.parse().expect("a number follows") {
                        if what == "**" {
                            words.push(number.to_string());
                        }
                        words.push(self.member());
                    }
                }
                ("#", _) => words.push(KEYS[self.below(KEYS.len())].to_owned()),
                ("%", _) => words.push(self.member()),
                _ => {
                    self.next += u64::from(word.contains('^'));
                    let (next, number) = (self.next.to_string(), self.below(200).to_string());
                    let lately = self.next.saturating_sub(self.random.below(30)).to_string();
                    let word = word.replace('^', &next).replace('&', &lately);
                    words.push(word.replace('@', &number));
                }
            }
        }
        words
    }

    /// Commands that make all values as large as they were in the beginning.
    pub fn growth(&mut self) -> Vec<Words> {
        GROWTH.iter().map(|form| self.words(form)).collect()
    }

    /// Two members that may be anywhere.
    pub fn members(&mut self) -> [String; 2] {
        [(); 2].map(|()| self.member())
    }

    fn change(&mut self) -> Words {
        let form = CHANGES[self.below(CHANGES.len())];
        self.words(form)
    }

    fn script(&mut self) -> Words {
        let mut body = String::new();
        for _ in 0..1 + self.below(3) {
            let words: Vec<String> = self.change().iter().map(|word| format!("'{word}'")).collect();
            let call = if self.below(3) == 0 { "call" } else { "pcall" };
            body.push_str(&format!("redis.{call}({}) ", words.join(",")));
        }
        let keys = [KEYS[self.below(KEYS.len())], KEYS[self.below(KEYS.len())]];
        ["EVAL", &body, "2", keys[0], keys[1]].map(str::to_owned).to_vec()
    }

    /// A command, an EXEC of some, or a script.
    pub fn unit(&mut self) -> Vec<Words> {
        match self.below(4) {
            0 => vec![self.script()],
            1 | 2 => vec![self.change()],
            _ => {
                let middle = (0..1 + self.below(4)).map(|_| match self.below(4) {
                    0 => self.script(),
                    _ => self.change(),
                });
                let middle: Vec<Words> = middle.collect();
                let ends = |word: &str| vec![vec![word.to_owned()]];
                [ends("MULTI"), middle, ends("EXEC")].concat()
            }
        }
    }
}
