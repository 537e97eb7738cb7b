//! Searches of arrays: ARGREP, aggregates, and what they refuse.

use super::{INVALID_INDEX, NOT_AN_INTEGER, NOT_POSITIVE, SYNTAX, WRONG_TYPE, check_refused};
use crate::testing::check;

/// redis.io/commands/argrep.
#[test]
fn argrep_answers_as_its_page_says() {
    check(
        r#"ARMSET log 0 "boot: ok" 1 "warn: disk" 2 "ERROR: cpu" 3 "info: ready" 4 "error: net"
           ARGREP log - + MATCH error NOCASE
           ARGREP log - + MATCH error NOCASE WITHVALUES
           ARGREP log 0 4 GLOB warn:* OR GLOB error:*
           ARGREP log 0 4 RE "^[A-Za-z]+: (cpu|net)$" NOCASE WITHVALUES
           ARGREP log 0 4 EXACT "info: ready"
           ARGREP log 0 4 EXACT "INFO: ready"
           ARGREP log 0 4 exact "INFO: ready" nocase
           ARGREP log - + MATCH error NOCASE LIMIT 1
           ARGREP log + - MATCH error NOCASE LIMIT 1
           ARGREP log 4 0 GLOB *o*
           ARGREP log 1 3 GLOB *
           ARGREP log - + MATCH : MATCH r AND
           ARGREP log - + MATCH : AND MATCH r RE "[aeiou]{2}"
           ARGREP log - + AND MATCH : OR MATCH nothing
           ARGREP log - + MATCH nothing
           ARGREP log - + MATCH ""
           ARGREP log - + GLOB "WARN: d?sk" NOCASE
           ARGREP log - + RE "\\bok\\b"
           ARGREP none - + MATCH x
           ARMSET n 0 12 1 312 2 x
           ARGREP n - + MATCH 12
           ARGREP n - + EXACT 12
           ARGREP n - + RE "^[0-9]+$" WITHVALUES"#,
        r#":5
           [:2 :4]
           [[:2 "ERROR: cpu"] [:4 "error: net"]]
           [:1 :4]
           [[:2 "ERROR: cpu"] [:4 "error: net"]]
           [:3]
           []
           [:3]
           [:2]
           [:4]
           [:4 :3 :0]
           [:1 :2 :3]
           [:1 :3 :4]
           [:3]
           [:0 :1 :2 :3 :4]
           []
           [:0 :1 :2 :3 :4]
           [:1]
           [:0]
           []
           :3
           [:0 :1]
           [:0]
           [[:0 "12"] [:1 "312"]]"#,
    );
}

/// redis.io/commands/arop; that elements which are no numbers count for none of the operations on
/// numbers, and that a sum has no other digits than it needs, from redis-py's tests.
#[test]
fn aggregates() {
    check(
        "ARMSET a 0 10 1 20 2 30
         AROP a 0 2 SUM
         AROP a 2 0 sum
         AROP a 0 2 MIN
         AROP a 0 2 MAX
         AROP a 0 2 MATCH 10
         AROP a 0 2 USED
         ARMSET f 0 255 1 15 2 240
         AROP f 0 2 AND
         AROP f 0 2 OR
         AROP f 0 2 XOR
         AROP none 0 4 SUM
         AROP none 0 4 USED
         AROP none 0 4 MATCH x",
        r#":3
           "60"
           "60"
           "10"
           "30"
           :1
           :3
           :3
           :0
           :255
           :0
           nil
           :0
           :0"#,
    );
}

/// The same for elements of which some are no whole numbers.
#[test]
fn aggregates_of_what_is_no_integer() {
    check(
        "ARMSET m 0 7.9 1 3.2 2 -1.8 3 x
         AROP m 0 1 AND
         AROP m 0 3 XOR
         AROP m 0 3 SUM
         AROP m 0 3 MIN
         AROP m 0 3 MAX
         AROP m 0 3 USED
         AROP m 3 3 SUM
         AROP m 3 3 MIN
         AROP m 3 3 AND
         AROP m 3 3 MATCH x
         AROP m 100 200 USED
         AROP m 100 200 MATCH x
         AROP m 100 200 XOR
         ARMSET w 0 10.0 1 20.0 2 30.0
         AROP w 0 2 SUM
         AROP w 0 2 MATCH 10.0
         AROP w 0 2 MATCH 10
         ARSET b 0 9223372036854775807 9223372036854775807 -1
         AROP b 0 2 SUM
         AROP b 0 1 MIN
         ARSET i 0 inf nan 1e400 1
         AROP i 0 3 SUM
         AROP b 0 18446744073709551614 USED",
        r#":4
           :3
           :-5
           "9.3"
           "-1.8"
           "7.9"
           :4
           nil
           nil
           nil
           :1
           :0
           :0
           nil
           :3
           "60"
           :1
           :0
           :3
           "18446744073709551613"
           "9223372036854775807"
           :4
           "1"
           :3"#,
    );
}

#[test]
fn refusals_of_searches_and_cursors() {
    check_refused(&[
        ("ARSCAN a - +", INVALID_INDEX),
        ("ARSCAN a 0 1 LIMIT", SYNTAX),
        ("ARSCAN a 0 1 LIMIT 0", NOT_POSITIVE),
        ("ARSCAN a 0 1 LIMIT -1", NOT_POSITIVE),
        ("ARSCAN a 0 1 LIMIT x", NOT_AN_INTEGER),
        ("ARSCAN a 0 1 COUNT 1", SYNTAX),
        ("ARSCAN s 0 1", WRONG_TYPE),
        ("ARINSERT s x", WRONG_TYPE),
        ("ARRING a 0 x", NOT_POSITIVE),
        ("ARRING a -3 x", NOT_POSITIVE),
        ("ARRING a x x", NOT_AN_INTEGER),
        ("ARRING s 3 x", WRONG_TYPE),
        ("ARSEEK a -1", INVALID_INDEX),
        ("ARSEEK a 18446744073709551616", INVALID_INDEX),
        ("ARSEEK none x", INVALID_INDEX),
        ("ARSEEK s 1", WRONG_TYPE),
        ("ARNEXT s", WRONG_TYPE),
        ("ARLASTITEMS a -1", NOT_POSITIVE),
        ("ARLASTITEMS a x", NOT_AN_INTEGER),
        ("ARLASTITEMS a 1 REVERSE", SYNTAX),
        ("ARLASTITEMS s 1", WRONG_TYPE),
        ("ARINFO a FULLY", SYNTAX),
        ("ARINFO a FULL FULL", SYNTAX),
        ("ARINFO s", WRONG_TYPE),
        ("AROP a 0 1 AVERAGE", SYNTAX),
        ("AROP a 0 1 MATCH", SYNTAX),
        ("AROP a 0 1 MATCH a b", SYNTAX),
        ("AROP a 0 1 SUM 1", SYNTAX),
        ("AROP a 0 x SUM", INVALID_INDEX),
        ("AROP s 0 1 SUM", WRONG_TYPE),
        ("ARGREP a - +", "-ERR wrong number of arguments for 'argrep' command"),
        ("ARGREP a - + AND OR", SYNTAX),
        ("ARGREP a - + MATCH x EXACT", SYNTAX),
        ("ARGREP a - + LIKE x", SYNTAX),
        ("ARGREP a 0 x MATCH x", INVALID_INDEX),
        ("ARGREP a + -1 MATCH x", INVALID_INDEX),
        ("ARGREP a - + MATCH x LIMIT", SYNTAX),
        ("ARGREP a - + MATCH x LIMIT 0", NOT_POSITIVE),
        ("ARGREP a - + MATCH x LIMIT y", NOT_AN_INTEGER),
        ("ARGREP a - + RE [", "-ERR invalid regular expression: missing ']'"),
        (
            r"ARGREP a - + RE (a)\1",
            "-ERR invalid regular expression: back references are not supported",
        ),
        ("ARGREP s - + MATCH x", WRONG_TYPE),
    ]);
    let many = "MATCH x ".repeat(251);
    let long = "x".repeat(2049);
    check_refused(&[
        (&format!("ARGREP a - + {many}"), "-ERR too many predicates, at most 250"),
        (&format!("ARGREP a - + RE {long}"), "-ERR invalid regular expression: too long"),
    ]);
}
