//! Scripts that mean harm: each row is a way in which a server of this family was once broken.

use proto::Resp;

use super::{Bench, on_deep_stack};
use crate::{Fault, LogLevel, Stop};

/// The error of a script that fails.
fn error_of(bench: &mut Bench, script: &str) -> String {
    match bench.outcome(Resp::Two, script.as_bytes(), &[]) {
        Err(Fault::Error(error)) => String::from_utf8_lossy(&error.text).into_owned(),
        other => panic!("{script}: {other:?}"),
    }
}

#[test]
fn no_script_outlives_its_end() {
    on_deep_stack(|| {
        for script in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do pcall(redis.call, 'ping') end",
            "while true do xpcall(function() while true do end end, function() return 1 end) end",
            "xpcall(function() while true do end end, function() while true do end end)
                while true do end",
            "local function f() while true do end end
                while true do coroutine.resume(coroutine.create(f)) end",
            "while true do pcall(coroutine.wrap(function() while true do end end)) end",
            "while true do load(function() while true do end end) end",
            "while true do loadstring('while true do end')() end",
            "local function f() return f() end f()",
            "local t = setmetatable({}, {__index = function(t, k) while true do end end})
                while true do pcall(function() return t.x end) end",
            "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
            "while true do pcall(string.gsub, 'aaa', 'a', function() while true do end end) end",
            "while true do pcall(error, setmetatable({}, {__tostring = error})) end",
        ] {
            for stop in [Stop::Widen, Stop::Heavy, Stop::Killed] {
                let mut bench = Bench::new();
                bench.shop.patience = Some(10);
                bench.shop.stop = Some(stop);
                let outcome = bench.outcome(Resp::Two, script.as_bytes(), &[]);
                match (stop, outcome) {
                    (Stop::Killed, Err(Fault::Error(error))) => {
                        let text = String::from_utf8(error.text).unwrap();
                        let killed = "ERR Script killed by user with SCRIPT KILL... script: ";
                        assert!(text.starts_with(killed), "{text}");
                    }
                    (_, outcome) => assert_eq!(outcome, Err(Fault::Stop(stop)), "{script}"),
                }
            }
        }
    });
}

#[test]
fn a_command_that_stops_the_run_ends_it() {
    for script in [
        "redis.call('stop')",
        "redis.pcall('stop') return 1",
        "pcall(redis.call, 'stop') return 1",
        "pcall(function() redis.call('stop') end) redis.call('set', 'a', 'b') return 1",
        "coroutine.wrap(function() redis.call('stop') end)()",
        "coroutine.resume(coroutine.create(function() redis.call('stop') end)) return 1",
        "xpcall(function() redis.call('stop') end, function() redis.call('set', 'a', 'b') end)",
        "pcall(string.gsub, 'a', 'a', function() redis.call('stop') end) return 1",
        "load(function() redis.call('stop') end) return 1",
    ] {
        for stop in [Stop::Widen, Stop::Heavy, Stop::Killed] {
            let mut bench = Bench::new();
            bench.shop.stop = Some(stop);
            match (stop, bench.outcome(Resp::Two, script.as_bytes(), &[])) {
                (Stop::Killed, Err(Fault::Error(error))) => {
                    let text = String::from_utf8(error.text).unwrap();
                    let killed = "ERR Script killed by user with SCRIPT KILL... script: ";
                    assert!(text.starts_with(killed), "{script}: {text}");
                }
                (_, outcome) => assert_eq!(outcome, Err(Fault::Stop(stop)), "{script}"),
            }
            assert!(bench.shop.strings.is_empty(), "nothing ran after it: {script}");
            assert_eq!(bench.reply(Resp::Two, b"return 7"), b":7\r\n", "the next one runs");
        }
    }
}

/// H64: a few tables that stand in each other again and again are a result without end, of which
/// no byte takes memory of Lua's.
#[test]
fn a_result_of_the_same_tables_again_and_again_has_an_end() {
    let mut bench = Bench::new();
    for script in [
        "local t = {} for i = 1, 100 do t = {t, t} end return t",
        "local t = {ok = 'x'} for i = 1, 100 do t = {t, t} end return t",
        "local t = {} for i = 1, 100 do t = {map = {[1] = t, [2] = t}} end return t",
        "local t = {} for i = 1, 4000 do t[i] = {} end local u = {}
            for i = 1, 4000 do u[i] = t end local v = {}
            for i = 1, 4000 do v[i] = u end return v",
    ] {
        let text = error_of(&mut bench, script);
        assert!(text.contains("not enough memory"), "{script}: {text}");
    }
    // Such a table may stand in many places.
    let script = b"local t = {} for i = 1, 12 do t = {t, t} end return t";
    assert!(bench.reply(Resp::Two, script).ends_with(b"*0\r\n"));
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new();
    let before = bench.lua.memory();
    for script in [
        "return string.rep('x', 100 * 1024 * 1024)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return t",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end
            return cjson.encode(t)",
        "return cjson.encode(('\\1'):rep(8000000))",
        "return cjson.encode({[('\\1'):rep(8000000)] = 1})",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end
            return cmsgpack.pack(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end
            return redis.call('count', unpack(t))",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end
            return struct.pack(('s'):rep(1000), unpack(t))",
        "local t = cjson.decode('[' .. ('[],'):rep(1000000) .. '1]') return #t",
    ] {
        // Garbage that the script before left would be room for this one.
        bench.lua.forget_scripts();
        let text = error_of(&mut bench, script);
        assert!(text.contains("not enough memory"), "{script}: {text}");
    }
    // Lua's buffer for concatenations halves with each collection.
    (0..8).for_each(|_| bench.lua.forget_scripts());
    let after = bench.lua.memory();
    assert!(after < before + (1 << 20), "all of it came back: {before} {after}");
}

/// H61, H64, H65, H66, H67, H70: lengths, counts and depths that do not fit.
#[test]
fn sizes_that_do_not_fit_are_errors() {
    on_deep_stack(|| {
        let mut bench = Bench::new();
        for (script, expected) in [
            ("return unpack({}, -2^31, 2^31 - 1)", "too many results to unpack"),
            ("return unpack({}, -2^31, -1)", "too many results to unpack"),
            ("return unpack({}, 0, 2^31 - 1)", "too many results to unpack"),
            ("return unpack({}, 1, 7998)", "too many results to unpack"),
            ("local t = {} t[1] = t return cjson.encode(t)", "excessive nesting (1001)"),
            ("cjson.encode_max_depth(100000) local t = {} t[1] = t return cjson.encode(t)", {
                "excessive nesting (1001)"
            }),
            ("cjson.decode_max_depth(100000) return cjson.decode(('['):rep(100000))", {
                "too many nested data structures (1001)"
            }),
            ("return cmsgpack.unpack(('\\145'):rep(100000))", "nested too deep"),
            ("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes"),
            ("return cmsgpack.unpack(('\\1'):rep(10000))", "too many results"),
            ("return struct.unpack(('b'):rep(10000), ('b'):rep(10000))", "too many results"),
            ("return struct.pack('i2147483648', 1)", "integral size overflow"),
            ("return struct.unpack('i4', 'abcd', -2147483648)", "data string too short"),
            ("return struct.unpack('i4', 'abcd', 2^62)", "data string too short"),
            ("return struct.unpack('lc0', ('\\255'):rep(8) .. 'a')", "data string too short"),
            ("return redis.call({})", "arguments must be strings or integers"),
            ("return redis.call(('x'):rep(10), {})", "arguments must be strings or integers"),
            ("return ('x'):rep(40000000)", "not enough memory"),
        ] {
            let text = error_of(&mut bench, script);
            assert!(text.contains(expected), "{script}: {text}");
        }
        assert_eq!(bench.reply(Resp::Two, b"return bit.tohex(255, -2^31)"), b"$8\r\n000000FF\r\n");
        let many = b"local t = {} for i = 1, 7999 do t[i] = 'a' .. i end
            return redis.call('count', unpack(t))";
        assert_eq!(bench.reply(Resp::Two, many), b":8000\r\n");
        // Lua counts to 2^32 and begins again.
        for wide in ["0, 2^31", "-2^31, 2^31", "1, 2^53", "0/0, 1", "2^31 - 2, 2^31 - 1"] {
            let script = format!("return {{unpack({{}}, {wide})}}");
            assert_eq!(bench.reply(Resp::Two, script.as_bytes()), b"*0\r\n", "{wide}");
        }
        let deep = bench.reply(Resp::Two, b"local t = {} t[1] = t return t");
        assert!(deep.ends_with(b"-ERR reached lua stack limit\r\n"));
    });
}

/// H60, H68: code made at run time.
#[test]
fn no_compiled_code_is_loaded() {
    let mut bench = Bench::new();
    let script = b"local code = string.dump(function() return 1 end)
        local chunk, problem = loadstring(code)
        return {tostring(chunk), type(problem), tostring((load(function() return nil end)))}";
    let reply = String::from_utf8(bench.reply(Resp::Two, script)).unwrap();
    assert!(reply.starts_with("*3\r\n$3\r\nnil\r\n$6\r\nstring\r\n$24\r\nfunction"), "{reply}");
    assert!(error_of(&mut bench, "\u{1b}Lua").contains("Error compiling script"));
    for script in [
        "local parts = {} for i = 1, 20000 do parts[i] = '{x' .. i .. ' = ' .. i .. '}' end
            return type(#loadstring('return {' .. table.concat(parts, ',') .. '}')() .. '')",
        "for i = 1, 2000 do loadstring('return ' .. i .. ', \"' .. ('x'):rep(i) .. '\"')() end
            return 'string'",
        "return type(loadstring(('x = '):rep(10000)) or '')",
        // The name of a chunk is garbage but for the reader, which collects it between two pieces.
        "for i = 1, 200 do
                local pieces, at = {'local ', 'a', ' = ', '1 ', '+ ', '2 ', '+ +'}, 0
                local function piece()
                    at = at + 1
                    collectgarbage()
                    for n = 1, 50 do local _ = ('n'):rep(i + n) end
                    return pieces[at]
                end
                local name = '=chunk' .. i .. ('x'):rep(i % 30)
                local chunk, problem = load(piece, '=chunk' .. i .. ('x'):rep(i % 30))
                if chunk or problem:sub(1, #name) ~= name:sub(2) .. ':' then return problem end
            end
            return 'string'",
    ] {
        assert_eq!(bench.reply(Resp::Two, script.as_bytes()), b"$6\r\nstring\r\n", "{script}");
    }
    for name in ["package", "io", "require", "dofile", "loadfile", "debug", "newproxy", "getfenv"] {
        let text = error_of(&mut bench, &format!("return {name}"));
        assert!(text.contains("nonexistent global variable"), "{text}");
    }
    assert_eq!(bench.reply(Resp::Two, b"return type(os.execute)"), b"$3\r\nnil\r\n");
}

/// H62: what one script does, the next must not meet.
#[test]
fn nothing_of_a_script_is_left_to_the_next() {
    let mut bench = Bench::new();
    for script in [
        "x = 1",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "redis.x = 1",
        "rawset(redis, 'x', 1)",
        "table.insert(redis, 'x')",
        "string.x = 1",
        "string.rep = nil",
        "rawset(string, 'rep', 1)",
        "getmetatable('').__index = function() return 'x' end",
        "rawset(getmetatable(''), '__index', 1)",
        "getmetatable('').__index.rep = 1",
        "setmetatable(_G, {})",
        "setmetatable(string, {__index = 1})",
        "KEYS = nil",
        "cjson.encode = 1",
        "math.random = 1",
        "coroutine.resume = 1",
        "loadstring('x = 1')()",
        "_G._G.x = 1",
    ] {
        let text = error_of(&mut bench, script);
        assert!(text.contains("readonly table"), "{script}: {text}");
    }
    let fine = b"cjson.encode_max_depth(1) cjson.decode_invalid_numbers(false)
        collectgarbage('stop') math.randomseed(1) redis.setresp(3) return 1";
    assert_eq!(bench.reply(Resp::Two, fine), b":1\r\n");
    let after = b"return {cjson.encode({{1}}), cjson.decode('0x10'), ('x'):rep(2), false}";
    let expected = b"*4\r\n$5\r\n[[1]]\r\n:16\r\n$2\r\nxx\r\n$-1\r\n";
    assert_eq!(bench.reply(Resp::Two, after), expected);
}

#[test]
fn a_panic_of_the_host_goes_on_once_lua_is_left() {
    let mut bench = Bench::new();
    let script = b"pcall(redis.call, 'panic') redis.call('set', 'after', 'it')";
    let run = std::panic::AssertUnwindSafe(|| bench.outcome(Resp::Two, script, &[]));
    let panic = std::panic::catch_unwind(run).expect_err("it goes on");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"as a test wants it"));
    assert!(bench.shop.strings.is_empty(), "nothing more was called");
}

#[test]
fn arguments_are_as_they_were_sent_whatever_the_last_script_did_to_them() {
    let mut bench = Bench::new();
    let look = b"local told = {#ARGV, tostring(getmetatable(ARGV)), #KEYS}
        for key, value in pairs(ARGV) do told[#told + 1] = tostring(key) .. value end
        return table.concat(told, ' ')";
    for script in [
        "return ARGV[1]",
        "ARGV[1] = 'other'",
        "ARGV[1] = nil",
        "ARGV[2] = nil ARGV[3] = 'x'",
        "ARGV[0] = 'x'",
        "ARGV[1.5] = 'x'",
        "ARGV.x = 'x'",
        "table.insert(ARGV, 'x')",
        "table.remove(ARGV)",
        "setmetatable(ARGV, {__index = function() return 'x' end})",
        "KEYS[1] = 'x'",
        "ARGV.x = 'x' error('x')",
        "for number = 1, 5000 do ARGV[number] = 'x' end",
        "return 1",
        "for number = 1, 5000 do local twice = 2 * number end",
    ] {
        for count in [0, 1, 2, 2, 6, 6, 2] {
            let arguments = &[&b"a"[..], b"b", b"c", b"d", b"e", b"f"][..count];
            let _ = bench.outcome(Resp::Two, script.as_bytes(), arguments);
            let _ = bench.outcome(Resp::Two, b"return 'sees none'", &[b"other", b"than", b"these"]);
            let told = bench.outcome(Resp::Two, look, arguments).unwrap();
            let all: String = ["1a", "2b", "3c", "4d", "5e", "6f"][..count]
                .iter()
                .flat_map(|word| [" ", word])
                .collect();
            let expected = format!("{count} nil 0{all}");
            let expected = format!("${}\r\n{expected}\r\n", expected.len());
            assert_eq!(String::from_utf8(told).unwrap(), expected, "{script} {count}");
        }
    }
}

#[test]
fn arguments_are_found_by_any_name() {
    let mut bench = Bench::new();
    for script in [
        "return ARGV[1]",
        "return _G['AR' .. 'GV'][1]",
        "return loadstring('return AR' .. 'GV[1]')()",
        "local parts = {'return AR', 'GV[1]'}
            return load(function() return table.remove(parts, 1) end)()",
        "for name, value in pairs(_G) do
                if name == 'A' .. 'RGV' then return value[1] end
            end",
    ] {
        for word in [&b"one"[..], b"two"] {
            let expected = [b"$3\r\n", word, b"\r\n"].concat();
            let told = bench.outcome(Resp::Two, script.as_bytes(), &[word]);
            assert_eq!(told, Ok(expected), "{script}");
        }
    }
}

#[test]
fn large_arguments_are_not_kept_for_scripts_that_cannot_see_them() {
    let mut bench = Bench::new();
    let large = vec![b'x'; 1 << 20];
    bench.outcome(Resp::Two, b"return #ARGV[1]", &[&large]).unwrap();
    let before = bench.lua.memory();
    for _ in 0..1000 {
        // So much garbage of its own that the collector comes by many times.
        bench.outcome(Resp::Two, b"for _ = 1, 500 do local garbage = {} end", &[]).unwrap();
    }
    assert!(bench.lua.memory() < before - (large.len() >> 1), "{before}");
}

/// What ends a script while it reads an answer leaves nothing of that answer to what comes next, in
/// the same script or in another user's.
#[test]
fn an_answer_that_is_not_read_to_its_end_is_nobody_else_s() {
    const GET: &str = "return redis.call('get', 'small')";
    let mut bench = Bench::new();
    bench.shop.strings.insert(b"small".to_vec(), b"right".to_vec());
    bench.shop.strings.insert(b"large".to_vec(), vec![b'x'; 40 << 20]);
    bench.shop.strings.insert(b"middling".to_vec(), vec![b'x'; 1 << 20]);
    for script in [
        "redis.call('pieces', 'large')",
        "redis.pcall('pieces', 'large')",
        "redis.call('torn', 'middling')",
        "return {pcall(redis.call, 'torn', 'middling')}",
        "coroutine.wrap(function() redis.call('pieces', 'large') end)()",
    ] {
        for _ in 0..2 {
            let _ = bench.outcome(Resp::Two, script.as_bytes(), &[]);
            assert_eq!(bench.reply(Resp::Two, GET.as_bytes()), b"$5\r\nright\r\n", "{script}");
        }
        let both = format!("pcall(function() {script} end) {GET}");
        let reply = bench.reply(Resp::Two, both.as_bytes());
        let is_over = reply.starts_with(b"-ERR not enough memory");
        assert!(is_over || reply == b"$5\r\nright\r\n", "{script}: {}", reply.escape_ascii());
    }
}

/// H63: errors that are tables of every kind.
#[test]
fn any_value_may_be_an_error() {
    let mut bench = Bench::new();
    for (script, expected) in [
        ("error({})", "ERR unknown error script: "),
        ("error(setmetatable({}, {__index = function() error('no') end}))", "ERR unknown error"),
        ("error(setmetatable({}, {__tostring = function() error('no') end}))", "ERR unknown"),
        ("error({err = {}})", "ERR unknown error"),
        ("error(nil)", "ERR nil script: "),
        ("error(cjson.null)", "ERR userdata: (nil) script: "),
        ("error(redis)", "ERR unknown error"),
        ("error(coroutine.create(function() end))", "ERR thread: 0x"),
    ] {
        let text = error_of(&mut bench, script);
        assert!(text.starts_with(expected), "{script}: {text}");
    }
}

#[test]
fn the_log_and_replication_reach_the_host() {
    let mut bench = Bench::new();
    let script = b"redis.log(redis.LOG_NOTICE, 'a', 1, {}, 'b') redis.set_repl(redis.REPL_AOF)";
    assert_eq!(bench.reply(Resp::Two, script), b"$-1\r\n");
    let lines = [
        format!("{:?} a 1 b", LogLevel::Notice),
        "Replication { journal: true, replicas: false }".to_owned(),
    ];
    assert_eq!(bench.shop.lines, lines);
}
