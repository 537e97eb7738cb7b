//! The grammar of the programs, as templates.
//! Invariants: loops are bounded and few deep; a table never comes to hold itself or another that
//! has a name; a text with a name is short. So no program grows.

use base::random::Random;

use super::commands;
use crate::differential::Command;

/// What every program begins with.
pub(super) const VARIABLES: &str =
    "local n1, n2, s1, s2, t1, t2, v1, v2 = 1, 2.5, 'one', '2', {1, 'two', 3}, {a = 1}, nil, nil";

/// How deep expressions and statements nest.
const DEPTH: u32 = 4;

/// Of so many expressions one is of another type than is asked for.
const ODD_ONE_OF: u64 = 50;

/// In templates `$` and a letter stand for what is drawn: an expression for a `n`umber, a `s`tring,
/// a `b`oolean, a `t`able, `a`nything, an `e`lement of a table, a `D`ouble to reply, what is
/// `r`aised; the name of a variable for a `N`umber, a `S`tring, a `T`able, any `V`alue; a
/// `c`ommand, one whose reply is `u`nordered; a small `i`nteger, `d`igits of all kinds, a `l`iteral
/// string, di`G`its as text, a field `f`, text in `j`SON, a pattern `p`, a format `F`; `R`edis'
/// table; a statement `x`.
const NUMBER_LEAVES: &[&str] = &["$N", "$i", "$i", "$d", "#KEYS", "#ARGV", "tonumber(ARGV[1])"];
const NUMBERS: &[&str] = &[
    "($n + $n)",
    "($n - $n)",
    "$n * $n",
    "($n / $n)",
    "$n % $i",
    "$i ^ $i",
    "-($n)",
    "#$s",
    "#$T",
    "math.floor($n)",
    "math.max($n, $n)",
    "math.abs($n)",
    "math.fmod($n, $i)",
    "math.sqrt($i)",
    "select('#', $a, $a)",
    "tonumber($s)",
    "tonumber($l, 16)",
    "tonumber('0x1F') + 0x1F",
    "string.byte($s)",
    "string.len($s)",
    "string.find($s, $p)",
    "table.getn($T)",
    "table.maxn($T)",
    "bit.band($n, $i)",
    "bit.bor($n, $n)",
    "bit.bxor($n, $i)",
    "bit.lshift($i, $i)",
    "bit.rshift($n, $i)",
    "bit.arshift($n, $i)",
    "bit.bnot($n)",
    "bit.tobit($n)",
    "bit.bswap($n)",
    "bit.rol($n, $i)",
    "struct.size('>I2i4')",
    "redis.REPL_ALL",
    "redis.LOG_WARNING",
    "(redis.call('STRLEN', 'a') + $i)",
];
const STRING_LEAVES: &[&str] = &["$S", "$l", "$l", "KEYS[1]", "ARGV[1]", "ARGV[2]", "type($V)"];
const STRINGS: &[&str] = &[
    "($s .. $s)",
    "($n .. $s)",
    "$s .. $n",
    "tostring(not $V)",
    "tostring(tonumber($S))",
    "string.sub($s, $i, $i)",
    "string.upper($s)",
    "string.lower($s)",
    "string.reverse($s)",
    "string.rep($s, $i)",
    "string.char($i, $n)",
    "string.match($s, $p)",
    "(string.gsub($s, $p, $l))",
    "(string.gsub($s, $p, function(x) return x .. $n end))",
    "string.format($F, $n)",
    "string.format('%s|%q', $s, $s)",
    "table.concat($T, ',')",
    "cjson.encode($a)",
    "cjson.encode($t)",
    "cmsgpack.pack($a)",
    "cmsgpack.pack($a, $t)",
    "struct.pack('>I2i4', $n, $n)",
    "struct.pack('<hBs', $n, $i, $s)",
    "struct.pack('d', $n)",
    "bit.tohex($n)",
    "bit.tohex($n, $i)",
    "redis.sha1hex($s)",
    "(redis.call('GET', 'a') or $s)",
    "($s):len() .. ''",
    "type($a)",
    "_VERSION",
];
const BOOLEAN_LEAVES: &[&str] = &["true", "false", "$V == nil", "$N < $N", "ARGV[1] == '1'"];
const BOOLEANS: &[&str] = &[
    "not $a",
    "$n < $n",
    "$n <= $n",
    "$s < $s",
    "$a == $a",
    "$a ~= $a",
    "($b and $b)",
    "($b or $b)",
    "rawequal($a, $a)",
    "redis.acl_check_cmd('GET', 'a')",
    "redis.replicate_commands()",
    "redis.call('EXISTS', 'a') == 1",
    "next($T) == nil",
];
const TABLE_LEAVES: &[&str] = &["{}", "{$e}", "{$e, $e, $e}", "{$f = $e}", "KEYS", "ARGV"];
const TABLES: &[&str] = &[
    "{$e, {$e, $e}, $e}",
    "{$e, nil, $e}",
    "{$f = $e, $f = $e}",
    "{[$i] = $e, [$i] = $e}",
    "{ok = $s}",
    "{err = $s}",
    "{double = $D}",
    "{map = {$f = $e, $f = $e}}",
    "{set = {$f = true}}",
    "{big_number = $G}",
    "{verbatim_string = {format = $l, string = $s}}",
    "{map = {$f = $t}}",
    "cjson.decode($j)",
    "{cmsgpack.unpack(cmsgpack.pack($e, $t))}",
    "{cmsgpack.unpack($s)}",
    "{struct.unpack('>I2i4', $s)}",
    "{struct.unpack('<hBs', struct.pack('<hBs', $n, $i, $s))}",
    "{string.find($s, $p)}",
    "{string.byte($s, 1, -1)}",
    "{math.modf($n)}",
    "{math.frexp($n)}",
    "{unpack($T)}",
    "{pcall(error, $a)}",
    "{select($i, $e, $e, $e)}",
    "redis.error_reply($s)",
    "redis.status_reply($s)",
    "redis.pcall($c)",
    "redis.pcall($c)",
    "redis.pcall($c)",
    "{redis.pcall($c), redis.pcall($c)}",
];
const ANY_LEAVES: &[&str] = &["nil", "$N", "$S", "$T", "$V", "$V", "true", "false", "$i", "$l"];
const ANY: &[&str] =
    &["$n", "$s", "$b", "$t", "redis.call($c)", "redis.call($c)", "redis.pcall($c)", "print"];
const ODD: &[&str] = &["nil", "{}", "{$e}", "true", "$l", "$d", "cjson.null"];
const ELEMENT_LEAVES: &[&str] = &["$i", "$d", "$l", "true", "false", "$N", "$S"];
const ELEMENTS: &[&str] = &["$n", "$s", "$b", "{$e}", "{$f = $e}", "redis.pcall($c)"];
const STATEMENT_LEAVES: &[&str] = &["redis.call($c)", "redis.pcall($c)", "$V = redis.call($c)"];
const STATEMENTS: &[&str] = &[
    "$N = $n",
    "$S = string.sub($s, 1, 300)",
    "$T = $t",
    "$V = $t",
    "$V = $s",
    "$V = redis.pcall($c)",
    "$V = redis.call($c)",
    "$N = redis.call($c)",
    "$T[$i] = $e",
    "$T.$f = $e",
    "$N, $S = $n, type($b)",
    "table.insert($T, $e)",
    "table.remove($T)",
    "table.sort($T)",
    "if $b then $x else $x end",
    "for i = 1, 3 do $x end",
    "for i, x in ipairs($T) do $N = i $x if i > 3 then break end end",
    "for k, x in pairs($T) do $N = $N + 1 end",
    "for w in string.gmatch($s, $p) do $S = w end",
    "$V, $S = pcall(function() $x return $a end)",
    "$V = {pcall(function() $x error($a) end)}",
    "$V = {pcall(redis.call, $c)}",
    "$V = {xpcall(function() $x return $a end, function(e) return {e} end)}",
    "local f = function(...) $x return select('#', ...), ... end $N, $V = f($e, $e)",
    "local c = coroutine.wrap(function(x) $x coroutine.yield(x) return $a end) $V = c($e) $V = c()",
    "$V = loadstring('return ' .. $n)()",
    "redis.setresp($i)",
    "redis.setresp(3)",
    "redis.setresp(2)",
    "redis.set_repl(redis.REPL_ALL)",
    "redis.breakpoint()",
    "math.randomseed($i) $N = math.random(1, 1000)",
    "redis.setresp(2) local t = redis.call($u) table.sort(t) $V = t",
    "$V = $R.call($c)",
    "if $b then return $a end",
    "if $b then error($r) end",
    "assert($a, $r)",
    "$V = unknown",
    "unknown = $e",
    "redis.call = nil",
];
const RETURNS: &[&str] = &[
    "return $a",
    "return $a",
    "return $t",
    "return {$N, $S, $V}",
    "return {$T, $V, $b, $n}",
    "return {$V, $s}",
    "return redis.call($c)",
    "return redis.call($c)",
    "return cjson.encode({$N, $S, $V})",
    "return $n",
    "return $s",
    "return",
    "return error($r)",
];

/// What no crash of Redis 7.0 follows from: that reads the text of an error that is a table without
/// looking whether there is one.
const RAISED: &[&str] =
    &["$l", "$l .. $i", "$d", "{err = $l}", "{err = $l, a = $e}", "redis.error_reply($l)"];

const DIGITS: &[&str] = &[
    "0",
    "-1",
    "3.99",
    "-2.5",
    "1e3",
    "1e15",
    "1e100",
    "2^31",
    "2^53",
    "-2^63",
    "2^63",
    "1/0",
    "-1/0",
    "0/0",
    "0.1",
    "1/3",
    "255",
    "65536",
    "4294967295",
    "123456789012345",
];
const LITERALS: &[&str] = &[
    "''",
    "'a'",
    "'hello world'",
    "'10'",
    "'ff'",
    "'-5.5'",
    "'a\\nb'",
    "'a\\r\\nb'",
    "'x\\0\\255'",
    "'ERR a message'",
    "'-CODE a message'",
    "'txt'",
    "'%1'",
    "'x,y,z'",
    "'a text that is longer than forty-four bytes, so not embstr'",
];
const PATTERNS: &[&str] = &[
    "'l+'",
    "'^(%a)(%a)'",
    "'%d+'",
    "'.'",
    "'[^,]+'",
    "'%s*$'",
    "'(x)(.)'",
    "'%'",
    "'[a'",
    "'%f[%w]%w+'",
];
const FORMATS: &[&str] = &[
    "'%d'", "'%5.2f'", "'%x'", "'%s'", "'%g'", "'%c'", "'%q'", "'%10s|'", "'%e'", "'%i%%'", "'%y'",
];
const JSON: &[&str] = &[
    "'{\"a\":1,\"b\":[true,null,\"x\"]}'",
    "'[1,2.5,-3e2,\"\\\\u00e9\\\\ud83d\\\\ude00\"]'",
    "'[[[]],{}]'",
    "'{\"a\":{\"b\":{}}}'",
    "'[1,'",
    "'{\"a\" 1}'",
    "'nul'",
    "'[\"\\\\x\"]'",
    "'  [ ]  '",
    "'[1] x'",
    "$s",
    "cjson.encode($t)",
];
const FIELDS: &[&str] = &["a", "b", "x", "err", "ok"];

/// Draws programs.
pub(super) struct Grammar<'a> {
    random: &'a mut Random,
    keys: usize,
    arguments: usize,
    is_recent: bool,
}

impl<'a> Grammar<'a> {
    /// Of programs with so many keys and arguments, for servers newer than Redis 7.0 or not.
    pub(super) fn new(
        random: &'a mut Random,
        (keys, arguments): (usize, usize),
        is_recent: bool,
    ) -> Self {
        Self { random, keys, arguments, is_recent }
    }

    /// The statements of a program.
    pub(super) fn program(&mut self) -> Vec<String> {
        let count = self.below(5);
        let mut statements: Vec<String> = (0..count).map(|_| self.produce('x', DEPTH)).collect();
        let last = self.pick(RETURNS);
        statements.push(self.expand(last, DEPTH));
        statements
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn pick<'t>(&mut self, templates: &[&'t str]) -> &'t str {
        templates[self.below(templates.len())]
    }

    fn expand(&mut self, template: &str, depth: u32) -> String {
        let mut parts = template.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let kind = part.chars().next().expect("a letter follows each sign");
            text.push_str(&self.produce(kind, depth.saturating_sub(1)));
            text.push_str(&part[1..]);
        }
        text
    }

    fn produce(&mut self, kind: char, depth: u32) -> String {
        let (leaves, others): (&[&str], &[&str]) = match kind {
            'n' => (NUMBER_LEAVES, NUMBERS),
            's' => (STRING_LEAVES, STRINGS),
            'b' => (BOOLEAN_LEAVES, BOOLEANS),
            't' => (TABLE_LEAVES, TABLES),
            'a' => (ANY_LEAVES, ANY),
            'R' if self.is_recent => return "server".to_owned(),
            'D' => return self.produce(if self.is_recent { 'n' } else { 'i' }, depth),
            'r' if self.is_recent => (ANY_LEAVES, ANY),
            'r' => (RAISED, RAISED),
            'e' => (ELEMENT_LEAVES, ELEMENTS),
            'x' => (STATEMENT_LEAVES, STATEMENTS),
            'c' => {
                let command = commands::draw_called(self.random, self.is_recent);
                return self.arguments(&command);
            }
            'u' => {
                let command = commands::draw_unordered(self.random);
                return self.arguments(&command);
            }
            'j' => (JSON, JSON),
            // The sign may stand for itself there.
            _ => return self.pick(words(kind)).to_owned(),
        };
        let is_leaf = depth == 0 || self.below(3) == 0;
        let is_odd = "nsb".contains(kind) && self.random.below(ODD_ONE_OF) == 0;
        let template = match (is_odd, is_leaf) {
            (true, _) => self.pick(ODD),
            (_, true) => self.pick(leaves),
            _ => self.pick(others),
        };
        self.expand(template, depth)
    }

    /// The arguments of a call: as literals, numbers, or what the program was given.
    fn arguments(&mut self, command: &Command) -> String {
        let mut texts = Vec::new();
        for (index, word) in command.iter().enumerate() {
            texts.push(match self.below(12) {
                0 if index > 0 && self.keys > 0 => format!("KEYS[{}]", 1 + self.below(self.keys)),
                1 if index > 1 && self.arguments > 0 => {
                    format!("ARGV[{}]", 1 + self.below(self.arguments))
                }
                // Until Redis 7.2 fractions had 17 digits there.
                2 if index > 1 => self.produce(if self.is_recent { 'e' } else { 'l' }, 1),
                3..8 if is_small_integer(word) => String::from_utf8_lossy(word).into_owned(),
                _ => literal(word),
            });
        }
        texts.join(", ")
    }
}

fn words(kind: char) -> &'static [&'static str] {
    match kind {
        'N' => &["n1", "n2"],
        'S' => &["s1", "s2"],
        'T' => &["t1", "t2"],
        'V' => &["v1", "v2"],
        'i' => &["0", "1", "2", "3", "5", "-1"],
        'd' => DIGITS,
        'l' => LITERALS,
        'G' => &["'123456789012345678901234567890'", "'-5'"],
        'R' => &["redis"],
        'f' => FIELDS,
        'p' => PATTERNS,
        'F' => FORMATS,
        other => unreachable!("no template has ${other}"),
    }
}

fn is_small_integer(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    (1..4).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// Bytes as a string in Lua.
fn literal(bytes: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        // Three digits, so that a digit may follow.
        other => format!("\\{other:03}"),
    };
    let bytes: String = bytes.iter().map(byte).collect();
    format!("'{bytes}'")
}
