//! What the binary that counts is put through before the one that is packaged is built. Invariant:
//! loads are so many requests, not so many seconds, so their shares of a profile are the same on
//! every machine; a server ends in order, since only then its counts are written.

use std::path::PathBuf;

use super::cores::Cores;
use super::exchange::{Broadcast, Exchange};
use super::peer::{OURS, Peer, Running, Workers, free_port};
use super::pipe;
use crate::shell;

/// Requests that connections send in turn, of each type and of what all types have in common. What
/// never runs here is taken for rare and made small instead of fast, so they are many.
const COMMANDS: &[&str] = &[
    "SET __key__ __data__|GET __key__|GETRANGE __key__ 0 9|APPEND __key__ x",
    "MSET __key__ __data__ other x|MGET __key__ other none|SETNX __key__ x|STRLEN __key__",
    "INCR n:__key__|INCRBY n:__key__ 12|DECR n:__key__|INCRBYFLOAT f:__key__ 0.5",
    "RPUSH l:__key__ a b|LPUSH l:__key__ __data__|LRANGE l:__key__ 0 9|LPOP l:__key__",
    "RPUSH long a b __data__|LPOP long|RPOP long|LINDEX long 9|LRANGE long 0 99",
    "HSET h:__key__ a 1 b __data__|HGET h:__key__ a|HGETALL h:__key__|HDEL h:__key__ b",
    "HSET large __key__ __data__|HGET large __key__|HINCRBY h:__key__ a 2|HLEN large",
    "SADD s:__key__ a b 7|SISMEMBER s:__key__ a|SMEMBERS s:__key__|SREM s:__key__ b",
    "SADD many __key__ x|SISMEMBER many __key__|SPOP s:__key__|SINTER s:__key__ many",
    "ZADD z:__key__ 1 a 2.5 b|ZSCORE z:__key__ a|ZRANGE z:__key__ 0 -1|ZREM z:__key__ a",
    "ZINCRBY ladder 1.5 __key__|ZADD ladder 9 __key__|ZRANK ladder __key__|ZPOPMIN z:__key__",
    "ZRANGE ladder 50 60 WITHSCORES|ZRANGEBYSCORE ladder 2 9 LIMIT 0 9",
    "XADD x:__key__ MAXLEN ~ 100 * field __data__|XRANGE x:__key__ - + COUNT 3",
    "XADD events * field __data__|XLEN events|XREAD COUNT 3 STREAMS events 0",
    "SETBIT b:__key__ 99 1|GETBIT b:__key__ 9|PFADD p:__key__ __data__|PFCOUNT p:__key__",
    "GEOADD places 13.36 38.12 __key__|GEOSEARCH places FROMLONLAT 13 38 BYRADIUS 9 km COUNT 3",
    "SET e:__key__ __data__ PX 50|SET e:__key__ x EX 9|TTL e:__key__|GET e:__key__",
    "EXPIRE __key__ 90|PERSIST __key__|GETEX __key__ EX 90|TYPE __key__",
    "EXISTS __key__|DEL __key__|UNLINK h:__key__|SCAN 0 COUNT 20|HSCAN large 0",
    "MULTI|SET __key__ __data__|GET __key__|INCR n:__key__|HGET large __key__|EXEC",
    "MULTI|SET __key__ x|SET __key__ y|SET __key__ z|SET __key__ __data__|EXEC",
    "WATCH __key__|GET __key__|MULTI|SET __key__ x|EXEC",
];

/// For loading what was saved without a new start.
const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// What scripts mostly do: they read one key, or count and look at the result. Those that loop or
/// call a library are Lua's.
const SCRIPTS: &[&str] = &[
    "return redis.call('GET', KEYS[1])",
    "local n = redis.call('INCR', KEYS[1]) \
     if n > tonumber(ARGV[1]) then redis.call('EXPIRE', KEYS[1], 9) return {n, 'x'} end return n",
    "for i = 1, 3 do redis.call('INCRBY', KEYS[1], i) end return redis.call('GET', KEYS[1])",
    "local n = tonumber(redis.call('GET', KEYS[1]) or '0') \
     redis.call('SET', KEYS[1], math.min(n + 1, tonumber(ARGV[1])), 'PX', 900) \
     return cjson.encode({n, ARGV[1]})",
];

/// Protocol, requests under way and requests of each connection.
const PASSES: &[&str] = &[
    "-P redis --pipeline 1 -n 500",
    "-P resp3 --pipeline 1 -n 100",
    "-P redis --pipeline 16 -n 2000",
];

const KEYS: &str = "-t 1 --key-minimum 1 --key-maximum 100000 --distinct-client-seed";

/// Loads the binary in every way that its users are thought to.
pub(crate) fn train(program: PathBuf) -> Result<(), String> {
    let trainee = Trainee { peer: Peer::new(OURS, program)?, cores: Cores::read()?.all() };
    trainee.in_memory()?;
    trainee.with_a_log()?;
    trainee.with_a_budget()
}

struct Trainee {
    peer: Peer,
    cores: String,
}

impl Trainee {
    fn start(&self, workers: Workers, flags: &[&str]) -> Result<Running, String> {
        println!("training: apus {}", flags.join(" "));
        self.peer.start(&self.cores, workers, flags)
    }

    /// All commands, scripts, messages and memcached's protocols; saved and loaded at the end.
    fn in_memory(&self) -> Result<(), String> {
        let memcached = free_port()?;
        let port = memcached.to_string();
        let flags = [&DEBUG[..], &["--memcached-port", &port]].concat();
        let server = self.start(Workers::Exactly(1), &flags)?;
        self.strings(server.port, "-P redis", 5)?;
        self.commands(server.port)?;
        self.scripts(server.port)?;
        messages(server.port)?;
        for protocol in ["-P memcache_text", "-P memcache_binary"] {
            self.strings(memcached, protocol, 1)?;
        }
        meta(memcached)?;
        pipe::line(&pipe::connect(server.port)?, &["BGSAVE"])?;
        self.strings(server.port, "-P redis", 1)?;
        server.reaches("persistence", "rdb_bgsave_in_progress", "0")?;
        pipe::order(server.port, &["DEBUG", "RELOAD"])?;
        finish(server)
    }

    /// Writes that are held until they are on disk, and writes that are not.
    fn with_a_log(&self) -> Result<(), String> {
        let flags = [&DEBUG[..], &["--appendonly", "yes", "--appendfsync", "always"]].concat();
        let server = self.start(Workers::Default, &flags)?;
        for words in ["-c 50 -n 400", "-c 500 -n 40"] {
            self.load(server.port, &format!("{words} --ratio 1:0 -d 256"), &[])?;
        }
        pipe::order(server.port, &["CONFIG", "SET", "appendfsync", "everysec"])?;
        self.strings(server.port, "-P redis", 1)?;
        self.commands(server.port)?;
        pipe::line(&pipe::connect(server.port)?, &["BGREWRITEAOF"])?;
        self.strings(server.port, "-P redis", 1)?;
        server.reaches("persistence", "aof_rewrite_in_progress", "0")?;
        pipe::order(server.port, &["DEBUG", "LOADAOF"])?;
        finish(server)
    }

    /// More than there is room for.
    fn with_a_budget(&self) -> Result<(), String> {
        for policy in ["allkeys-lru", "allkeys-apus"] {
            let flags = ["--maxmemory", "100mb", "--maxmemory-policy", policy];
            let server = self.start(Workers::Exactly(1), &flags)?;
            let words = "-c 20 --pipeline 16 -n 10000 --ratio 3:1 --data-size-range 16-4096";
            self.load(server.port, words, &[])?;
            finish(server)?;
        }
        Ok(())
    }

    /// GET and SET, so many times, one at a time and pipelined.
    fn strings(&self, port: u16, protocol: &str, times: u32) -> Result<(), String> {
        for (pipeline, requests) in [(1, 1000), (16, 4000)] {
            let requests = requests * times;
            let words = format!("{protocol} -c 20 --pipeline {pipeline} -n {requests} -d 256");
            self.load(port, &format!("{words} --ratio 1:2"), &[])?;
        }
        Ok(())
    }

    fn commands(&self, port: u16) -> Result<(), String> {
        for commands in COMMANDS {
            let commands: Vec<&str> = commands.split('|').collect();
            for pass in PASSES {
                self.load(port, &format!("-c 20 {pass}"), &commands)?;
            }
        }
        Ok(())
    }

    fn scripts(&self, port: u16) -> Result<(), String> {
        for script in SCRIPTS {
            let digest = pipe::text(port, &["SCRIPT", "LOAD", script])?;
            let call = format!("EVALSHA {digest} 1 n:__key__ 5");
            let text = format!("EVAL \"{script}\" 1 n:__key__ 5");
            for pass in PASSES {
                self.load(port, &format!("-c 20 {pass}"), &[&call, &call, &call, &text])?;
            }
        }
        Ok(())
    }

    /// A run of the generator, which is the same binary and so is counted as well.
    fn load(&self, port: u16, words: &str, commands: &[&str]) -> Result<(), String> {
        let port = port.to_string();
        let mut command = shell::command(&self.peer.program, &["bench", "-p", &port]);
        command.args(format!("--hide-histogram {KEYS} {words}").split_whitespace());
        for line in commands {
            command.args(["--command", line]);
        }
        shell::output(&mut command).map(drop)
    }
}

/// Ends a server. Requests that it refused would have trained nothing but refusals.
fn finish(server: Running) -> Result<(), String> {
    let refused = server.number("stats", "total_error_replies")?;
    if refused > 0.0 {
        return Err(format!("{refused} requests of the training were refused"));
    }
    server.end()
}

/// Messages to a hundred subscribers, one at a time and pipelined.
fn messages(port: u16) -> Result<(), String> {
    for (pipeline, times) in [(1, 1000), (16, 100)] {
        Broadcast::new(port, 100, pipeline)?.run(times)?;
    }
    Ok(())
}

/// The protocol of memcached that the generator does not speak.
fn meta(port: u16) -> Result<(), String> {
    let (request, reply) = ("ms key 2 T90\r\nhi\r\nmg key v\r\n", "HD\r\nVA 2\r\nhi\r\n");
    for (pipeline, times) in [(1, 500), (16, 500)] {
        let requests = vec![request.repeat(pipeline).into_bytes()];
        let expected = reply.repeat(pipeline);
        let mut exchange = Exchange::new(port, 10, requests, expected.len())?;
        exchange.run(times)?;
        if exchange.reply() != expected.as_bytes() {
            let said = String::from_utf8_lossy(exchange.reply()).into_owned();
            return Err(format!("memcached's meta commands are answered by {said}"));
        }
    }
    Ok(())
}
