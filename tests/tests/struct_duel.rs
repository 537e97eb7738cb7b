//! The library `struct` of scripts beside that of Redis: random formats, values and data.

use base::random::Random;
use tests::render::render;
use tests::{Oracle, Server};

const CALLS: usize = 3000;

const ITEMS: &[&str] = &[
    "b",
    "B",
    "h",
    "H",
    "l",
    "L",
    "T",
    "i",
    "I",
    "f",
    "d",
    "x",
    "c",
    "s",
    "<",
    ">",
    "!",
    "!4",
    "!8",
    "!3",
    "c0",
    "i1",
    "i3",
    "I8",
    "i16",
    "i32",
    "i33",
    "c2",
    "c5",
    " ",
    "z",
    "%",
    "c99999999999",
];

const VALUES: &[&str] = &[
    "'abc'",
    "1",
    "-1",
    "255",
    "3.7",
    "-3.7",
    "1e300",
    "'12'",
    "''",
    "2^53",
    "nil",
    "true",
    "{}",
    "0/0",
    "1/0",
    "-1/0",
    "'a\\0b'",
    "70000",
    "4294967296",
    "-2^63",
    "2^63",
    "2^64",
];

const POSITIONS: &[&str] =
    &["", "", "", ",1", ",3", ",0", ",-1", ",100", ",'2'", ",1.9", ",nil", ",{}"];

const BYTES: &[u64] = &[0, 1, 2, 5, 97, 128, 255];

fn pick<'a, T: ?Sized>(random: &mut Random, all: &[&'a T]) -> &'a T {
    all[random.next_u64() as usize % all.len()]
}

fn some<T>(random: &mut Random, most: u64, mut make: impl FnMut(&mut Random) -> T) -> Vec<T> {
    let count = random.next_u64() % (most + 1);
    (0..count).map(|_| make(random)).collect()
}

fn script(random: &mut Random) -> String {
    let format = some(random, 6, |random| pick(random, ITEMS)).concat();
    match random.next_u64() % 10 {
        0..5 => {
            let values = some(random, 6, |random| format!(",{}", pick(random, VALUES))).concat();
            format!("return struct.pack('{format}'{values})")
        }
        5..9 => {
            let byte = |random: &mut Random| {
                let known = BYTES[random.next_u64() as usize % BYTES.len()];
                let byte = if random.below(3) == 0 { random.next_u64() % 256 } else { known };
                format!("\\{byte:03}")
            };
            let data = some(random, 40, byte).concat();
            let position = pick(random, POSITIONS);
            format!(
                "local t = {{struct.unpack('{format}', '{data}'{position})}} for i = 1, #t do \
                 t[i] = type(t[i]) == 'number' and string.format('%.17g', t[i]) or t[i] end \
                 return t"
            )
        }
        _ => format!("return struct.size('{format}')"),
    }
}

#[test]
fn struct_does_as_that_of_redis() {
    let servers = [Server::start(&[]), Oracle::redis82()];
    let [mut ours, mut theirs] = servers.each_ref().map(Server::client);
    let mut random = Random::from_seed(31);
    for _ in 0..CALLS {
        let script = script(&mut random);
        let [ours, theirs] =
            [&mut ours, &mut theirs].map(|client| render(&client.call(&["EVAL", &script, "0"])));
        assert_eq!(ours, theirs, "{script}");
    }
}
