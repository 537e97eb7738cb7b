//! REPLCONF, word by word.

use proptest::prelude::{any, prop};
use proptest::proptest;

use crate::primary::replconf_state::Nameable;
use crate::primary::{Ack, Capabilities, RdbReader, ReplconfReply, ReplconfState, Requirements};

fn replconf(announced: &mut ReplconfState, words: &[&str]) -> ReplconfReply {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    announced.replconf(&args, &Nameable::default())
}

#[test]
fn each_word_has_its_reply() {
    let long = "x".repeat(256);
    let too_long = "ERR REPLCONF ip-address provided by replica instance is too long: 256 bytes";
    let range = "ERR value is out of range, value must between 0 and 1";
    let integer = "ERR value is not an integer or out of range";
    for (words, error) in [
        (&[][..], ""),
        (&["listening-port"], "ERR syntax error"),
        (&["listening-port", "6380", "capa"], "ERR syntax error"),
        (&["LISTENING-port", "6380"], ""),
        (&["listening-port", "x"], integer),
        (&["ip-address", &long[1..]], ""),
        (&["ip-address", &long], too_long),
        (&["capa", "eof", "capa", "PSYNC2"], ""),
        (&["capa", "what-is-this"], ""),
        (&["rdb-only", "1"], ""),
        (&["rdb-only", "2"], range),
        (&["rdb-only", "-1"], range),
        (&["rdb-only", "x"], integer),
        (&["rdb-filter-only", ""], ""),
        (&["rdb-filter-only", "functions FUNCTIONS"], ""),
        (&["rdb-filter-only", "functions keys"], "ERR Unsupported rdb-filter-only option: keys"),
        (&["rdb-filter-only", "\"functions"], "ERR Missing rdb-filter-only values"),
        (&["rdb-no-compress", "1", "rdb-no-checksum", "1"], ""),
        (&["rdb-no-checksum", "7"], range),
        (&["version", "8.0.1"], ""),
        (&["version", "8.0"], "ERR Unrecognized version format: 8.0"),
        (&["version", "8.0.1.2"], "ERR Unrecognized version format: 8.0.1.2"),
        (&["version", "-8.0.1"], "ERR Unrecognized version format: -8.0.1"),
        (&["compression", "3"], "ERR Master has not enabled replication compression"),
        (&["set-cluster-node-id", "x"], "ERR This instance has cluster support disabled"),
        (&["uuid", "x"], "ERR Unrecognized REPLCONF option: uuid"),
        (&["rdb-channel", "1"], "ERR Unrecognized REPLCONF option: rdb-channel"),
        (&["Main-Ch-Client-Id", "1"], "ERR Unrecognized REPLCONF option: Main-Ch-Client-Id"),
    ] {
        let expected = match error {
            "" => ReplconfReply::Ok,
            _ => ReplconfReply::Error(error.as_bytes().to_vec()),
        };
        assert_eq!(replconf(&mut ReplconfState::default(), words), expected, "{words:?}");
    }
}

#[test]
fn a_client_is_a_node_that_the_cluster_knows() {
    let is_node = |name: &[u8]| name == b"n";
    let nameable = Nameable { nodes: Some(&is_node), ..Nameable::default() };
    let mut announced = ReplconfState::default();
    let mut say = |name: &[u8]| announced.replconf(&[b"SET-cluster-node-id", name], &nameable);
    assert_eq!(say(b"m"), ReplconfReply::Error(b"ERR Unknown node m".to_vec()));
    assert_eq!(say(b"n"), ReplconfReply::Ok);
    assert_eq!(announced.cluster_node.as_deref(), Some("n"));
}

#[test]
fn acknowledgements_are_never_answered() {
    let ack = |offset, fsynced| ReplconfReply::Ack(Ack { offset, fsynced });
    for (words, reply) in [
        (&["ack", "7"][..], ack(7, None)),
        (&["ACK", "7", "FACK", "5"], ack(7, Some(5))),
        (&["ack", "7", "capa", "5"], ack(7, None)),
        (&["ack", "x"], ReplconfReply::Silence),
        (&["ack", "-7"], ReplconfReply::Silence),
        (&["ack", "7", "fack", "x"], ReplconfReply::Silence),
        (&["getack", "*"], ReplconfReply::Silence),
        (&["capa", "eof", "ack", "7"], ack(7, None)),
        (
            &["what", "eof", "ack", "7"],
            ReplconfReply::Error(b"ERR Unrecognized REPLCONF option: what".to_vec()),
        ),
    ] {
        assert_eq!(replconf(&mut ReplconfState::default(), words), reply, "{words:?}");
    }
}

#[test]
fn pairs_before_a_bad_one_stay_applied() {
    let mut announced = ReplconfState::default();
    let words = ["listening-port", "1", "capa", "eof", "no", "x", "listening-port", "2"];
    assert!(matches!(replconf(&mut announced, &words), ReplconfReply::Error(_)));
    assert_eq!(announced.port, 1);
    assert_eq!(announced.capabilities, Capabilities::EOF);
}

#[test]
fn requirements_are_what_was_announced() {
    let mut announced = ReplconfState::default();
    assert_eq!(announced.requirements, Requirements::default());
    replconf(&mut announced, &["rdb-filter-only", "functions", "version", "9.1.2"]);
    let expected =
        Requirements { keys: false, reader: RdbReader::Valkey9, ..Requirements::default() };
    assert_eq!(announced.requirements, expected);
    assert!(expected.is_filtered());
    replconf(&mut announced, &["rdb-filter-only", "", "version", "8.1.0", "rdb-no-compress", "1"]);
    let expected = Requirements {
        keys: false,
        functions: false,
        compressed: false,
        checksum: true,
        reader: RdbReader::Valkey8,
        channel: false,
    };
    assert_eq!(announced.requirements, expected);
}

proptest! {
    #[test]
    fn hostile_words_do_no_harm(words in prop::collection::vec(any::<Vec<u8>>(), 0..9)) {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        ReplconfState::default().replconf(&args, &Nameable::default());
    }
}
