//! The configuration, in and out.

use base::Random;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use proptest::{prop_assert_eq, proptest};

use super::rig::{OWN_ID, PEER_ID, Rig, options};
use crate::Sentinel;

const MONITOR: &str = "sentinel monitor m 127.0.0.1 6379 1";

fn start(text: &str) -> Result<Sentinel, String> {
    let started = Sentinel::start(options(), text.as_bytes(), 0, Random::from_seed(1));
    started.map(|(sentinel, _)| sentinel).map_err(|error| error.to_string())
}

#[test]
fn what_is_wrong_is_named() {
    for (lines, reason) in [
        ("sentinel monitor m 127.0.0.1 6379 0", "Quorum must be 1 or greater."),
        ("SENTINEL MONITOR m 1.1.1.1 1 0", "Quorum must be 1 or greater."),
        ("MONITOR|MONITOR", "Duplicate master name."),
        ("sentinel monitor m nohost 6379 1", "Can't resolve instance hostname."),
        ("sentinel monitor m 127.0.0.1 66666 1", "Invalid port number."),
        ("sentinel monitor m 127.0.0.1 6379", "Unrecognized sentinel configuration statement."),
        ("sentinel down-after-milliseconds m 1", "No such master with specified name."),
        ("MONITOR|sentinel down-after-milliseconds m 0", "negative or zero time parameter."),
        ("MONITOR|sentinel failover-timeout m -1", "negative or zero time parameter."),
        (
            "MONITOR|sentinel notification-script m /nope",
            "Notification script seems non existing or non executable.",
        ),
        (
            "MONITOR|sentinel client-reconfig-script m /nope",
            "Client reconfiguration script seems non existing or non executable.",
        ),
        ("sentinel myid abc", "Malformed Sentinel id in myid option."),
        (
            "MONITOR|sentinel rename-command m a b|sentinel rename-command m A c",
            "Same command renamed multiple times with rename-command.",
        ),
        (
            "sentinel resolve-hostnames x",
            "Please specify yes or no for the resolve-hostnames option.",
        ),
        (
            "sentinel announce-hostnames x",
            "Please specify yes or no for the announce-hostnames option.",
        ),
        (
            "sentinel deny-scripts-reconfig x",
            "Please specify yes or no for the deny-scripts-reconfig options.",
        ),
        ("MONITOR|sentinel master-reboot-down-after-period m -1", "negative time parameter."),
        ("sentinel foo", "Unrecognized sentinel configuration statement."),
        ("sentinel", "Unrecognized sentinel configuration statement."),
        (
            "MONITOR|sentinel known-replica m 127.0.0.1 1|sentinel known-slave m 127.0.0.1 1",
            "Duplicate hostname and port for replica.",
        ),
        ("MONITOR|sentinel known-replica m 127.0.0.1 99999", "Invalid port number."),
        ("MONITOR|sentinel known-replica zz 127.0.0.1 1", "No such master with specified name."),
        (
            "MONITOR|sentinel known-sentinel m 127.0.0.1 1 ID|sentinel known-sentinel m ::1 2 ID",
            "Duplicate runid for sentinel.",
        ),
        ("MONITOR|sentinel known-sentinel m x.y 1 ID", "Can't resolve instance hostname."),
        ("MONITOR|sentinel config-epoch m", "Unrecognized sentinel configuration statement."),
        ("sentinel announce-port 99999", "Invalid port number."),
        ("sentinel current-epoch 18446744073709551615", "Invalid epoch."),
        ("MONITOR|sentinel auth-pass m \"a b", "Unbalanced quotes in configuration line"),
    ] {
        let text = lines.replace("MONITOR|MONITOR", &format!("{MONITOR}\n{MONITOR}"));
        let text = text.replace("MONITOR|", &format!("{MONITOR}\n")).replace('|', "\n");
        let text = text.replace("ID", PEER_ID);
        let (last, line) = (text.lines().last().unwrap(), text.lines().count());
        let expected =
            format!("Reading the configuration file, at line {line}\n>>> '{last}'\n{reason}");
        assert_eq!(start(&text).map(|_| ()), Err(expected), "{lines}");
    }
}

#[test]
fn lines_stand_in_any_order() {
    let text = format!(
        "# first comment\nport 26379\nsentinel auth-pass m \"pa ss\\\"x\"\n\
         sentinel known-slave m db1 6380\nSentinel Known-Sentinel m 127.0.0.1 26380 {PEER_ID}\n\
         sentinel config-epoch m 7\nsentinel monitor m db0 6379 2\n\
         sentinel down-after-milliseconds m 5000\nsentinel resolve-hostnames yes\n\
         sentinel rename-command m config zz\nsentinel announce-ip 10.1.1.1\n# last comment\n"
    );
    let sentinel = start(&text).unwrap();
    let primary = &sentinel.primaries["m"];
    assert_eq!(primary.head.settings.auth_pass.as_deref(), Some(&b"pa ss\"x"[..]));
    assert_eq!((primary.head.config_epoch, sentinel.context.current_epoch), (7, 7));
    assert_eq!(primary.replicas["db1:6380"].instance.down_after, 5000);
    assert_eq!(primary.peers[PEER_ID].instance.address.port, 26380);
    let own = &sentinel.context.my_id;
    let expected = format!(
        "# first comment\nport 26379\nsentinel auth-pass m \"pa ss\\\"x\"\n\
         sentinel known-replica m db1 6380\nSentinel Known-Sentinel m 127.0.0.1 26380 {PEER_ID}\n\
         sentinel config-epoch m 7\nsentinel monitor m db0 6379 2\n\
         sentinel down-after-milliseconds m 5000\nsentinel resolve-hostnames yes\n\
         sentinel rename-command m CONFIG zz\nsentinel announce-ip 10.1.1.1\n# last comment\n\
         # Generated by CONFIG REWRITE\nsentinel myid {own}\nsentinel leader-epoch m 0\n\
         sentinel current-epoch 7\n"
    );
    let written = sentinel.rewritten(text.as_bytes());
    assert_eq!(String::from_utf8(written.clone()).unwrap(), expected);
    assert_eq!(start(&expected).unwrap().rewritten(&written), written);
}

#[test]
fn what_has_changed_takes_its_old_place() {
    let mut rig = Rig::new(
        "sentinel monitor a 127.0.0.1 6379 1\n# about b\nsentinel monitor b 127.0.0.1 6380 1\n\
         sentinel known-replica b 127.0.0.1 6390\nsentinel parallel-syncs b 3\nmaxclients 100\n",
    );
    assert_eq!(rig.command("sentinel set b quorum 2 parallel-syncs 1"), "+OK|");
    assert_eq!(rig.command("sentinel remove a"), "+OK|");
    let expected = format!(
        "sentinel myid {OWN_ID}\n# about b\nsentinel monitor b 127.0.0.1 6380 2\n\
         sentinel known-replica b 127.0.0.1 6390\nmaxclients 100\n# Generated by CONFIG REWRITE\n\
         sentinel config-epoch b 0\nsentinel leader-epoch b 0\nsentinel current-epoch 0\n"
    );
    assert_eq!(String::from_utf8(rig.disk).unwrap(), expected);
}

#[test]
fn a_new_id_is_written_at_once() {
    let (sentinel, actions) =
        Sentinel::start(options(), MONITOR.as_bytes(), 0, Random::from_seed(7)).unwrap();
    assert!(matches!(actions[0], crate::Action::Persist), "{actions:?}");
    let text = String::from_utf8(sentinel.rewritten(b"")).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("sentinel myid ")).unwrap();
    assert_eq!(id.len(), 40);
    assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("m".to_owned()),
        Just("127.0.0.1".to_owned()),
        Just("6379".to_owned()),
        Just("yes".to_owned()),
        "[ -~]{0,6}",
    ];
    let keyword = prop::sample::select(
        &[
            "monitor",
            "auth-pass",
            "auth-user",
            "known-replica",
            "known-sentinel",
            "myid",
            "parallel-syncs",
            "config-epoch",
            "leader-epoch",
            "current-epoch",
            "announce-ip",
            "announce-port",
            "resolve-hostnames",
            "rename-command",
            "sentinel-pass",
            "sentinel-user",
            "failover-timeout",
            "notification-script",
        ][..],
    );
    let ours = (keyword, prop::collection::vec(word, 0..5)).prop_map(|(keyword, words)| {
        let words: Vec<String> =
            words.iter().map(|word| base::quote::quote(word.as_bytes())).collect();
        format!("sentinel {keyword} {}", words.join(" ")).into_bytes()
    });
    prop_oneof![8 => ours, 1 => any::<Vec<u8>>()]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(lines in prop::collection::vec(line(), 0..8)) {
        let mut text = MONITOR.as_bytes().to_vec();
        for line in lines {
            text.push(b'\n');
            text.extend(line);
        }
        let started = Sentinel::start(options(), &text, 0, Random::from_seed(1));
        if let Ok((sentinel, _)) = started {
            // What is written reads as what it was written from.
            let written = sentinel.rewritten(&text);
            let again = Sentinel::start(options(), &written, 0, Random::from_seed(2));
            let (again, _) = again.expect("what was written can be read");
            prop_assert_eq!(again.rewritten(&written), written);
            prop_assert_eq!(again.rewritten(b""), sentinel.rewritten(b""));
        }
    }
}
