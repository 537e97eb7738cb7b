//! Scripts that are run without Lua, beside the same in Lua: texts as users write them, texts made
//! at random, and those with a word taken away, doubled or moved.

use std::cell::{Cell, RefCell};

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::{prop_assert, prop_assert_eq};
use proto::{OwnedArgs, Resp};

use super::{Bench, Shop, on_deep_stack, run_directly};
use crate::{DirectExit, Input, Program, Stop};

/// What a script came to without Lua, after it was compared with what it came to there.
fn compare(
    bench: &mut Bench,
    script: &str,
    keys: &[&str],
    arguments: &[&str],
) -> Result<String, DirectExit> {
    let program = Program::parse(script.as_bytes()).expect("it has no shebang");
    if !program.is_direct() {
        return Err(DirectExit::GaveUp);
    }
    let args = |texts: &[&str]| texts.iter().map(|text| text.as_bytes()).collect::<OwnedArgs>();
    let (keys, arguments) = (args(keys), args(arguments));
    let input = Input { keys: keys.as_args(), arguments: arguments.as_args(), seed: None };
    bench.lua.check(&program).unwrap_or_else(|error| panic!("{script}: {error:?}"));
    let mut last = Err(DirectExit::GaveUp);
    for resp in [Resp::Two, Resp::Three] {
        let mut shop = stocked();
        bench.shop = stocked();
        let directly = run_directly(&program, input, resp, &mut shop);
        let in_lua = bench.run(&program, input, resp);
        if let Ok(reply) = &directly {
            let in_lua = in_lua.unwrap_or_else(|fault| panic!("{script}: {fault:?}"));
            assert_eq!(
                reply.escape_ascii().to_string(),
                in_lua.escape_ascii().to_string(),
                "{script}"
            );
            assert_eq!(shop, bench.shop, "{script}");
        }
        last = directly.map(|reply| reply.escape_ascii().to_string());
    }
    last
}

fn stocked() -> Shop {
    let strings = [("k", "v"), ("number", "41"), ("half", "1.5"), ("empty", "")];
    let pair = |(key, value): (&str, &str)| (key.into(), value.into());
    Shop { strings: strings.map(pair).into(), ..Shop::default() }
}

#[test]
fn what_users_write_needs_no_lua() {
    on_deep_stack(|| {
        let mut bench = Bench::new();
        let mut check = |script: &str, keys: &[&str], arguments: &[&str], reply: &str| {
            assert_eq!(
                compare(&mut bench, script, keys, arguments).as_deref(),
                Ok(reply),
                "{script}"
            );
        };
        check("return redis.call('GET', KEYS[1])", &["k"], &[], r"$1\r\nv\r\n");
        check("return redis.call('GET', KEYS[1])", &["none"], &[], r"_\r\n");
        check("return redis.call('SET', KEYS[1], ARGV[1])", &["k"], &["w"], r"+OK\r\n");
        // A lock is given back by its holder.
        let unlock = "-- only the owner\nif redis.call(\"get\", KEYS[1]) == ARGV[1] then\n  \
            return redis.call('set', KEYS[1], '')\nelse\n  return 0\nend\n";
        check(unlock, &["k"], &["v"], r"+OK\r\n");
        check(unlock, &["k"], &["w"], r":0\r\n");
        // So many in a window.
        let limit = "local current = tonumber(redis.call('get', KEYS[1]) or '0')
            if current + 1 > tonumber(ARGV[1]) then return { 0, current } end
            current = current + 1
            redis.call('set', KEYS[1], current)
            return { 1, tonumber(ARGV[1]) - current, 'left' }";
        check(limit, &["number"], &["100"], r"*3\r\n:1\r\n:58\r\n$4\r\nleft\r\n");
        check(limit, &["number"], &["41"], r"*2\r\n:0\r\n:41\r\n");
        check(limit, &["none"], &["1"], r"*3\r\n:1\r\n:0\r\n$4\r\nleft\r\n");
        // A bucket that fills with time.
        let bucket = "local bucket = redis.call('reply', ARGV[1])
            local tokens = tonumber(bucket[1]) or 10
            local last = tonumber(bucket[2]) or 0
            local now = tonumber(ARGV[2])
            tokens = tokens + (now - last) / 2
            if tokens > 10 then tokens = 10 end
            if not (tokens >= 1) then return { 0, tokens .. '' }
            elseif #bucket ~= 2 then return false end
            return { 1, tokens - 1, #KEYS, #ARGV[1] > 3 and 'long' or 'short' };";
        let stored = "*2\r\n$1\r\n4\r\n$2\r\n10\r\n";
        check(bucket, &["k"], &[stored, "13"], r"*4\r\n:1\r\n:4\r\n:1\r\n$4\r\nlong\r\n");
        let nothing = "*2\r\n$-1\r\n$-1\r\n";
        check(bucket, &[], &[nothing, "7"], r"*4\r\n:1\r\n:9\r\n:0\r\n$4\r\nlong\r\n");
        let nested = "*3\r\n:9007199254740993\r\n*2\r\n+OK\r\n$-1\r\n*-1\r\n";
        check(
            "return redis.call('reply', ARGV[1])",
            &[],
            &[nested],
            r"*3\r\n:9007199254740992\r\n*2\r\n+OK\r\n_\r\n_\r\n",
        );
        check("local x = redis.call('reply', ARGV[1])[2] return x[1]", &[], &[nested], r"+OK\r\n");
    });
}

/// More than is understood without Lua.
const OTHERS: &str = "\
    return nil, 1|return redis.pcall('PING')|for i = 1, 3 do end|while true do end|\
    return {{}}|x = 1|return x|return KEYS|return KEYS[ARGV[1]]|return KEYS[0]|\
    return KEYS[1.5]|return redis.call('PING').ok|return redis.call(unpack(ARGV))|\
    local redis = 1 return redis.call('PING')|return 'a\\n'|return 2^3|return 1e3|\
    return 0x10|return .5|return 1..2|--[[x]] return 1|return [[x]]|\
    return redis.call\n('PING')|local f = tonumber return f('1')|\
    return tonumber('z', 36)|local a, b = 1, 2|return {a = 1}|return ('x'):rep(3)|\
    do return 1 end|return 1 return 2|if 1 then return 2|goto x|return (1|return 'x|\
    a.b = 1";

/// What only Lua can tell the outcome of.
const UNCLEAR: &str = "\
    return redis.call('INCR', KEYS[1])|return redis.call('nosuch')|return 1 < 'x'|\
    return redis.call('GET')|return redis.call('GET', KEYS[2])|return 'x' + 1|\
    return 1 / 0|return -0|return 0 / 0|return 'a' < 'b'|\
    return redis.call('ping') == redis.call('ping')|return nil .. 'x'|return #nil|\
    return tonumber('0x10')|return tonumber(' 1')|return tonumber('1e3')|\
    return redis.call('GET', nil)|return redis.call('GET', redis.call('ping'))";

#[test]
fn what_is_lua_s_business_is_left_to_it() {
    on_deep_stack(|| {
        let mut bench = Bench::new();
        for script in ["", "-- nothing\n", "local x"] {
            assert_eq!(compare(&mut bench, script, &[], &[]).as_deref(), Ok(r"_\r\n"), "{script}");
        }
        for script in OTHERS.split('|') {
            assert!(!Program::parse(script.as_bytes()).unwrap().is_direct(), "{script}");
        }
        for script in UNCLEAR.split('|') {
            assert!(Program::parse(script.as_bytes()).unwrap().is_direct(), "{script}");
            let result = compare(&mut bench, script, &["number"], &[]);
            assert_eq!(result, Err(DirectExit::GaveUp), "{script}");
        }
        let deep = format!("return {}1{}", "(".repeat(200), ")".repeat(200));
        let long = format!("return 1{}", " + 1".repeat(300));
        let wide = (0..40).fold(String::new(), |text, number| text + &format!("local x{number} "));
        for script in [deep, long, wide] {
            assert!(!Program::parse(script.as_bytes()).unwrap().is_direct(), "{script}");
        }
    });
}

/// Makes a script of choices; when there are none left, it ends soon.
struct Author<'a> {
    choices: &'a [u8],
    words: Vec<String>,
    locals: usize,
}

const NAMES: [&str; 4] = ["x", "y", "KEYS", "redis2"];

impl Author<'_> {
    fn pick(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.choices.split_first() else { return 0 };
        self.choices = rest;
        usize::from(*first) % count
    }

    fn say(&mut self, words: &str) {
        self.words.extend(words.split(' ').map(str::to_owned));
    }

    fn block(&mut self, depth: usize) {
        let known = self.locals;
        for _ in 0..self.pick(4) {
            match self.pick(5) {
                0 => self.call(depth),
                1 if self.locals < NAMES.len() => {
                    self.say(&format!("local {} =", NAMES[self.locals]));
                    self.value(depth);
                    self.locals += 1;
                }
                2 if self.locals > 0 => {
                    let local = self.pick(self.locals);
                    self.say(&format!("{} =", NAMES[local]));
                    self.value(depth);
                }
                _ if depth > 0 => {
                    self.say("if");
                    self.value(depth - 1);
                    self.say("then");
                    self.block(depth - 1);
                    if self.pick(2) == 1 {
                        self.say("elseif");
                        self.value(depth - 1);
                        self.say("then");
                        self.block(depth - 1);
                    }
                    if self.pick(2) == 1 {
                        self.say("else");
                        self.block(depth - 1);
                    }
                    self.say("end");
                }
                _ => {}
            }
        }
        match self.pick(4) {
            0 => {
                self.say("return");
                self.value(depth);
            }
            1 => {
                self.say("return {");
                for _ in 0..=self.pick(3) {
                    self.value(depth);
                    self.say(",");
                }
                self.say("}");
            }
            _ => {}
        }
        self.locals = known;
    }

    fn call(&mut self, depth: usize) {
        let commands = [
            "'get'",
            "'set'",
            "'count'",
            "'ping'",
            "'reply' , ARGV [ 2 ]",
            "'reply' , ARGV [ 3 ]",
            "'reply' , ARGV [ 4 ]",
            "'incr'",
        ];
        let command = self.pick(commands.len());
        self.say("redis . call (");
        self.say(commands[command]);
        let arguments = if command > 3 { 0 } else { self.pick(3) };
        for _ in 0..arguments {
            self.say(",");
            self.value(depth.saturating_sub(1));
        }
        self.say(")");
    }

    fn value(&mut self, depth: usize) {
        let constants = [
            "KEYS [ 1 ]",
            "1",
            "'a'",
            "nil",
            "true",
            "false",
            "ARGV [ 1 ]",
            "'12'",
            "2.5",
            "#KEYS",
        ];
        let operators =
            ["==", "~=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "..", "and", "or"];
        match self.pick(if depth > 0 { 9 } else { 3 }) {
            0 => {
                let constant = self.pick(constants.len());
                self.say(constants[constant]);
            }
            1 | 2 if self.locals > 0 => {
                let local = self.pick(self.locals);
                self.say(NAMES[local]);
            }
            3 | 4 => self.call(depth - 1),
            5 | 6 if depth > 0 => {
                self.value(depth - 1);
                let operator = self.pick(operators.len());
                self.say(operators[operator]);
                self.value(depth - 1);
            }
            7 if depth > 0 => {
                let forms = [("not", ""), ("-", ""), ("(", ")"), ("tonumber (", ")"), ("#", "")];
                let (before, after) = forms[self.pick(forms.len())];
                self.say(before);
                self.value(depth - 1);
                self.say(after);
            }
            8 if depth > 0 => {
                self.say("(");
                self.call(depth - 1);
                self.say(") [");
                self.value(0);
                self.say("]");
            }
            _ => self.say("7"),
        }
    }
}

fn author(choices: &[u8]) -> Vec<String> {
    let mut author = Author { choices, words: Vec::new(), locals: 0 };
    author.block(4);
    author.words
}

const ARGUMENTS: [&str; 4] =
    ["41", "*2\r\n:1\r\n$-1\r\n", "*3\r\n*1\r\n+OK\r\n:7\r\n$3\r\n2.5\r\n", ":-12\r\n"];

#[test]
fn what_is_written_at_random_comes_to_the_same() {
    on_deep_stack(|| {
        let (bench, known, unknown) = (RefCell::new(Bench::new()), Cell::new(0), Cell::new(0));
        proptest!(ProptestConfig::with_cases(4000), |(choices in vec(any::<u8>(), 0..120))| {
            let script = author(&choices).join(" ");
            prop_assert!(Program::parse(script.as_bytes()).unwrap().is_direct(), "{}", script);
            match compare(&mut bench.borrow_mut(), &script, &["number"], &ARGUMENTS) {
                Ok(_) => known.set(known.get() + 1),
                Err(leave) => {
                    prop_assert_eq!(leave, DirectExit::GaveUp);
                    unknown.set(unknown.get() + 1);
                }
            }
        });
        let (known, unknown) = (known.get(), unknown.get());
        assert!(known * 4 > unknown, "{known} of {}", known + unknown);
    });
}

#[test]
fn what_is_spoilt_at_random_is_refused_or_the_same() {
    on_deep_stack(|| {
        let (bench, accepted) = (RefCell::new(Bench::new()), Cell::new(0));
        let blanks = ["", "\n", " ", "--\n", ";", "\r"];
        let spoils = vec((0..5_usize, any::<u16>(), any::<u16>(), 0..blanks.len()), 1..4);
        let cases = (vec(any::<u8>(), 0..60), spoils);
        proptest!(ProptestConfig::with_cases(6000), |((choices, spoils) in cases)| {
            let mut words = author(&choices);
            for (kind, one, other, blank) in spoils {
                if words.is_empty() {
                    break;
                }
                let [one, other] = [one, other].map(|place| usize::from(place) % words.len());
                match kind {
                    0 => drop(words.remove(one)),
                    1 => words.insert(other, words[one].clone()),
                    2 => words.swap(one, other),
                    3 => words.insert(one, blanks[blank].to_owned()),
                    _ => words[one] = format!("{}{}", words[one], words[other]),
                }
            }
            let script = words.join(" ");
            if let Ok(program) = Program::parse(script.as_bytes()) && program.is_direct() {
                accepted.set(accepted.get() + 1);
                let _ = compare(&mut bench.borrow_mut(), &script, &["number"], &ARGUMENTS);
            }
        });
        assert!(accepted.get() > 500, "{}", accepted.get());
    });
}

/// There are no loops, but a text that is doubled again and again grows as in one.
#[test]
fn a_direct_script_that_makes_long_texts_is_looked_at_meanwhile() {
    let doublings = "text = text .. text ".repeat(13);
    let script = format!("local text = ARGV[1] {doublings} redis.call('set', KEYS[1], text)");
    let program = Program::parse(script.as_bytes()).expect("it has no shebang");
    assert!(program.is_direct());
    let argument = "x".repeat(1024);
    let args = |text: &str| [text.as_bytes()].into_iter().collect::<OwnedArgs>();
    let (keys, arguments) = (args("k"), args(&argument));
    let input = Input { keys: keys.as_args(), arguments: arguments.as_args(), seed: None };
    for (patience, expected) in [(2, Err(DirectExit::Stop(Stop::Heavy))), (100, Ok(()))] {
        let mut shop =
            Shop { patience: Some(patience), stop: Some(Stop::Heavy), ..Shop::default() };
        let result = run_directly(&program, input, Resp::Two, &mut shop);
        assert_eq!(result.map(drop), expected, "after {patience} looks");
    }
}
