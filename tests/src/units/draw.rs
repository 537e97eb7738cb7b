//! Random units: EXECs and scripts of commands of all kinds, control commands too.
//!
//! Invariant: what a unit answers depends on nothing but what was there before it: no command here
//! tells a time, draws, or goes by the hashes of keys.

use std::fmt::Write;

use base::random::Random;

/// A command line for everybody: words separated by spaces.
pub type Words = Vec<String>;

/// Keys of each type, so that most commands find what they are for.
const KEYS: [&str; 10] = ["s", "n", "q", "l", "h", "z", "u", "x", "dst", "new"];

/// What may stand in a transaction; `#` stands for a key of any name, `@` for a small number.
const DATA: &[&str] = &[
    "SET # @",
    "SET # @ GET",
    "SET n @",
    "INCR n",
    "INCRBY n @",
    "APPEND s @",
    "GET s",
    "GET #",
    "GETDEL s",
    "MSET s @ n @",
    "SETRANGE s @ abc",
    "DEL #",
    "DEL # #",
    "UNLINK #",
    "EXISTS # #",
    "RENAME # #",
    "COPY # # REPLACE",
    "MOVE # 1",
    "TYPE #",
    "EXPIREAT # 4000000000",
    "EXPIREAT # 1",
    "PERSIST #",
    "EXPIRETIME new",
    "OBJECT ENCODING #",
    "TOUCH #",
    "DBSIZE",
    "RPUSH q @",
    "LPUSH q @ @",
    "RPUSH l @ @ @",
    "LPOP l",
    "LRANGE l 0 -1",
    "LTRIM l 0 -1",
    "LTRIM q 0 2",
    "LMOVE l q LEFT RIGHT",
    "LMOVE q dst LEFT LEFT",
    "RPOPLPUSH q l",
    "LREM l 0 @",
    "BLPOP l 0",
    "HSET h @ @",
    "HSET h @ @ @ @",
    "HGETALL h",
    "HDEL h @",
    "HINCRBY h @ 1",
    "ZADD z @ @",
    "ZADD z @ @ @ @",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZINCRBY z @ @",
    "ZPOPMIN z",
    "ZRANGESTORE dst z 0 -1",
    "SADD u @ @",
    "SREM u @",
    "SCARD u",
    "SUNIONSTORE new u u",
    "XADD x @-* f v",
    "XLEN x",
    "XTRIM x MAXLEN 2",
    "SORT l BY nosort STORE new",
    "SORT q BY w_* GET # ALPHA",
    "BITOP NOT new s",
    "SETBIT s @ 1",
    "PFADD new @",
    "GEOADD new 1 1 @",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB 0 1",
    "SWAPDB 1 0",
    "SINTERCARD 2 u u",
    "STRLEN s",
    "GET",
    "INCR h",
    "NOSUCH",
];

const CONTROL: &[&str] = &[
    "SELECT 0",
    "SELECT 1",
    "SELECT 99",
    "PING",
    "ECHO @",
    "PUBLISH news @",
    "SPUBLISH shard @",
    "CLIENT GETNAME",
    "CLIENT SETNAME name@",
    "CLIENT NO-TOUCH ON",
    "CLIENT NO-EVICT ON",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKING ON OPTIN",
    "CLIENT CACHING YES",
    "CLIENT ID",
    "CONFIG GET slowlog-max-len",
    "CONFIG SET slowlog-max-len 1@",
    "CONFIG SET notify-keyspace-events KEA",
    "CONFIG SET notify-keyspace-events Kx",
    "CONFIG SET appendfsync nosuch",
    "SUBSCRIBE news",
    "UNSUBSCRIBE news",
    "PSUBSCRIBE new*",
    "PUNSUBSCRIBE new*",
    "SSUBSCRIBE shard",
    "SUNSUBSCRIBE shard",
    "PUBSUB NUMSUB news shard",
    "FUNCTION LIST",
    "FUNCTION DELETE lib@",
    "FUNCTION FLUSH",
    "SCRIPT FLUSH",
    "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    "ACL WHOAMI",
    "ACL LOG RESET",
    "ACL SETUSER guest on nopass ~* &* +@all",
    "ACL SETUSER guest -get",
    "ACL GETUSER guest",
    "ACL DELUSER guest",
    "ACL SETUSER default -append",
    "ACL SETUSER default +@all",
    "ACL USERS",
    "HIMPORT PREPARE fields a b",
    "HIMPORT SET h fields @ @",
    "HIMPORT DISCARD fields",
    "SLOWLOG RESET",
    "WAIT 0 0",
    "OBJECT HELP",
    "UNWATCH",
    "CLIENT UNBLOCK {w0}",
    "CLIENT UNBLOCK {w1} ERROR",
    "AUTH guest any",
    "AUTH default nosuch",
    "HELLO 3",
];

/// Draws units.
pub struct Draw(pub Random);

impl Draw {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.below(of.len() as u64) as usize]
    }

    fn words(&mut self, form: &str) -> Words {
        let mut word = |word: &str| match word {
            "#" => self.one(&KEYS).to_owned(),
            // A category of commands.
            _ if word.starts_with("+@") => word.to_owned(),
            _ => word.replace('@', &self.0.below(7).to_string()),
        };
        form.split(' ').map(&mut word).collect()
    }

    /// A call of a script that declares few of its keys, in the form of EVAL.
    fn script(&mut self) -> Words {
        let mut body = String::new();
        let direct = self.0.below(3) == 0;
        let calls = 1 + self.0.below(if direct { 2 } else { 5 });
        for number in 0..calls {
            let is_control = self.0.below(8) == 0;
            let form = self.one(if is_control { CONTROL } else { DATA });
            let words = self.words(form);
            let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            let call = if direct || self.0.below(4) == 0 { "call" } else { "pcall" };
            let returns = if number + 1 == calls { "return " } else { "" };
            let _ = write!(body, "{returns}redis.{call}({}) ", quoted.join(","));
            if !direct && number + 1 < calls && self.0.below(4) == 0 {
                body.push_str("redis.log(redis.LOG_WARNING, 'MARKER') ");
            }
        }
        let key = self.one(&KEYS).to_owned();
        vec!["EVAL".to_owned(), body, "1".to_owned(), key]
    }

    fn command(&mut self) -> Words {
        match self.0.below(10) {
            0 | 1 => self.script(),
            2 => {
                let name = self.0.below(3);
                let source = format!(
                    "#!lua name=lib{name}\nredis.register_function('f{name}', function(keys) \
                     return redis.call('INCR', 'n') end)"
                );
                let replaces = self.0.below(2) == 0;
                let words = if replaces { vec!["REPLACE"] } else { Vec::new() };
                let all = ["FUNCTION", "LOAD"].into_iter().chain(words).chain([source.as_str()]);
                all.map(str::to_owned).collect()
            }
            3 => match self.0.below(4) {
                0 => self.words("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0"),
                1 => ["EVAL", "return 1", "0"].map(str::to_owned).to_vec(),
                _ => self.words("FCALL f@ 0"),
            },
            4 | 5 => {
                let form = self.one(CONTROL);
                self.words(form)
            }
            _ => {
                let form = self.one(DATA);
                self.words(form)
            }
        }
    }

    /// The commands of a unit: of an EXEC, or one script.
    pub fn unit(&mut self) -> Vec<Words> {
        if self.0.below(4) == 0 {
            return vec![self.script()];
        }
        let count = 1 + self.0.below(7);
        let middle = (0..count).map(|_| self.command()).collect::<Vec<_>>();
        let ends = |word: &str| vec![vec![word.to_owned()]];
        [ends("MULTI"), middle, ends("EXEC")].concat()
    }
}
