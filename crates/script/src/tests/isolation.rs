//! What a script reaches and tries to change, and what the next one finds: all as it was made.

use proto::{Output, OwnedArgs, Reply, Resp};

use super::{Bench, LIMITS, Shop, bytes_of, on_deep_stack};
use crate::{Fault, Input, Library};

const WALK: &str = include_str!("walk.lua");

/// Where the code of a user runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Script,
    Function,
}

const PLACES: [Place; 2] = [Place::Script, Place::Function];

/// What a function of `walk.lua` returns there.
fn run(bench: &mut Bench, place: Place, name: &str) -> String {
    let result = match place {
        Place::Script => {
            let script = format!("{WALK} return {name}()");
            bench.outcome(Resp::Two, script.as_bytes(), &[b"argument"])
        }
        Place::Function => {
            let source = format!(
                "#!lua name=by_{name}
                 redis.register_function('{name}', function() {WALK} return {name}() end)"
            );
            call(bench, &source, name)
        }
    };
    String::from_utf8(result.unwrap_or_else(|fault| panic!("{place:?} {name}: {fault:?}"))).unwrap()
}

fn call(bench: &mut Bench, source: &str, name: &str) -> Result<Vec<u8>, Fault> {
    let library = Library::parse(source.as_bytes()).map_err(Fault::Error)?;
    let words: OwnedArgs = [&b"key"[..]].into_iter().collect();
    let input = Input { keys: words.as_args(), arguments: words.as_args(), seed: None };
    let (mut output, shop) = (Output::new(), &mut Shop::default());
    let mut reply = Reply::new(&mut output, Resp::Two);
    bench.lua.run_function(&library, name.as_bytes(), input, shop, LIMITS, &mut reply)?;
    Ok(bytes_of(output))
}

#[test]
fn whatever_a_script_writes_the_next_finds_all_as_it_was_made() {
    on_deep_stack(|| {
        for victim in PLACES {
            let fresh = run(&mut Bench::new(), victim, "report");
            for word in ["_G.cjson.decode", "text", "_G.redis.call", "_G^"] {
                assert!(fresh.contains(word), "{word} is reached: {fresh}");
            }
            for attacker in PLACES {
                let mut bench = Bench::new();
                let count = run(&mut bench, attacker, "spoil");
                let count: usize = count.trim_matches([':', '\r', '\n']).parse().unwrap();
                assert!(count >= 13, "{attacker:?} reaches {count} tables");
                assert_eq!(run(&mut bench, victim, "report"), fresh, "{attacker:?} {victim:?}");
            }
        }
    });
}

/// The tables behind those that scripts see, by what names and hands out tables.
#[test]
fn no_function_hands_out_a_table_that_can_be_written() {
    let mut bench = Bench::new();
    for way in [
        "local _, t = pairs(_G) t.foo = 1",
        "local _, t = pairs(redis) t.call = 1",
        "local _, t = ipairs(_G) t.foo = 1",
        "for key in next, _G do _G[key] = 1 end",
        "table.foreach(_G, function(key) rawset(_G, key, 1) end)",
        "getmetatable(_G).__index = 1",
        "getmetatable('').__index.rep = 1",
        "setmetatable(getmetatable(_G), {})",
        "cjson.decode_array_with_array_mt(true) getmetatable(cjson.decode('[]')).x = 1",
        "_G.KEYS = 1",
        "rawset(_G, 'ARGV', 1)",
        "loadstring('_G.x = 1')()",
        "loadstring('x = 1')()",
        "load(coroutine.wrap(function() coroutine.yield('x = 1') end))()",
        "coroutine.wrap(function() x = 1 end)()",
        "string.gsub('x', 'x', function() x = 1 end)",
        "xpcall(error, function() rawset(string, 'x', 1) end) x = 1",
    ] {
        let text = match bench.outcome(Resp::Two, way.as_bytes(), &[]) {
            Err(Fault::Error(error)) => String::from_utf8(error.text).unwrap(),
            other => panic!("{way}: {other:?}"),
        };
        assert!(text.contains("Attempt to modify a readonly table"), "{way}: {text}");
    }
}

/// A library keeps what it likes, but nothing of the runs of others is in it.
#[test]
fn what_a_library_keeps_shows_no_other_run() {
    on_deep_stack(|| {
        let mut bench = Bench::new();
        let source = "#!lua name=lib
            local kept = {}
            redis.register_function('look', function(keys, args)
                kept[#kept + 1] = args
                kept.globals = kept.globals or _G
                return {rawget(kept.globals, 'KEYS') == nil, kept[1][1], #kept[#kept]}
            end)";
        let library = Library::parse(source.as_bytes()).unwrap();
        for word in [&b"one"[..], b"two"] {
            bench.outcome(Resp::Two, b"return {KEYS, ARGV}", &[b"secret"]).unwrap();
            let words: OwnedArgs = [word].into_iter().collect();
            let input = Input { keys: words.as_args(), arguments: words.as_args(), seed: None };
            let (mut output, shop) = (Output::new(), &mut Shop::default());
            let mut reply = Reply::new(&mut output, Resp::Two);
            bench.lua.run_function(&library, b"look", input, shop, LIMITS, &mut reply).unwrap();
            assert_eq!(bytes_of(output), b"*3\r\n:1\r\n$3\r\none\r\n:1\r\n");
        }
    });
}

/// What Lua's C code does by calling itself ends with an error, not with the process.
#[test]
fn recursion_is_bounded() {
    on_deep_stack(|| {
        let mut bench = Bench::new();
        for (script, expected) in [
            ("return string.find(('a'):rep(150000), ('a?'):rep(150000))", "pattern too complex"),
            ("return string.match(('a'):rep(150000), ('a-'):rep(150000))", "pattern too complex"),
            ("return string.gsub(('a'):rep(150000), ('a*'):rep(150000), '')", "too complex"),
            ("return string.gmatch(('a'):rep(150000), ('a?'):rep(150000))()", "too complex"),
            ("return string.find('a', ('()'):rep(150000))", "too many captures"),
            ("local function f() return coroutine.wrap(f)() end return f()", "C stack overflow"),
            (
                "local function f() local a, b = coroutine.resume(coroutine.create(f))
                return error(b) end return f()",
                "C stack overflow",
            ),
            ("local function f() return (string.gsub('a', 'a', f)) end return f()", "C stack"),
            (
                "local function f() local a, b = pcall(f) error(b, 0) end return f()",
                "stack overflow",
            ),
            ("local function f() return table.foreachi({1}, f) end return f()", "C stack"),
            ("local t = {3, 2, 1} local function f() table.sort(t, f) end f()", "C stack overflow"),
            (
                "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k)
                return t[k] end return t.x",
                "C stack overflow",
            ),
            (
                "local t = setmetatable({}, {}) getmetatable(t).__tostring = tostring
                return tostring(t)",
                "C stack overflow",
            ),
            ("return loadstring(('('):rep(100000))() ", "attempt to call a nil value"),
            ("assert(loadstring('return ' .. ('{'):rep(100000)))", "too many syntax levels"),
            ("assert(loadstring('return ' .. ('- '):rep(100000) .. '1'))", "too many"),
            ("assert(loadstring('return ' .. ('1^'):rep(100000) .. '1'))", "too many"),
            ("assert(loadstring(('do '):rep(100000)))", "too many syntax levels"),
            ("assert(loadstring(('a.'):rep(100000) .. 'b'))", "="),
            ("local function f() return f() + 1 end return f()", "stack overflow"),
            ("local function f() load(f) error('x') end return f()", "x"),
        ] {
            let text = match bench.outcome(Resp::Two, script.as_bytes(), &[]) {
                Err(Fault::Error(error)) => String::from_utf8_lossy(&error.text).into_owned(),
                other => panic!("{script}: {other:?}"),
            };
            assert!(text.contains(expected), "{script}: {text}");
        }
        let fine = b"return {string.find(('a'):rep(3000), ('a?'):rep(3000))}";
        assert_eq!(bench.reply(Resp::Two, fine), b"*2\r\n:1\r\n:3000\r\n");
    });
}

/// Strings that differ only where Lua does not look when it hashes them.
#[test]
fn data_cannot_make_strings_or_keys_collide() {
    let mut bench = Bench::new();
    // Each run has so many looks at the time, each after a thousand steps of Lua.
    bench.shop.patience = Some(1000);
    bench.shop.stop = Some(crate::Stop::Killed);
    let alike = "local places, texts = {2, 3, 5, 6, 8, 9}, {}
        for number = 1, 20000 do
            local bytes, left = {}, number
            for place = 1, 64 do bytes[place] = 'x' end
            for _, place in ipairs(places) do
                bytes[place] = string.char(97 + left % 8) left = math.floor(left / 8)
            end
            texts[number] = table.concat(bytes)
        end ";
    let made = format!("{alike} return #texts");
    bench.shop.patience = Some(40_000);
    assert_eq!(bench.reply(Resp::Two, made.as_bytes()), b":20000\r\n");
    // In a large table they lie in an order that is not the one in which they met a full place.
    let order = format!(
        "{alike} local set, count, last, falls = {{}}, 0, 0, 0
        for number = 1, 1000 do set[texts[number]] = number end
        for _, number in pairs(set) do
            count = count + 1
            if number == last - 1 then falls = falls + 1 end
            last = number
        end
        return {{count, falls < 100 and 1 or falls}}"
    );
    assert_eq!(bench.reply(Resp::Two, order.as_bytes()), b"*2\r\n:1000\r\n:1\r\n");
    // Numbers whose halves have the same sum.
    let numbers = b"local set, count, last, falls = {}, 0, 0, 0
        for number = 1, 1000 do
            local halves = struct.pack('>I4I4', 0x40000000 + number, 0x7fff - number)
            set[struct.unpack('>d', halves)] = number
        end
        for _, number in pairs(set) do
            count = count + 1
            if number == last - 1 then falls = falls + 1 end
            last = number
        end
        return {count, falls < 100 and 1 or falls}";
    assert_eq!(bench.reply(Resp::Two, numbers), b"*2\r\n:1000\r\n:1\r\n");
}

#[test]
fn small_tables_are_traversed_as_in_redis() {
    let mut bench = Bench::new();
    let script = b"local keys, all = {}, {}
        local words = 'the quick brown fox jumps over the lazy dog and runs away from it all'
        for word in words:gmatch('%a+') do
            keys[word] = #word
        end
        for key in pairs(keys) do all[#all + 1] = key end
        return table.concat(all, ' ')";
    let reply = bench.reply(Resp::Two, script);
    let text = String::from_utf8(reply).unwrap();
    assert_eq!(
        text.lines().nth(1),
        Some("lazy away fox the quick and jumps dog it from brown all runs over")
    );
}

/// Nothing a script does to what compiles stops the collector of later scripts.
#[test]
fn the_collector_goes_on_whatever_a_script_does() {
    let mut bench = Bench::new();
    for script in [
        "return tostring(load(function() return nil end, {}))",
        "return tostring(pcall(load, function() error('x') end))",
        "return tostring(pcall(load, function() return {} end))",
        "return tostring(pcall(loadstring, 'x', {}))",
        "return tostring(loadstring(('x'):rep(1000) .. '='))",
        "return collectgarbage('stop')",
        "return collectgarbage('setpause', 1000000)",
        "return loadstring('return ' .. ('x'):rep(100))",
    ] {
        bench.lua.forget_scripts();
        let before = bench.lua.memory();
        for _ in 0..2000 {
            let _ = bench.outcome(Resp::Two, script.as_bytes(), &[]);
            let garbage = b"local t = {} for i = 1, 50 do t[i] = {} end return 1";
            bench.outcome(Resp::Two, garbage, &[]).unwrap();
        }
        let after = bench.lua.memory();
        assert!(after < before * 2 + (1 << 20), "{script}: {before} {after}");
    }
}

/// One call of a C function that takes long is looked at while it runs, and ends when it must.
#[test]
fn long_functions_of_lua_are_stopped_within() {
    for script in [
        "return string.match(('a'):rep(400000), '(.-)*b')",
        "return string.find(('a'):rep(40000), ('a*'):rep(20) .. 'b')",
        "return string.find(('a'):rep(400000), '.-.-.-b')",
        "return string.gsub(('a'):rep(400000), '(.-)*b', '')",
        "return string.gmatch(('a'):rep(400000), '(.-)*b')()",
        "return string.find(('('):rep(400000), ('%b()'):rep(2))",
        "return string.find(('a'):rep(400000), '[' .. ('b'):rep(20000) .. ']')",
        "return ('x'):rep(2000000000)",
        "return ('xx'):rep(20000000)",
        "local t = {} for i = 1, 200000 do t[i] = 'a' end
            for i = 1, 200 do table.insert(t, 1, 'a') end return 1",
        "local t = {} for i = 1, 200000 do t[i] = 'a' end
            for i = 1, 200 do table.remove(t, 1) end return 1",
        "table.insert({}, -2000000000, 1)",
        "local t = {} for i = 1, 200000 do t[i] = i % 7 end table.sort(t) table.sort(t) return 1",
        "local t = {} for i = 1, 300000 do t[i] = 'a' end
            for i = 1, 10 do table.concat(t) end return 1",
        "local t = {} for i = 1, 200000 do t[i] = i end
            for i = 1, 20 do table.maxn(t) end return 1",
        "local t = {} for i = 1, 200000 do t['a' .. i] = i end
            for key in pairs(t) do t[key] = nil end for i = 1, 1000 do next(t) end return 1",
        "local s = ('x'):rep(100000) for i = 1, 5000 do local u = s .. i end return 1",
    ] {
        let mut bench = Bench::new();
        bench.shop.stop = Some(crate::Stop::Killed);
        // What comes before the long calls takes less than this.
        bench.shop.patience = Some(2200);
        let text = match bench.outcome(Resp::Two, script.as_bytes(), &[]) {
            Err(Fault::Error(error)) => String::from_utf8_lossy(&error.text).into_owned(),
            other => panic!("{script}: {other:?}"),
        };
        assert!(
            text.starts_with("ERR Script killed by user with SCRIPT KILL..."),
            "{script}: {text}"
        );
        assert!(text.contains(", on @user_script:"), "{script}: {text}");
    }
}
