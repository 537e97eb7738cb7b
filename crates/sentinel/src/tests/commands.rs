//! Commands and their replies, as a client sees them.

use base::Random;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};
use proto::Resp;
use proto::value::Value;

use super::rig::{OTHER_ID, PEER_ID, Rig, at, options, primary_info, replica_info, value};
use crate::Sentinel;
use crate::event::{ClientId, Event};

fn rig() -> Rig {
    let mut rig = Rig::new(&format!(
        "sentinel monitor m 127.0.0.1 6379 2\nsentinel down-after-milliseconds m 3000\n\
         sentinel known-sentinel m 127.0.0.1 26380 {PEER_ID}\n"
    ));
    rig.alive.insert(at(6379), primary_info(&[6380]));
    rig.alive.insert(at(6380), replica_info(6379, "up", 100, 7));
    rig.alive.insert(at(26380), primary_info(&[]));
    rig.run(3000);
    rig
}

const NO_SUCH: &str = "-ERR No such master with that name|";
const CONFIG: &str = "-ERR Only SENTINEL CONFIG GET <param> [<param> <param> ...] / SET <param> \
                      <value> [<param> <value> ...] are supported.|";

/// Commands, and their replies one after the other.
const REPLIES: &[(&str, &str)] = &[
    ("sentinel", "-ERR wrong number of arguments for 'sentinel' command|"),
    ("sentinel bogus", "-ERR unknown subcommand 'bogus'. Try SENTINEL HELP.|"),
    ("sentinel monitor", "-ERR wrong number of arguments for 'sentinel|monitor' command|"),
    ("sentinel masters a", "-ERR wrong number of arguments for 'sentinel|masters' command|"),
    ("sentinel set m quorum", "-ERR wrong number of arguments for 'sentinel|set' command|"),
    ("sentinel monitor m 127.0.0.1 1 1", "-ERR Duplicate master name.|"),
    ("sentinel monitor x 127.0.0.1 99999 1", "-ERR Invalid port number.|"),
    ("sentinel monitor x 127.0.0.1 a 1", "-ERR Invalid port|"),
    ("sentinel monitor x 127.0.0.1 1 0", "-ERR Quorum must be 1 or greater.|"),
    ("sentinel monitor x 127.0.0.1 1 b", "-ERR Invalid quorum|"),
    ("sentinel monitor x no.ip 1 1", "-ERR Invalid IP address or hostname specified|"),
    ("sentinel monitor \"x\\ny\" 127.0.0.1 1 1", "-ERR Invalid master name|"),
    ("sentinel monitor \"\" 127.0.0.1 1 1", "-ERR Invalid master name|"),
    ("sentinel monitor \"x,y \\\"\" 127.0.0.1 1 1", "+OK|"),
    ("sentinel get-master-addr-by-name \"x,y \\\"\"", "*2|$9|127.0.0.1|$1|1|"),
    ("sentinel remove \"x,y \\\"\"", "+OK|"),
    ("sentinel remove zz", NO_SUCH),
    ("sentinel ckquorum zz", NO_SUCH),
    ("sentinel failover zz", NO_SUCH),
    ("sentinel master zz", NO_SUCH),
    ("sentinel replicas zz", NO_SUCH),
    ("sentinel sentinels zz", NO_SUCH),
    ("sentinel set zz quorum 1", NO_SUCH),
    ("sentinel reset zz*", ":0|"),
    ("sentinel myid", "$40|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|"),
    ("SENTINEL Get-Primary-Addr-By-Name m", "*2|$9|127.0.0.1|$4|6379|"),
    ("sentinel get-master-addr-by-name x", "*-1|"),
    (
        "sentinel ckquorum m",
        "+OK 2 usable Sentinels. Quorum and failover authorization can be reached|",
    ),
    ("sentinel pending-scripts", "*0|"),
    ("sentinel info-cache zz", "*0|"),
    ("sentinel is-master-down-by-addr 127.0.0.1 6379 0 *", "*3|:0|$1|*|:0|"),
    ("sentinel is-primary-down-by-addr nowhere 6379 0 *", "*3|:0|$1|*|:0|"),
    (
        "sentinel is-master-down-by-addr 127.0.0.1 x 0 *",
        "-ERR value is not an integer or out of range|",
    ),
    ("sentinel failover m x", "-ERR syntax error|"),
    (
        "sentinel failover m coordinated",
        "-NOGOODPRIMARY Primary does not support FAILOVER command|",
    ),
    ("sentinel config set", "-ERR wrong number of arguments for 'sentinel|config' command|"),
    ("sentinel config set announce-port", CONFIG),
    ("sentinel config foo bar", CONFIG),
    ("sentinel config get x", "*0|"),
    ("sentinel config get announce-port", "*2|$13|announce-port|$1|0|"),
    (
        "sentinel config set announce-port 99999",
        "-ERR Invalid value '99999' to SENTINEL CONFIG SET 'announce-port'|",
    ),
    ("sentinel config set foo 1", "-ERR Invalid argument 'foo' to SENTINEL CONFIG SET|"),
    (
        "sentinel config set announce-port 1 announce-ip",
        "-ERR Missing argument 'announce-ip' value to SENTINEL CONFIG SET|",
    ),
    (
        "sentinel config set announce-port 1 announce-port 2",
        "-ERR Duplicate argument 'announce-port' to SENTINEL CONFIG SET|",
    ),
    ("sentinel config get announce-port", "*2|$13|announce-port|$1|0|"),
    ("sentinel config set loglevel verbose announce-ip 10.0.0.9", "+OK|"),
    ("sentinel config get log*", "*2|$8|loglevel|$7|verbose|"),
    (
        "sentinel debug foo 1",
        "-ERR Unknown option or number of arguments for SENTINEL DEBUG 'foo'|",
    ),
    ("sentinel debug info-period 0", "-ERR Invalid argument '0' for SENTINEL DEBUG 'info-period'|"),
    ("sentinel debug info-period 9000 PING-period 900", "+OK|"),
    ("sentinel simulate-failure foo", "-ERR Unknown failure simulation specified|"),
    ("sentinel simulate-failure help", "*2|$20|crash-after-election|$21|crash-after-promotion|"),
    ("sentinel flushconfig", "+OK|"),
    ("publish foo bar", "-ERR Only HELLO messages are accepted by Sentinel instances.|"),
    ("publish __sentinel__:hello x", ":1|"),
    ("role", "*2|$8|sentinel|*1|$1|m|"),
];

#[test]
fn errors_and_short_replies() {
    let mut rig = rig();
    for (command, reply) in REPLIES {
        assert_eq!(rig.command(command), *reply, "{command}");
    }
}

#[test]
fn options_of_a_primary() {
    let mut rig = rig();
    rig.take_events();
    let unknown = "-ERR Unknown option or number of arguments for SENTINEL SET";
    let wrong = |value: &str, option: &str| {
        format!("-ERR Invalid argument '{value}' for SENTINEL SET '{option}'|")
    };
    for (options, reply) in [
        ("down-after-milliseconds 0", wrong("0", "down-after-milliseconds")),
        ("failover-timeout x", wrong("x", "failover-timeout")),
        ("parallel-syncs 0", wrong("0", "parallel-syncs")),
        ("quorum x", wrong("x", "quorum")),
        ("master-reboot-down-after-period -1", wrong("-1", "master-reboot-down-after-period")),
        ("rename-command \"\" b", wrong("", "rename-command")),
        ("foo 1", format!("{unknown} 'foo'|")),
        ("quorum 2 down-after-milliseconds", format!("{unknown} 'down-after-milliseconds'|")),
        ("rename-command a", format!("{unknown} 'rename-command'|")),
        (
            "notification-script /bin/x",
            "-ERR Reconfiguration of scripts path is denied for security reasons. Check the \
             deny-scripts-reconfig configuration directive in your Sentinel configuration|"
                .to_owned(),
        ),
        ("auth-pass secret auth-user me QUORUM 1", "+OK|".to_owned()),
        ("rename-command config \"\"", wrong("", "rename-command")),
        ("rename-command config other", "+OK|".to_owned()),
        ("rename-command config CONFIG", "+OK|".to_owned()),
    ] {
        assert_eq!(rig.command(&format!("sentinel set m {options}")), reply, "{options}");
    }
    let about = "+set master m 127.0.0.1 6379";
    let expected = [
        "quorum 2",
        "auth-pass ******",
        "auth-user me",
        "QUORUM 1",
        "rename-command config other",
        "rename-command config CONFIG",
    ];
    assert_eq!(rig.take_events(), expected.map(|text| format!("{about} {text}")));
    let text = String::from_utf8(rig.disk).unwrap();
    assert!(text.contains("sentinel monitor m 127.0.0.1 6379 1\n"), "{text}");
    assert!(text.contains("sentinel auth-pass m secret\nsentinel auth-user m me\n"), "{text}");
    assert!(!text.contains("rename-command"), "{text}");
}

fn fields(value: &Value) -> Vec<(String, String)> {
    let Value::Array(items) = value else { panic!("{value:?}") };
    let text = |value: &Value| String::from_utf8(value.as_bytes().unwrap().to_vec()).unwrap();
    items.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

fn shown(rig: &mut Rig, command: &str) -> Vec<(String, String)> {
    let reply = value(&rig.command(command));
    match &reply {
        Value::Array(items) if matches!(items.first(), Some(Value::Array(_))) => fields(&items[0]),
        _ => fields(&reply),
    }
}

#[test]
fn the_fields_of_instances() {
    let mut rig = rig();
    let names = |fields: Vec<(String, String)>| -> String {
        fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
    };
    let common = "name ip port runid flags link-pending-commands link-refcount last-ping-sent \
                  last-ok-ping-reply last-ping-reply down-after-milliseconds";
    let node = format!("{common} info-refresh role-reported role-reported-time");
    let master = shown(&mut rig, "sentinel master m");
    assert_eq!(
        names(master.clone()),
        format!(
            "{node} config-epoch num-slaves num-other-sentinels quorum failover-timeout \
             parallel-syncs"
        )
    );
    let field = |fields: &[(String, String)], name: &str| {
        fields.iter().find(|(known, _)| known == name).unwrap().1.clone()
    };
    assert_eq!(field(&master, "flags"), "master");
    assert_eq!(field(&master, "num-slaves"), "1");
    let replica = shown(&mut rig, "sentinel slaves m");
    assert_eq!(
        names(replica.clone()),
        format!(
            "{node} master-link-down-time master-link-status master-host master-port \
             slave-priority slave-repl-offset replica-announced"
        )
    );
    assert_eq!(field(&replica, "name"), "127.0.0.1:6380");
    assert_eq!(field(&replica, "master-link-status"), "ok");
    assert_eq!(field(&replica, "slave-repl-offset"), "7");
    let peer = shown(&mut rig, "sentinel sentinels m");
    assert_eq!(
        names(peer.clone()),
        format!("{common} last-hello-message voted-leader voted-leader-epoch")
    );
    assert_eq!((field(&peer, "name"), field(&peer, "voted-leader")), (PEER_ID.into(), "?".into()));

    rig.kill(6379);
    rig.kill(26380);
    rig.run(4000);
    let master = shown(&mut rig, "sentinel master m");
    assert_eq!(field(&master, "flags"), "s_down,master,disconnected");
    assert!(names(master).contains("last-ping-reply s-down-time down-after-milliseconds"));
    let quorum = "-NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the \
                  specified quorum for this master. Not enough available Sentinels to reach the \
                  majority and authorize a failover|";
    assert_eq!(rig.command("sentinel ckquorum m"), quorum);
    rig.command("sentinel set m quorum 1");
    rig.run(1000);
    let master = shown(&mut rig, "sentinel master m");
    assert_eq!(field(&master, "flags"), "s_down,o_down,master,disconnected,failover_in_progress");
    assert!(names(master).contains("link-refcount failover-state last-ping-sent"));
    assert!(rig.engine.info_section().ends_with(
        "sentinel_simulate_failure_flags:0\r\n\
         master0:name=m,status=odown,address=127.0.0.1:6379,slaves=1,sentinels=2\r\n"
    ));
    assert_eq!(rig.command("sentinel failover m"), "-INPROG Failover already in progress|");
}

#[test]
fn maps_in_the_third_protocol() {
    let mut rig = rig();
    for (command, head) in [
        ("sentinel masters", "*1|%20|$4|name|$1|m|"),
        ("sentinel master m", "%20|"),
        ("sentinel replicas m", "*1|%21|"),
        ("sentinel sentinels m", "*1|%14|"),
        ("sentinel debug", "%13|$11|INFO-PERIOD|$5|10000|"),
        ("sentinel config get announce*", "%3|$18|announce-hostnames|$2|no|"),
        ("sentinel info-cache m", "*2|$1|m|*2|*2|:"),
        ("sentinel get-master-addr-by-name x", "_|"),
    ] {
        let words = base::quote::split_arguments(command.as_bytes()).unwrap();
        let args = words.iter().map(Vec::as_slice).collect();
        rig.handle(Event::Command { client: ClientId(1), resp: Resp::Three, args });
        let reply = rig.replies.pop().unwrap().1;
        assert!(reply.starts_with(head), "{command}: {reply}");
    }
}

#[test]
fn a_primary_is_watched_and_forgotten() {
    let mut rig = rig();
    rig.take_events();
    assert_eq!(rig.command("sentinel monitor x 127.0.0.1 7000 1"), "+OK|");
    assert_eq!(rig.command("sentinel remove x"), "+OK|");
    assert_eq!(rig.command("sentinel reset *"), ":1|");
    assert_eq!(
        rig.take_events(),
        [
            "+monitor master x 127.0.0.1 7000 quorum 1",
            "-monitor master x 127.0.0.1 7000",
            "+reset-master master m 127.0.0.1 6379",
        ]
    );
    let text = String::from_utf8(rig.disk.clone()).unwrap();
    assert!(!text.contains("known-replica") && !text.contains("known-sentinel"), "{text}");
    rig.run(2000);
    assert_eq!(
        rig.take_events(),
        ["+slave slave 127.0.0.1:6380 127.0.0.1 6380 @ m 127.0.0.1 6379"]
    );
}

#[test]
fn a_vote_goes_to_the_first_that_asks_in_an_epoch() {
    // Leader epoch, current epoch; the epoch asked for: the Sentinel that is voted for, in which
    // epoch.
    for (leader_epoch, current, asked, leader, epoch) in [
        (0, 0, 1, OTHER_ID, 1),
        (0, 5, 5, OTHER_ID, 5),
        (0, 5, 4, "*", 0),
        (5, 5, 5, "*", 5),
        (5, 5, 6, OTHER_ID, 6),
        (6, 6, 5, "*", 6),
        (3, 9, 7, "*", 3),
    ] {
        let mut rig = Rig::new(&format!(
            "sentinel monitor m 127.0.0.1 6379 2\nsentinel current-epoch {current}\n\
             sentinel leader-epoch m {leader_epoch}\n"
        ));
        let persists = rig.persists;
        let question = format!("sentinel is-master-down-by-addr 127.0.0.1 6379 {asked} {OTHER_ID}");
        let size = leader.len();
        let reply = format!("*3|:0|${size}|{leader}|:{epoch}|");
        assert_eq!(rig.command(&question), reply, "{leader_epoch} {current} {asked}");
        assert_eq!(rig.persists > persists, leader == OTHER_ID, "votes are written");
        if leader == OTHER_ID {
            let text = String::from_utf8(rig.disk.clone()).unwrap();
            assert!(text.contains(&format!("sentinel leader-epoch m {epoch}\n")), "{text}");
            // One vote for each epoch, whichever Sentinel asks.
            let other = question.replace(OTHER_ID, PEER_ID);
            assert_eq!(rig.command(&other), reply);
        }
    }
}

#[test]
fn without_a_disk_there_are_no_promises() {
    let mut rig = rig();
    rig.is_disk_full = true;
    let failed = "-ERR Failed to save config file. Check server logs.|";
    assert_eq!(rig.command("sentinel flushconfig"), failed);
    let question = format!("sentinel is-master-down-by-addr 127.0.0.1 6379 9 {OTHER_ID}");
    assert_eq!(rig.command(&question), "*3|:0|$1|*|:0|");
    rig.sent.clear();
    rig.run(4000);
    let is_promise = |sent: &String| sent.contains("PUBLISH");
    assert!(!rig.sent.iter().any(is_promise), "{:?}", rig.sent);
    assert!(rig.sent.iter().any(|sent| sent.contains("PING")), "it goes on watching");
    rig.is_disk_full = false;
    rig.run(2000);
    assert!(rig.sent.iter().any(is_promise));
    assert_eq!(rig.command(&question), format!("*3|:0|$40|{OTHER_ID}|:9|"));
}

#[test]
fn a_command_waits_for_a_host() {
    let mut rig = Rig::new("sentinel resolve-hostnames yes\n");
    assert_eq!(rig.command("sentinel monitor m db.local 6379 1"), "");
    assert_eq!(rig.command("sentinel monitor n no.local 6379 1"), "");
    assert_eq!(rig.questions, ["db.local", "no.local"]);
    let ip = Some([127, 0, 0, 1].into());
    rig.handle(Event::Resolved { host: "db.local".to_owned(), ip });
    rig.handle(Event::Resolved { host: "no.local".to_owned(), ip: None });
    let replies: Vec<String> = rig.replies.drain(..).map(|(_, text)| text).collect();
    assert_eq!(replies, ["+OK|", "-ERR Invalid IP address or hostname specified|"]);
    assert_eq!(rig.take_events(), ["+monitor master m 127.0.0.1 6379 quorum 1"]);
    assert_eq!(rig.command("sentinel get-master-addr-by-name m"), "*2|$9|127.0.0.1|$4|6379|");
    assert_eq!(rig.command("sentinel config set announce-hostnames yes"), "+OK|");
    assert_eq!(rig.command("sentinel get-master-addr-by-name m"), "*2|$8|db.local|$4|6379|");
    let text = String::from_utf8(rig.disk).unwrap();
    assert!(text.contains("sentinel monitor m db.local 6379 1\n"), "{text}");
}

/// Commands that are nearly right.
fn hostile_command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let subcommand = prop::sample::select(
        &[
            "ckquorum",
            "config",
            "debug",
            "failover",
            "flushconfig",
            "info-cache",
            "monitor",
            "is-master-down-by-addr",
            "master",
            "masters",
            "remove",
            "replicas",
            "reset",
            "set",
            "sentinels",
            "simulate-failure",
            "set",
            "config",
            "set",
            "monitor",
        ][..],
    );
    let plain = prop::sample::select(
        &[
            "m",
            "n",
            "get",
            "set",
            "quorum",
            "auth-pass",
            "auth-user",
            "parallel-syncs",
            "*",
            "down-after-milliseconds",
            "notification-script",
            "rename-command",
            "1",
            "6379",
            "yes",
            "127.0.0.1",
            "::1",
            "db.local",
            "announce-ip",
            "announce-port",
            "sentinel-pass",
            "resolve-hostnames",
            "announce-hostnames",
            "info-period",
            "no",
            "coordinated",
            OTHER_ID,
            "failover-timeout",
            "/bin/x",
            "",
        ][..],
    );
    let word = prop_oneof![
        6 => plain.prop_map(|word| word.as_bytes().to_vec()),
        1 => any::<Vec<u8>>(),
        1 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
    ];
    (subcommand, prop::collection::vec(word, 0..6)).prop_map(|(subcommand, words)| {
        let mut command = vec![b"sentinel".to_vec(), subcommand.as_bytes().to_vec()];
        command.extend(words);
        command
    })
}

proptest! {
    #[test]
    fn a_configuration_after_any_commands_can_be_read_again(
        commands in prop::collection::vec(hostile_command(), 1..40),
        scripts in prop_oneof![Just("yes"), Just("no")],
    ) {
        let mut rig = Rig::new(&format!(
            "sentinel deny-scripts-reconfig {scripts}\nsentinel monitor m 127.0.0.1 6379 2\n"
        ));
        rig.alive.insert(at(6379), primary_info(&[6380]));
        rig.alive.insert(at(6380), replica_info(6379, "up", 100, 7));
        rig.run(300);
        for words in &commands {
            let args = words.iter().map(Vec::as_slice).collect();
            let client = ClientId(1);
            rig.handle(Event::Command { client, resp: Resp::Two, args });
            rig.run(100);
            for host in std::mem::take(&mut rig.questions) {
                let ip = Some([127, 0, 0, 1].into());
                rig.handle(Event::Resolved { host, ip });
            }
            let replies: Vec<_> = rig.replies.drain(..).collect();
            prop_assert_eq!(replies.len(), 1, "{:?}", words);
        }
        let again = Sentinel::start(options(), &rig.disk, 0, Random::from_seed(1));
        prop_assert!(again.is_ok(), "{:?}", again.map(|_| ()));
        let (again, _) = again.unwrap();
        prop_assert_eq!(again.rewritten(&rig.disk), rig.disk);
    }
}
