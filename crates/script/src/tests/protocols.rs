//! Values on their way between RESP and Lua, in both protocols.

use proto::Resp;

use super::Bench;

#[test]
fn what_a_script_returns() {
    let mut bench = Bench::new();
    for (script, two, three) in [
        ("return true", ":1\r\n", ":1\r\n"),
        ("return false", "$-1\r\n", "_\r\n"),
        ("return nil", "$-1\r\n", "_\r\n"),
        ("redis.setresp(3) return {true, false}", "*2\r\n:1\r\n:0\r\n", "*2\r\n#t\r\n#f\r\n"),
        ("return {double=3.5}", "$3\r\n3.5\r\n", ",3.5\r\n"),
        ("return {map={a=1}}", "*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n$1\r\na\r\n:1\r\n"),
        ("return {set={a=true}}", "*1\r\n$1\r\na\r\n", "~1\r\n$1\r\na\r\n"),
        ("return {big_number='12\\n3'}", "$4\r\n12 3\r\n", "(12 3\r\n"),
        (
            "return {verbatim_string={string='abc', format='txtmore'}}",
            "$3\r\nabc\r\n",
            "=7\r\ntxt:abc\r\n",
        ),
        ("return {1, {ok='fine'}, {err='E x'}}", "*3\r\n:1\r\n+fine\r\n-E x\r\n", ""),
        ("return {1, nil, 3}", "*1\r\n:1\r\n", ""),
        ("return -1.9", ":-1\r\n", ""),
        // Texts that Redis keeps as C strings end at a NUL; a format may be anything.
        ("return {ok='fi\\0ne'}", "+fi\r\n", ""),
        ("return redis.error_reply('E x\\0y')", "-E x\r\n", ""),
        (
            "return {verbatim_string={string='abc', format='a\\n'}}",
            "$3\r\nabc\r\n",
            "=7\r\na\n :abc\r\n",
        ),
    ] {
        let three = if three.is_empty() { two } else { three };
        for (resp, expected) in [(Resp::Two, two), (Resp::Three, three)] {
            let reply = bench.reply(resp, script.as_bytes());
            assert_eq!(String::from_utf8(reply).unwrap(), expected, "{script} {resp:?}");
        }
    }
}

#[test]
fn what_a_script_raises() {
    let mut bench = Bench::new();
    for (script, expected) in [
        ("error('a\\255\\0b')", &b"-ERR user_script:1: a\xff script: "[..]),
        ("error({err=12})", b"-12 script: "),
        ("error({err={}})", b"-ERR unknown error script: "),
        // Out of a coroutine a text comes with the place of the call, too.
        (
            "local c = coroutine.wrap(function() return cjson.encode(1/0) end)\nc()",
            b"-ERR user_script:2: user_script:1: Cannot serialise number",
        ),
        ("local c = coroutine.wrap(function() error({err='E x'}) end)\nc()", b"-E x script: "),
        (
            "local c = coroutine.wrap(function() end)\nc()\nc()",
            b"-ERR user_script:3: cannot resume dead coroutine script: ",
        ),
        (
            "local c = coroutine.wrap(1)",
            b"-ERR user_script:1: bad argument #1 to 'wrap' (Lua function expected) script: ",
        ),
    ] {
        let reply = bench.reply(Resp::Two, script.as_bytes());
        assert!(reply.starts_with(expected), "{script}: {}", reply.escape_ascii());
    }
    let script = b"local c = coroutine.wrap(function(...) return ..., coroutine.yield(2) end)
        return {c(1), c('end')}";
    assert_eq!(bench.reply(Resp::Two, script), b"*3\r\n:2\r\n:1\r\n$3\r\nend\r\n");
}

#[test]
fn what_a_command_answers() {
    let mut bench = Bench::new();
    for (reply, expected) in [
        ("$3\\r\\nabc\\r\\n", "string abc"),
        ("$-1\\r\\n", "boolean false"),
        ("*-1\\r\\n", "boolean false"),
        ("_\\r\\n", "nil nil"),
        (":42\\r\\n", "number 42"),
        ("#t\\r\\n", "boolean true"),
        (",1.5\\r\\n", r#"table {"double":1.5}"#),
        (",inf\\r\\n", r#"table {"double":inf}"#),
        ("(123456789012345678901\\r\\n", r#"table {"big_number":"123456789012345678901"}"#),
        ("+fine\\r\\n", r#"table {"ok":"fine"}"#),
        ("*3\\r\\n:1\\r\\n$-1\\r\\n-E x\\r\\n", r#"table [1,false,{"err":"E x"}]"#),
        ("*0\\r\\n", "table {}"),
        ("%1\\r\\n+a\\r\\n:1\\r\\n", r#"table {"map":"?"}"#),
        ("%1\\r\\n$1\\r\\na\\r\\n:1\\r\\n", r#"table {"map":{"a":1}}"#),
        ("~1\\r\\n$1\\r\\na\\r\\n", r#"table {"set":{"a":true}}"#),
        ("|1\\r\\n$1\\r\\na\\r\\n:1\\r\\n:7\\r\\n", "number 7"),
    ] {
        let script = format!(
            "cjson.encode_invalid_numbers(true)
            local value = redis.call('reply', '{reply}')
            local fine, text = pcall(cjson.encode, value)
            if not fine then text = '{{\"map\":\"?\"}}' end
            return type(value) .. ' ' .. (type(value) == 'table' and text or tostring(value))"
        );
        let reply = bench.outcome(Resp::Two, script.as_bytes(), &[]).unwrap();
        let expected = format!("${}\r\n{expected}\r\n", expected.len());
        assert_eq!(String::from_utf8(reply).unwrap(), expected);
    }
    let script = b"local value = redis.call('reply', '=7\\r\\ntxt:abc\\r\\n').verbatim_string
        return value.format .. value.string";
    assert_eq!(bench.reply(Resp::Two, script), b"$6\r\ntxtabc\r\n");
    let script = b"return redis.call('reply', 'x')";
    assert!(bench.outcome(Resp::Two, script, &[]).is_err(), "a malformed reply is an error");
}

#[test]
fn random_numbers_go_on_and_can_be_drawn_again() {
    let mut bench = Bench::new();
    let script = b"return math.random(1000000)";
    let first = bench.lua.seed();
    assert_eq!(bench.reply(Resp::Two, script), b":396465\r\n", "as on a new Redis");
    assert_eq!(bench.reply(Resp::Two, script), b":840486\r\n");
    bench.seed = Some(first);
    assert_eq!(bench.reply(Resp::Two, script), b":396465\r\n");
}
