//! Random work for all that is written on Lua's own stack: values of every kind, bytes that lie,
//! little memory, and a stop at any moment. Nothing of it reaches the script that comes next.
//!
//! `APUS_RAVAGES=100000` asks for so many scripts of a fresh seed; under AddressSanitizer they look
//! for wrong accesses, too.

use base::random::Random;
use proto::{Output, OwnedArgs, Reply, Resp};

use super::{Bench, bytes_of, on_deep_stack};
use crate::{Input, Limits, Program, Stop};

const RAVAGES: u64 = 1500;
const SEED: u64 = 40;

/// What each script finds as it was, whatever came before it.
const CANARY: &str = "
    local text = cjson.encode({1, {a = 'b'}, {}, 2.5}) .. cmsgpack.pack({1, {a = 'b'}}, 'c')
    text = text .. struct.pack('>I2c0s', 258, 'abc', 'd') .. redis.call('get', 'small')
    return text .. #cjson.decode('[[1],{\"a\":[]}]') .. #KEYS .. #ARGV";

const JSON: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "1",
    "-0",
    "1e999",
    "0x1",
    "nan",
    "\"a\"",
    "\"\\u00e9\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"",
    "\\",
    "null",
    "true",
    "fals",
    " ",
    "\0",
    "[[[[[[[[",
    "{\"a\":",
    "\u{7f}",
    "1.5",
    "[]",
    "{}",
];
const PACKED: &[&[u8]] = &[
    b"\x01",
    b"\xff",
    b"\x93",
    b"\x82",
    b"\x80",
    b"\xa3",
    b"abc",
    b"\xd9\x02",
    b"\xda\x00\x03",
    b"\xdb\x7f\xff\xff\xff",
    b"\xdc\x00\x02",
    b"\xdd\xff\xff\xff\xff",
    b"\xde\x00\x01",
    b"\xdf\x00\x00\x00\x02",
    b"\xc0",
    b"\xc3",
    b"\xca\x7f\xc0\x00\x00",
    b"\xcb\x7f\xf8\0\0\0\0\0\0",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd3\x80",
    b"\xc1",
    b"\x91\x91\x91\x91\x91\x91",
    b"\x81\xc0\xc0",
];
const REPLIES: &[&[u8]] = &[
    b"*2\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"$3\r\nabc\r\n",
    b"$-1\r\n",
    b"$99\r\nab\r\n",
    b":12\r\n",
    b"+OK\r\n",
    b"-ERR no\r\n",
    b"%1\r\n",
    b"~2\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",1.5\r\n",
    b",nan\r\n",
    b"(123\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"=3\r\nabc\r\n",
    b"|1\r\n",
    b">1\r\n",
    b"*9999999999\r\n",
    b"*1\r\n*1\r\n*1\r\n*1\r\n",
    b"\r\n",
    b"$",
    b"?",
];
const FORMATS: &[&str] = &[
    ">",
    "<",
    "=",
    "!",
    "!8",
    "b",
    "B",
    "h",
    "H",
    "i",
    "i3",
    "I16",
    "i32",
    "I33",
    "l",
    "L",
    "f",
    "d",
    "s",
    "c",
    "c0",
    "c3",
    "c2147483647",
    "x",
    "T",
    "z",
    " ",
    "!3",
    "i99999999999",
];
const LEAVES: &[&str] = &[
    "nil",
    "true",
    "0",
    "-1",
    "1.5",
    "0/0",
    "1/0",
    "-1e300",
    "2^53",
    "4294967296",
    "''",
    "'a\\0b'",
    "'\\255\\254'",
    "cjson.null",
    "print",
    "redis",
    "_G",
    "coroutine.create(function() end)",
    "long",
    "deep",
    "ring",
    "evil",
    "wide",
    "sparse",
    "ARGV[1]",
    "cjson.empty_array",
];
/// What the leaves name.
const NAMES: &str = "
    local long = string.rep('\\1\"', 70000)
    local deep = {} for _ = 1, 1200 do deep = {deep} end
    local ring = {} ring[1] = ring
    local evil = setmetatable({1, 2}, {__index = function() error('i') end, __len = error,
        __tostring = error, __eq = error, __newindex = error, __call = error, __concat = error})
    local wide = {} for i = 1, 300 do wide[i] = i wide['k' .. i] = evil end
    local sparse = {[1] = 1, [2^40] = 2, [-1] = 3, [1.5] = 4}
";

struct Draw(Random);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// An expression of Lua.
    fn value(&mut self, depth: usize) -> String {
        match self.below(if depth > 3 { 3 } else { 6 }) {
            0..=2 => (*self.of(LEAVES)).to_owned(),
            3 => {
                let many = self.below(5);
                let values: Vec<_> = (0..many).map(|_| self.value(depth + 1)).collect();
                format!("{{{}}}", values.join(", "))
            }
            4 => format!("{{a = {}, {}}}", self.value(depth + 1), self.value(depth + 1)),
            _ => format!("(select(2, pcall(function() return {} end)))", self.call(depth + 1)),
        }
    }

    /// A call of a function that is written on Lua's stack.
    fn call(&mut self, depth: usize) -> String {
        let (value, other) = (self.value(depth + 1), self.value(depth + 1));
        let number = self.of(&["0", "1", "-1", "2^31", "2^53", "0/0", "3", "nil"]);
        let format: String = (0..1 + self.below(4)).map(|_| *self.of_text(FORMATS)).collect();
        match self.below(16) {
            0 | 1 => format!("cjson.encode({value})"),
            2 | 3 => format!("cjson.decode({value})"),
            4 => "cjson.decode(ARGV[1])".to_owned(),
            5 => format!("cmsgpack.pack({value}, {other})"),
            6 => "cmsgpack.unpack(ARGV[2])".to_owned(),
            7 => format!("cmsgpack.unpack_one(ARGV[2], {number})"),
            8 => format!("cmsgpack.unpack_limit(ARGV[2], {number}, {number})"),
            9 => format!("cmsgpack.unpack({value})"),
            10 => format!("struct.pack('{format}', {value}, {other}, {number}, 'abc')"),
            11 => format!("struct.unpack('{format}', {value}, {number})"),
            12 => format!("struct.size('{format}')"),
            13 => "redis.call('reply', ARGV[3])".to_owned(),
            14 => format!("redis.pcall('reply', ARGV[3], {value})"),
            _ => format!("coroutine.wrap(function(x) return cjson.encode(x) end)({value})"),
        }
    }

    fn of_text<'a>(&mut self, all: &'a [&'static str]) -> &'a &'static str {
        &all[self.below(all.len())]
    }

    fn bytes(&mut self, pieces: &[&[u8]]) -> Vec<u8> {
        let many = self.below(12);
        let mut bytes: Vec<u8> = (0..many).flat_map(|_| self.of(pieces).iter().copied()).collect();
        if self.below(4) == 0 && !bytes.is_empty() {
            let place = self.below(bytes.len());
            bytes[place] = self.below(256) as u8;
        }
        bytes
    }

    fn script(&mut self) -> String {
        let settings = self.of(&[
            "",
            "cjson.encode_sparse_array(true) cjson.encode_max_depth(3000)",
            "cjson.encode_sparse_array(false, 0) cjson.decode_array_with_array_mt(true)",
            "cjson.encode_invalid_numbers(true) redis.setresp(3)",
        ]);
        let calls: String = (0..1 + self.below(4))
            .map(|_| format!("pcall(function() {} end)\n", self.as_statement()))
            .collect();
        format!("{NAMES} {settings} {calls} return {}", self.value(0))
    }

    fn as_statement(&mut self) -> String {
        format!("local x = {} return x", self.call(0))
    }
}

#[test]
fn nothing_that_a_script_does_on_the_stack_reaches_the_next() {
    let asked = std::env::var("APUS_RAVAGES").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_RAVAGES is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    eprintln!("seed {seed}");
    on_deep_stack(move || {
        let mut draw = Draw(Random::from_seed(seed));
        let json: Vec<&[u8]> = JSON.iter().map(|text| text.as_bytes()).collect();
        let mut bench = Bench::new();
        bench.shop.strings.insert(b"small".to_vec(), b"right".to_vec());
        let canary = bench.reply(Resp::Two, CANARY.as_bytes());
        assert!(!canary.starts_with(b"-"), "{}", canary.escape_ascii());
        for number in 0..asked.unwrap_or(RAVAGES) {
            let script = draw.script();
            let program = Program::parse(script.as_bytes()).unwrap();
            let arguments = [draw.bytes(&json), draw.bytes(PACKED), draw.bytes(REPLIES)];
            let arguments: OwnedArgs = arguments.iter().map(Vec::as_slice).collect();
            let input =
                Input { keys: Default::default(), arguments: arguments.as_args(), seed: Some(1) };
            bench.shop.stop = Some([Stop::Killed, Stop::Widen, Stop::Heavy][draw.below(3)]);
            bench.shop.patience = (draw.below(3) == 0).then(|| draw.below(300));
            let memory = match draw.below(3) {
                0 => 20_000 << draw.below(10),
                _ => 32 << 20,
            };
            let mut output = Output::new();
            let resp = if draw.below(2) == 0 { Resp::Two } else { Resp::Three };
            let mut reply = Reply::new(&mut output, resp);
            let limits = Limits { memory };
            let result = bench.lua.run(&program, input, &mut bench.shop, limits, &mut reply);
            assert!(result.is_ok() || bytes_of(output).is_empty(), "{number} of {seed}: {script}");
            (bench.shop.patience, bench.shop.stop) = (None, None);
            bench.shop.lines.clear();
            bench.shop.returned_errors.clear();
            let found = bench.reply(Resp::Two, CANARY.as_bytes());
            assert_eq!(found, canary, "behind {number} of {seed}: {script}");
        }
    });
}
