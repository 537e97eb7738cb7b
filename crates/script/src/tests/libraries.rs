//! Libraries and their functions.

use proto::{Output, OwnedArgs, Reply, Resp};

use super::{Bench, Shop, bytes_of};
use crate::{Fault, Input, Library, Limits, Registration};

const LIMITS: Limits = Limits { memory: 32 << 20 };

/// What a library registers, or its error.
fn load(bench: &mut Bench, source: &str) -> Result<Vec<Registration>, String> {
    let library = Library::parse(source.as_bytes());
    let library = library.map_err(|error| String::from_utf8(error.text).unwrap())?;
    let result = bench.lua.load(&library, &mut Shop::default(), LIMITS);
    result.map_err(|fault| match fault {
        Fault::Error(error) => String::from_utf8(error.text).unwrap(),
        Fault::Stop(stop) => format!("{stop:?}"),
    })
}

fn call(bench: &mut Bench, library: &Library, name: &str) -> Result<String, String> {
    let words: OwnedArgs = [&b"k"[..], b"a"].into_iter().collect();
    let (keys, arguments) = (words.as_args().slice(0..1), words.as_args().skip(1));
    let input = Input { keys, arguments, seed: None };
    let mut output = Output::new();
    let mut reply = Reply::new(&mut output, Resp::Two);
    let (shop, name) = (&mut Shop::default(), name.as_bytes());
    match bench.lua.run_function(library, name, input, shop, LIMITS, &mut reply) {
        Ok(()) => Ok(String::from_utf8(bytes_of(output)).unwrap()),
        Err(Fault::Error(error)) => Err(String::from_utf8(error.text).unwrap()),
        Err(Fault::Stop(stop)) => Err(format!("{stop:?}")),
    }
}

#[test]
fn a_library_registers_functions() {
    let source = "#!lua name=lib
        redis.register_function('f1', function() end)
        redis.register_function{function_name='f2', callback=function() end,
            description='tells', flags={'no-writes', 'allow-stale'}}";
    let registered = load(&mut Bench::new(), source).unwrap();
    let [first, second] = &registered[..] else { panic!("{registered:?}") };
    assert_eq!((&*first.name, &first.description), (&b"f1"[..], &None));
    assert_eq!(second.description.as_deref(), Some(&b"tells"[..]));
    assert!(second.flags.names().eq(["no-writes", "allow-stale"]));
}

/// A library of another server may have more functions than Lua's stack has places.
#[test]
fn a_library_has_as_many_functions_as_it_likes() {
    let mut bench = Bench::new();
    let all = "for number = 1, 30000 do redis.register_function('f' .. number, function() \
        return number end) end";
    let twice = load(&mut bench, &format!("#!lua name=lib\n{all} {all}"));
    assert!(twice.unwrap_err().contains("Function already exists in the library"));
    let source = format!("#!lua name=lib\n{all}");
    assert_eq!(load(&mut bench, &source).unwrap().len(), 30000);
    let library = Library::parse(source.as_bytes()).unwrap();
    assert_eq!(call(&mut bench, &library, "f29999").unwrap(), ":29999\r\n");
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let mut bench = Bench::new();
    let registering = "ERR Error registering functions: ERR ";
    for (source, expected) in [
        ("return 1", "ERR Missing library metadata".to_owned()),
        ("#!lua", "ERR Invalid library metadata".to_owned()),
        ("#!lua\nx", "ERR Library name was not given".to_owned()),
        ("#!lua name=a b=c\nx", "ERR Invalid metadata value given: b=c".to_owned()),
        ("#!js name=a\nx", "ERR Engine 'js' not found".to_owned()),
        ("#!lua name=a\nreturn 1", "ERR No functions registered".to_owned()),
        ("#!lua name=a\nx x", {
            "ERR Error compiling function: user_function:2: '=' expected near 'x'".to_owned()
        }),
        ("#!lua name=a\nfoo = 1", {
            format!("{registering}user_function:2: Attempt to modify a readonly table")
        }),
        ("#!lua name=a\nreturn redis.call('ping')", {
            let problem = "Script attempted to access nonexistent global variable 'call'";
            format!("{registering}user_function:2: {problem}")
        }),
        ("#!lua name=a\nredis.register_function('f')", {
            let problem = "calling redis.register_function with a single argument is only \
                           applicable to Lua table (representing named arguments).";
            format!("{registering}{problem}")
        }),
        ("#!lua name=a\nredis.register_function('f', 1)", {
            let problem = "second argument to redis.register_function must be a function";
            format!("{registering}{problem}")
        }),
        (
            "#!lua name=a\nlocal f = function() end
            redis.register_function('f', f) redis.register_function('f', f)",
            format!("{registering}Function already exists in the library"),
        ),
        (
            "#!lua name=a\nredis.register_function{function_name='f', callback=function() end,
            flags={'x'}}",
            format!("{registering}unknown flag given"),
        ),
        (
            "#!lua name=a\nredis.register_function{function_name='f', callback=function() end,
            other=1}",
            format!("{registering}unknown argument given to redis.register_function"),
        ),
    ] {
        assert_eq!(load(&mut bench, source), Err(expected), "{source}");
    }
}

#[test]
fn functions_are_called_with_keys_and_arguments() {
    let mut bench = Bench::new();
    let source = b"#!lua name=lib
local loaded, count = redis, 0
redis.register_function('both', function(keys, args) return {keys, args} end)
redis.register_function('count', function() count = count + 1 return count end)
redis.register_function('keys', function() return KEYS end)
redis.register_function('fails', function() return redis.call('incr', 'x') end)
redis.register_function('held', function() return loaded.call('ping') end)
redis.register_function('again', function() redis.register_function('z', 1) end)";
    let library = Library::parse(source).unwrap();
    for (name, expected) in [
        ("both", Ok("*2\r\n*1\r\n$1\r\nk\r\n*1\r\n$1\r\na\r\n")),
        ("count", Ok(":1\r\n")),
        ("count", Ok(":2\r\n")),
        ("keys", {
            Err("ERR user_function:5: Script attempted to access nonexistent global variable \
                 'KEYS' script: keys, on @user_function:5.")
        }),
        ("fails", {
            Err("ERR value is not an integer or out of range script: fails, on @user_function:6.")
        }),
        ("held", {
            Err("ERR user_function:7: Script attempted to access nonexistent global variable \
                 'call' script: held, on @user_function:7.")
        }),
        ("missing", Err("ERR Function not found")),
    ] {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(call(&mut bench, &library, name), expected, "{name}");
    }
    assert!(call(&mut bench, &library, "again").unwrap_err().contains("attempt to call field"));
    let newer = Library::parse(source).unwrap();
    assert_eq!(call(&mut bench, &newer, "count").unwrap(), ":1\r\n", "loaded anew");
    bench.lua.forget_scripts();
    assert_eq!(call(&mut bench, &newer, "count").unwrap(), ":2\r\n", "its variables are its own");
    bench.lua.keep_libraries(|_| true);
    assert_eq!(call(&mut bench, &newer, "count").unwrap(), ":3\r\n", "kept");
    assert!(bench.lua.memory_of_libraries() > 0);
    bench.lua.keep_libraries(|name| name != newer.name());
    assert_eq!(bench.lua.memory_of_libraries(), 0);
    assert_eq!(call(&mut bench, &newer, "count").unwrap(), ":1\r\n", "forgotten");
}
