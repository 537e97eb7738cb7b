//! The rows of the hostile corpus: inputs that have broken a server of this family, and where that
//! is known from.
//!
//! Invariant: a row whose subject is not there says why; all others have a test, and `tidy` looks.

/// An input, or a few of one kind.
pub(crate) struct Row {
    /// What tests carry: `H` and this, in two digits at least.
    pub(crate) number: u16,
    pub(crate) input: &'static str,
    /// Where the input was found, as others call it.
    pub(crate) origin: &'static str,
    /// Why no test is there yet, or need ever be.
    pub(crate) waits: Option<&'static str>,
}

const fn row(number: u16, input: &'static str, origin: &'static str) -> Row {
    Row { number, input, origin, waits: None }
}

const fn waiting(
    number: u16,
    input: &'static str,
    origin: &'static str,
    reason: &'static str,
) -> Row {
    Row { number, input, origin, waits: Some(reason) }
}

/// All of them, by number.
pub(crate) const ROWS: &[Row] = &[
    // The wire, before anybody has logged in.
    row(1, "strangers who announce a million arguments or half a gigabyte", "CVE-2021-32675"),
    row(2, "lengths at the ends of 31, 32 and 63 bits", "CVE-2021-21309, CVE-2021-41099"),
    row(3, "a stranger who asks and never reads", "CVE-2025-21605"),
    row(4, "arguments that are announced and never come", "CVE-2025-46686"),
    row(5, "requests without an argument, then one that is crafted", "CVE-2026-27623"),
    row(6, "a browser made to send a form here", "CVE-2016-10517"),
    row(7, "ends of lines that are missing or wrong; types of RESP3 as arguments", "Valkey 9.0.5"),
    row(8, "replies and deferred headers around the size of a buffer", "CVE-2025-49112"),
    row(9, "connections that fail while they are accepted or shake hands", "CVE-2025-48367"),
    row(10, "ends of lines and NULs within what replies repeat", "CVE-2025-67733"),
    row(11, "the channel of a debugger of scripts", "CVE-2021-32672, GHSA-fq2f-crmw-q97r"),
    row(12, "a client in the state of a replica that sends commands", "CVE-2021-31294"),
    row(13, "a hostile server, behind each link that we begin", "CVE-2021-32762, CVE-2018-12326"),
    row(14, "paths too long for `apus check`", "CVE-2025-27151, CVE-2013-7458"),
    // Numbers and sizes.
    row(20, "offsets and limits at the end of 63 bits", "CVE-2022-35977"),
    row(21, "the common subsequence of long strings", "CVE-2021-29477, CVE-2021-32625"),
    row(22, "claims over entries that are deleted", "CVE-2022-31144, CVE-2022-35951"),
    row(23, "random elements, LONG_MIN of them", "CVE-2023-22458, CVE-2023-25155"),
    row(24, "bits at the limits, and sums of them that overflow", "CVE-2021-32761"),
    row(25, "sums that are no finite numbers", "CVE-2023-28856, Dragonfly #5835"),
    row(26, "the same key twice in each command of several", "CVE-2023-28425"),
    row(27, "one, eight, nine, a thousand and a million elements", "CVE-2025-62507"),
    row(28, "small encodings whose limits are raised beyond gigabytes", "CVE-2021-32627"),
    row(29, "strings that change their size class", "CVE-2023-41056"),
    row(30, "names of keys and elements without end", "Valkey #5133"),
    row(31, "patterns that are exponential or deep", "CVE-2022-36021, CVE-2024-31228"),
    row(32, "forged HyperLogLogs", "CVE-2025-32023, CVE-2019-10192, CVE-2019-10193"),
    row(33, "each typed command on each other type", "CVE-2018-12453"),
    row(34, "cursors that no scan gave", "CVE-2025-26268"),
    row(35, "slots that no cluster has", "Dragonfly #6861, Redis 8.10.1"),
    row(36, "options as the last word, and counts that are left out", "Dragonfly #6597, #6639"),
    row(40, "numbers of keys that are lies", "Garnet #2031"),
    row(41, "COUNT with nothing behind it", "Garnet #2036"),
    row(42, "LREM of i32::MIN", "Garnet #2009"),
    row(43, "counts that reach into flags", "Garnet #2038"),
    row(44, "ranges of an empty value, and ends past the end", "Garnet #1969, #1971"),
    row(45, "errors that end the session instead of being told", "Garnet #1947"),
    row(46, "options that contradict each other, answered twice", "Garnet #2037, Dragonfly #8130"),
    // Payloads and files.
    row(50, "a pending entry of two consumers, one of whom is deleted", "CVE-2026-25243"),
    row(51, "packed encodings whose headers, lengths or contents are wrong", "Redis, 86 payloads"),
    row(52, "the same without a checksum that holds", "Dragonfly #7502, Valkey 8.1.9"),
    waiting(
        53,
        "payloads of filters, sketches and series",
        "CVE-2026-21864, CVE-2024-55656",
        "those types are not here",
    ),
    row(54, "a full sync while a script runs on a writable replica", "CVE-2026-23631"),
    row(55, "a rogue primary", "P2PInfect, RedisRogueServer"),
    row(56, "a damaged nodes.conf, and names with ends of lines in it", "CVE-2017-15047"),
    row(57, "such payloads from a client that is evicted or killed meanwhile", "CVE-2026-130822"),
    // Scripts.
    row(60, "garbage that is collected while code is read", "CVE-2025-49844, CVE-2024-46981"),
    row(61, "`unpack` of two thousand million; brackets without end", "CVE-2025-46817"),
    row(62, "changes to what all scripts share", "CVE-2025-46818, CVE-2022-24735"),
    row(63, "errors that are tables of any kind", "CVE-2022-24736"),
    row(64, "the stack of Lua, by depth and by results", "CVE-2021-32626"),
    row(65, "JSON and MessagePack that are deep or do not fit", "CVE-2022-24834"),
    row(66, "widths and offsets of `struct`", "CVE-2015-8080, CVE-2020-14147"),
    row(67, "`bit.tohex` of INT_MIN digits", "CVE-2024-31449"),
    row(68, "compiled code, and libraries that reach the system", "CVE-2015-4335, CVE-2022-0543"),
    row(69, "scripts that catch what is to end them", "Garnet #1986, #1887"),
    row(70, "helpers with sizes without bound; commands that are tables", "Dragonfly #7368, #7655"),
    // Users, passwords, transports.
    row(80, "keys that are used and were not looked at", "CVE-2023-41053, Valkey #3971"),
    row(81, "keys of requests that are malformed", "CVE-2023-36824, Redis #14847"),
    row(82, "rules and selectors that are malformed or long", "CVE-2024-31227, CVE-2024-51741"),
    row(83, "rights taken back before what was queued or waits goes on", "Redis #15673"),
    row(84, "a database named twice", "Valkey #3801, #3806"),
    row(85, "a log whose commands the default user may not run", "Valkey #3984"),
    row(86, "each transport, without a password", "CVE-2023-45145, memcached #1283"),
    row(87, "a certificate whose name holds a NUL", "Redis 8.10.1"),
    row(88, "passwords in what others are shown; RESET", "CVE-2026-41566, CVE-2025-59790"),
    row(89, "guesses: what their time tells, and how many there are", "CVE-2026-47783"),
    row(90, "settings that plant files or load code", "Redis RED-167787"),
    // Lifetimes.
    row(100, "who waits is served while it is evicted", "CVE-2026-23479, Redis #15594"),
    row(101, "connections with more to read that others end", "CVE-2026-56684"),
    row(102, "clients evicted that others still know", "CVE-2026-130822"),
    row(103, "users who are gone, of clients that are about to end", "Valkey #3800, #3283"),
    row(104, "users exchanged while they log in; walks that nobody reads", "memcached `-Y`"),
    row(105, "waiting, saving and ending at once", "Dragonfly's deadlocks"),
    // The cluster's bus.
    row(110, "extensions of a ping past the packet", "CVE-2026-21863"),
    row(111, "a message of nearly 4 GB", "GHSA-f4q9-j22m-xqq9"),
    row(112, "messages of modules that are not there", "Redis"),
    row(113, "any host that says MEET, FAIL or an epoch", "Redis #15722"),
    row(114, "lengths, counts, names and slots that are lies", "Redis"),
    // memcached.
    row(120, "binary headers whose lengths contradict each other", "CVE-2016-8704, CVE-2020-10931"),
    row(121, "datagrams that ask for much", "CVE-2018-1000115, CVE-2022-48571"),
    row(122, "lengths below zero, and lines without end", "CVE-2009-2415, CVE-2010-1152"),
    row(123, "meta commands and blanks at their edges", "CVE-2020-22570, CVE-2023-46852"),
    row(124, "a second attempt to log in; what statistics and files tell", "CVE-2013-7239"),
    row(125, "an item that goes while it is sent", "CVE-2018-1000127"),
];
