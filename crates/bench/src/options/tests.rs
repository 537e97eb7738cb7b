//! What must be true of the command line.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, prop, prop_oneof};
use proptest::strategy::{Just, Strategy};

use super::Peer;
use super::{
    CustomCommand, DataSize, Family, KeyPattern, Mix, Options, Protocol, Ramp, Request, Statsd,
    Until, Verify, Wait, flags, help,
};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

fn parse_words(words: &[&str]) -> Result<Request, String> {
    Options::parse(&words.iter().copied().map(String::from).collect::<Vec<_>>())
}

fn options(line: &str) -> Options {
    match Options::parse(&words(line)) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn error(line: &str) -> String {
    match Options::parse(&words(line)) {
        Err(message) => message,
        Ok(request) => panic!("{line}: {request:?}"),
    }
}

/// All of it but for the pinned types, which have no equality.
fn text(options: &Options) -> String {
    format!("{options:?}")
}

#[test]
fn no_words_give_memtiers_defaults() {
    let options = options("");
    assert_eq!((options.server.as_str(), options.port), ("127.0.0.1", 6379));
    assert_eq!((options.threads, options.clients, options.pipeline), (4, 50, 1));
    assert_eq!(options.until, Until::Requests(10_000));
    assert_eq!(options.load.mix, Mix::Ratio { set: 1, get: 10 });
    assert_eq!(options.load.values.size, DataSize::Fixed(32));
    assert_eq!(options.load.keys.prefix, b"memtier-");
    assert_eq!((options.load.keys.minimum, options.load.keys.maximum), (0, 10_000_000));
    assert_eq!(options.load.keys.patterns, (KeyPattern::Random, KeyPattern::Random));
    assert_eq!(options.output.percentiles, [50.0, 99.0, 99.9]);
    assert_eq!(text(&options), text(&Options::default()));
}

type Holds = fn(&Options) -> bool;

/// Spellings that mean the same, and one thing that they set.
static FLAGS: &[(&[&str], Holds)] = &[
    (&["-s a", "-sa", "--server=a", "--server a", "-h a", "--host a"], |o| o.server == "a"),
    (&["-p 7", "-p7", "--port=7", "--port 7"], |o| o.port == 7),
    (&["-S /a", "--unix-socket=/a"], |o| o.unix_socket == Some("/a".into())),
    (&["-4", "--ipv4"], |o| o.family == Some(Family::Ipv4)),
    (&["-6", "--ipv6"], |o| o.family == Some(Family::Ipv6)),
    (&["-P redis", "--protocol=redis"], |o| o.protocol == Protocol::Redis),
    (&["-P resp2", "--protocol resp2"], |o| o.protocol == Protocol::Resp2),
    (&["-Presp3", "--protocol=resp3"], |o| o.protocol == Protocol::Resp3),
    (&["-P memcache_text"], |o| o.protocol == Protocol::MemcacheText),
    (&["-P memcache_binary"], |o| o.protocol == Protocol::MemcacheBinary),
    (&["--tls", "-u rediss://h"], |o| o.encryption.is_some()),
    (&["--tls --cert=c --key k"], |o| {
        let own = o.encryption.as_ref().map(|it| (it.certificate.clone(), it.key.clone()));
        own == Some((Some("c".into()), Some("k".into())))
    }),
    (&["--tls --cacert f"], |o| {
        o.encryption.as_ref().and_then(|it| it.authorities.clone()) == Some("f".into())
    }),
    (&["--tls --tls-skip-verify"], |o| o.encryption.as_ref().is_some_and(|it| it.trusts_all)),
    (&["--tls --tls-protocols=TLSv1.2,TLSv1.3"], |o| {
        o.encryption.as_ref().is_some_and(|it| it.protocols == "TLSv1.2 TLSv1.3")
    }),
    (&["--tls --tls-resume"], |o| o.encryption.as_ref().is_some_and(|it| it.resumes)),
    (&["--tls --sni h"], |o| {
        o.encryption.as_ref().is_some_and(|it| it.sni.as_deref() == Some("h"))
    }),
    (&["-a pw", "--authenticate=pw"], |o| o.authenticate == Some((None, "pw".into()))),
    (&["-a u:p:q", "--authenticate u:p:q"], |o| {
        o.authenticate == Some((Some("u".into()), "p:q".into()))
    }),
    (&["--cluster-mode"], |o| o.cluster),
    (&["-x 3", "--run-count=3"], |o| o.run_count == 3),
    (&["-D", "--debug"], |o| o.output.debug),
    (&["-o f", "--out-file=f"], |o| o.output.file == Some("f".into())),
    (&["--json-out-file=f", "--json-out-file f"], |o| o.output.json == Some("f".into())),
    (&["--html-out-file=f"], |o| o.output.html == Some("f".into())),
    (&["--client-stats=f"], |o| o.output.client_stats == Some("f".into())),
    (&["--hdr-file-prefix=f"], |o| o.output.hdr_prefix == Some("f".into())),
    (&["--show-config"], |o| o.output.show_config),
    (&["--hide-histogram"], |o| o.output.hide_histogram),
    (&["--print-percentiles 90,99.99,100"], |o| o.output.percentiles == [90.0, 99.99, 100.0]),
    (&["--print-all-runs"], |o| o.output.all_runs),
    (&["-n 9", "-n9", "--requests=9"], |o| o.until == Until::Requests(9)),
    (&["-n allkeys", "--requests allkeys"], |o| o.until == Until::AllKeys),
    (&["--test-time=9"], |o| o.until == Until::Time(Duration::from_secs(9))),
    (&["--rate-limiting=9"], |o| o.rate_limit == Some(9)),
    (&["--open-loop 2.5"], |o| o.open_loop == Some(2.5)),
    (&["--silence-limit 7"], |o| o.silence_limit == Duration::from_secs(7)),
    (&["--against 127.0.0.1:7001", "--against 7001"], |o| {
        o.against == [Peer { server: "127.0.0.1".into(), port: 7001 }]
    }),
    (&["--against [::1]:7001"], |o| o.against == [Peer { server: "::1".into(), port: 7001 }]),
    (&["-c 9", "--clients=9"], |o| o.clients == 9),
    (&["-t 9", "-t9", "--threads=9"], |o| o.threads == 9),
    (&["--clients-start 2 --clients-step 3 --step-duration 4"], |o| {
        o.ramp == Some(Ramp { start: 2, step: 3, every: Duration::from_secs(4) })
    }),
    (&["--ratio 1:0", "--ratio=1:0"], |o| o.load.mix == Mix::Ratio { set: 1, get: 0 }),
    (&["--pipeline 30", "--pipeline=30"], |o| o.pipeline == 30),
    (&["--reconnect-interval=5"], |o| o.reconnect_interval == Some(5)),
    (&["--reconnect-interval=0"], |o| o.reconnect_interval.is_none()),
    (&["--multi-key-get=5"], |o| o.load.multi_key_get == 5),
    (&["--select-db=5"], |o| o.database == 5),
    (&["--distinct-client-seed"], |o| o.load.distinct_client_seed),
    (&["--randomize"], |o| o.load.randomize),
    (&["-d 256", "-d256", "--data-size=256"], |o| o.load.values.size == DataSize::Fixed(256)),
    (&["--data-offset=5"], |o| o.load.values.offset == 5),
    (&["-R", "--random-data"], |o| o.load.values.random),
    (&["--data-size-range=4-204", "--data-size-range=4\u{2013}204"], |o| {
        o.load.values.size == DataSize::Range { minimum: 4, maximum: 204, by_key: false }
    }),
    (&["--data-size-range=4-204 --data-size-pattern=S"], |o| {
        o.load.values.size == DataSize::Range { minimum: 4, maximum: 204, by_key: true }
    }),
    (&["--data-size-list=8:1,16:3"], |o| {
        o.load.values.size == DataSize::List(vec![(8, 1), (16, 3)])
    }),
    (&["--expiry-range=10-20"], |o| o.load.values.expiry == Some((10, 20))),
    (&["--expiry-range=10-20 --no-expiry"], |o| o.load.values.expiry.is_none()),
    (&["--data-verify"], |o| o.load.verify == Verify::AfterWriting),
    (&["--verify-only", "--verify-only --data-verify", "--data-verify --verify-only"], |o| {
        o.load.verify == Verify::Only
    }),
    (&["--key-prefix=k", "--key-prefix k"], |o| o.load.keys.prefix == b"k"),
    (&["--key-minimum=5"], |o| o.load.keys.minimum == 5),
    (&["--key-maximum 1000000"], |o| o.load.keys.maximum == 1_000_000),
    (&["--key-pattern=S:Z"], |o| {
        o.load.keys.patterns == (KeyPattern::Sequential, KeyPattern::Zipf)
    }),
    (&["--key-pattern=P:G --key-median=20000000 --key-maximum=30000000"], |o| {
        o.load.keys.median == Some(20_000_000.0)
            && o.load.keys.patterns == (KeyPattern::Parallel, KeyPattern::Gaussian)
    }),
    (&["--key-pattern=G:G --key-stddev=2.5"], |o| o.load.keys.stddev == Some(2.5)),
    (&["--key-pattern=Z:Z --key-zipf-exp=0.8"], |o| o.load.keys.zipf_exponent == 0.8),
    (&["--wait-ratio=10:1 --num-slaves=1-2 --wait-timeout=50-150"], |o| {
        let wait = Wait { ratio: (10, 1), replicas: (1, 2), timeout_ms: (50, 150) };
        o.load.wait == Some(wait)
    }),
    (&["--wait-ratio=1:0"], |o| o.load.wait.is_none()),
    (&["--statsd-host=h"], |o| {
        let (host, prefix, label) = ("h".into(), "memtier".into(), "default".into());
        o.output.statsd == Some(Statsd { host, port: 8125, prefix, label })
    }),
    (&["--statsd-host h --statsd-port 9 --statsd-prefix p --statsd-run-label l"], |o| {
        let (host, prefix, label) = ("h".into(), "p".into(), "l".into());
        o.output.statsd == Some(Statsd { host, port: 9, prefix, label })
    }),
];

#[test]
fn each_flag_sets_what_it_says_however_it_is_spelt() {
    for (lines, holds) in FLAGS {
        assert!(!holds(&options("")) || lines[0].contains(['0', 'P']), "{lines:?} by default");
        for line in *lines {
            assert!(holds(&options(line)), "{line}");
        }
    }
    let tried: String = FLAGS.iter().flat_map(|(lines, _)| lines.iter().copied()).collect();
    let elsewhere = ["uri", "preset", "help", "version", "command", "command-ratio"];
    for flag in flags::all().filter(|flag| !elsewhere.contains(&flag.long)) {
        let long = format!("--{}", flag.long);
        assert!(tried.contains(&long) || flag.long == "command-key-pattern", "{long} untried");
    }
}

#[test]
fn the_commands_of_the_published_quarrel_parse_unchanged() {
    let redis = "-t 24 -c 1 --test-time 180 --distinct-client-seed -d 256 --cluster-mode \
                 -s 10.3.1.88 --port 30001 --key-maximum 1000000 --hide-histogram";
    let dragonfly = "-t 55 -c 30 -n 200000 --distinct-client-seed -d 256 -s 10.3.1.6 \
                     --key-maximum 1000000 --hide-histogram";
    for (ratio, (set, get)) in [("0:1", (0, 1)), ("1:0", (1, 0))] {
        for pipeline in [1, 30] {
            let depth = if pipeline > 1 { " --pipeline 30" } else { "" };
            let common = |options: &Options| {
                assert_eq!(options.load.mix, Mix::Ratio { set, get });
                assert_eq!(options.pipeline, pipeline);
                assert_eq!(options.load.values.size, DataSize::Fixed(256));
                assert_eq!(options.load.keys.maximum, 1_000_000);
                assert!(options.load.distinct_client_seed && options.output.hide_histogram);
            };
            let line = format!("--ratio {ratio} {redis}{depth}");
            let parsed = options(&line);
            common(&parsed);
            assert_eq!((parsed.threads, parsed.clients, parsed.cluster), (24, 1, true));
            assert_eq!(parsed.until, Until::Time(Duration::from_secs(180)));
            assert_eq!((parsed.server.as_str(), parsed.port), ("10.3.1.88", 30001));
            let typeset = line.replace("--", "\u{2013}").replace(" -", " \u{2013}");
            assert_eq!(text(&options(&typeset)), text(&parsed), "{typeset}");

            let line = format!("--ratio {ratio} {dragonfly}{depth}");
            let parsed = options(&line);
            common(&parsed);
            assert_eq!((parsed.threads, parsed.clients, parsed.cluster), (55, 30, false));
            assert_eq!(parsed.until, Until::Requests(200_000));
            assert_eq!((parsed.server.as_str(), parsed.port), ("10.3.1.6", 6379));
        }
    }
}

#[test]
fn other_published_command_lines_parse() {
    for line in [
        "-c 20 --test-time 100 -t 4 -d 256 --distinct-client-seed",
        "--ratio 1:0 -t 16 -c 30 -n 200000 --distinct-client-seed -d 256 --expiry-range=500-500",
        "-s host -p 6379 --threads=12 --hide-histogram",
        "-t 20 -c 50 --data-size=128 --ratio=1:0 --key-pattern=P:P",
        "--ratio=1:0 --test-time=60 --rate-limiting=100 -t 2 -c 50 --key-pattern=P:P \
         --key-maximum 1000000",
        "-s myserver -p 1 -a mypasswd -c 50 --threads=10 --ratio=1:1 --random-data \
         --data-size-range=4-204 --expiry-range=10-2000 --data-size-pattern=S --key-minimum=200 \
         --key-maximum=400 --key-pattern=G:G --key-stddev=10 --key-median=300 --test-time=600 \
         --select-db=10",
    ] {
        options(line);
    }
}

#[test]
fn any_dash_that_typography_leaves_is_a_dash() {
    let plain = text(&options("--ratio 1:0 -t4 --test-time 5 -d 256"));
    for (two, one) in [
        ("\u{2013}", "\u{2013}"),
        ("\u{2014}", "\u{2212}"),
        ("\u{2013}\u{2013}", "\u{2011}"),
        ("-\u{2013}", "\u{2010}"),
        ("\u{2212}\u{2212}", "\u{2012}"),
        ("\u{2015}", "-"),
    ] {
        let line = format!("{two}ratio 1:0 {one}t4 {two}test-time 5 {one}d 256");
        assert_eq!(text(&options(&line)), plain, "{line}");
    }
    assert_eq!(text(&options("--ratio=1:0 -t4 \u{2014}test\u{2011}time=5 -d256")), plain);
}

#[test]
fn short_flags_come_in_bundles_and_long_ones_may_be_cut_short() {
    assert_eq!(text(&options("-RDd 5")), text(&options("-R -D -d 5")));
    assert_eq!(text(&options("-RDd5")), text(&options("-R -D -d 5")));
    assert_eq!(text(&options("--pipe 3 --key-max=5 --key-pat R:S")), {
        text(&options("--pipeline 3 --key-maximum 5 --key-pattern R:S"))
    });
    let ambiguous = error("--data-s 5");
    assert!(ambiguous.starts_with("apus bench: option '--data-s' is ambiguous"), "{ambiguous}");
    assert!(ambiguous.contains("'--data-size' '--data-size-range'"), "{ambiguous}");
}

#[test]
fn a_value_may_look_like_a_flag() {
    assert_eq!(options("--key-prefix -x").load.keys.prefix, b"-x");
    assert_eq!(options("--key-prefix=--ratio").load.keys.prefix, b"--ratio");
    let Ok(Request::Run(options)) = parse_words(&["--key-prefix", ""]) else {
        panic!("an empty prefix is one");
    };
    assert_eq!(options.load.keys.prefix, b"");
}

#[test]
fn help_and_version_are_asked_for() {
    for line in ["--help", "-h", "-t 4 -h", "-h -t 4", "--hel"] {
        assert!(matches!(Options::parse(&words(line)), Ok(Request::Help)), "{line}");
    }
    for line in ["--version", "-v", "-Dv"] {
        assert!(matches!(Options::parse(&words(line)), Ok(Request::Version)), "{line}");
    }
}

#[test]
fn a_preset_takes_all_other_words_as_they_are() {
    let expected = ["-s", "a", "--noise", "cpu,disk", "--ratio", "nonsense"];
    for line in [
        "--preset garantia -s a --noise cpu,disk --ratio nonsense",
        "-s a --noise cpu,disk --ratio nonsense --preset=garantia",
        "-s a --noise cpu,disk \u{2013}preset garantia --ratio nonsense",
    ] {
        let Ok(Request::Preset(name, rest)) = Options::parse(&words(line)) else {
            panic!("{line}");
        };
        assert_eq!((name.as_str(), rest.as_slice()), ("garantia", &words(&expected.join(" "))[..]));
    }
    assert_eq!(error("--preset"), "apus bench: option '--preset' requires an argument");
}

#[test]
fn commands_keep_their_order_ratios_and_patterns() {
    let request = parse_words(&[
        "--command=set __key__ \"a b\"",
        "--command-ratio=2",
        "--command-key-pattern=G",
        "--command",
        "hset {T:__key__} f __data__",
        "--key-stddev=3",
    ]);
    let Ok(Request::Run(options)) = request else {
        panic!("{request:?}");
    };
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let set = CustomCommand {
        words: words(&["set", "__key__", "a b"]),
        ratio: 2,
        key_pattern: KeyPattern::Gaussian,
    };
    let hset = CustomCommand {
        words: words(&["hset", "{T:__key__}", "f", "__data__"]),
        ratio: 1,
        key_pattern: KeyPattern::Random,
    };
    assert_eq!(options.load.mix, Mix::Commands(vec![set, hset]));
}

#[test]
fn a_uri_sets_what_it_names_and_overrides_the_flags() {
    type Said<'a> = (&'a str, u16, Option<(Option<&'a str>, &'a str)>, u32);
    let table: &[(&str, Said)] = &[
        ("-u redis://h", ("h", 6379, None, 0)),
        ("--uri=redis://h:7", ("h", 7, None, 0)),
        ("--uri redis://u:p@h:7/3", ("h", 7, Some((Some("u"), "p")), 3)),
        ("-u redis://p@h/3", ("h", 6379, Some((None, "p")), 3)),
        ("-u redis://:p@h", ("h", 6379, Some((None, "p")), 0)),
        ("-u redis://u:a%40b%3a@h", ("h", 6379, Some((Some("u"), "a@b:")), 0)),
        ("-u redis://[::1]:7", ("::1", 7, None, 0)),
        ("-u redis://[::1]/2", ("::1", 6379, None, 2)),
        ("-u redis://h:7 -s other -p 8 -a x:y", ("h", 7, Some((Some("x"), "y")), 0)),
        ("-p 8 --select-db 2 -u redis://h", ("h", 8, None, 2)),
    ];
    for (line, (server, port, authenticate, database)) in table {
        let options = options(line);
        assert_eq!((options.server.as_str(), options.port), (*server, *port), "{line}");
        let said = options.authenticate.as_ref();
        let said = said.map(|(user, password)| (user.as_deref(), password.as_str()));
        assert_eq!((said, options.database), (*authenticate, *database), "{line}");
    }
}

/// Command lines, and what is said of them.
static REFUSALS: &[(&str, &str)] = &[
    ("--foo", "apus bench: unrecognized option '--foo'"),
    ("---foo=1", "apus bench: unrecognized option '--foo'"),
    ("--=1", "apus bench: unrecognized option '--'"),
    ("-q", "apus bench: invalid option -- 'q'"),
    ("-Dq", "apus bench: invalid option -- 'q'"),
    ("\u{2013}qrs", "apus bench: invalid option -- 'q'"),
    ("-p", "apus bench: option requires an argument -- 'p'"),
    ("--port", "apus bench: option '--port' requires an argument"),
    ("--cluster-mode=1", "apus bench: option '--cluster-mode' doesn't allow an argument"),
    ("stray", "error: unexpected argument 'stray'."),
    ("-t 4 -", "error: unexpected argument '-'."),
    ("-- -t", "error: unexpected argument '-t'."),
    ("--tls-skip", "error: --tls-skip-verify needs --tls."),
    ("--cacert f -p 1", "error: --cacert needs --tls."),
    ("\u{2013}tls --cert f", "error: --cert and --key go together."),
    ("-u rediss://h --key f", "error: --cert and --key go together."),
    ("--tls -S s", "error: --tls and --unix-socket are mutually exclusive."),
    ("--monitor-input=f", "error: --monitor-input is not supported."),
    ("--data-import f", "error: --data-import is not supported."),
    ("-P memcache", "error: protocol 'memcache' is not supported."),
    ("-P memcache_text --command=GET", "error: memcached's protocols have no command."),
    ("-P memcache_text --cluster-mode", "error: memcached's protocols have no cluster-mode."),
    ("-P memcache_text --select-db=1", "error: memcached's protocols have no select-db."),
    ("-P memcache_binary --data-offset=1", "error: memcached's protocols have no data-offset."),
    ("-P memcache_binary --wait-ratio=1:1", "error: memcached's protocols have no wait-ratio."),
    ("-P memcache_binary --multi-key-get=2", "error: memcached's protocols have no multi-key-get."),
    ("-p 0", "error: port must be a number in the range [1-65535]."),
    ("-p 65536", "error: port must be a number in the range [1-65535]."),
    ("-t 0", "error: threads must be a number greater than zero."),
    ("-c x", "error: clients must be a number greater than zero."),
    ("-n 0", "error: requests must be a number greater than zero."),
    ("-n some", "error: requests must be a number greater than zero."),
    ("-x 0", "error: run-count must be a number greater than zero."),
    ("--pipeline 0", "error: pipeline must be a number greater than zero."),
    ("--test-time 0", "error: test-time must be a number greater than zero."),
    ("--rate-limiting 0", "error: rate-limiting must be a number greater than zero."),
    ("--open-loop 0", "error: open-loop must be greater than zero."),
    ("--against :7001", "error: against ':7001' names no host."),
    ("--against there", "error: against must be a number in the range [1-65535]."),
    (
        "--against 7001 --client-stats x",
        "error: --against and --client-stats are mutually exclusive.",
    ),
    ("--open-loop inf", "error: open-loop must be greater than zero."),
    ("--ratio 1", "error: ratio must be expressed as [0-n]:[0-n]."),
    ("--ratio 0:0", "error: ratio must have at least one number above zero."),
    ("-d 0", "error: data-size must be a number in the range [1-1073741824]."),
    ("--data-size-range 0-4", "error: data-size-range must lie in the range [1-1073741824]."),
    (
        "--data-size-range 5-4",
        "error: data-size-range must be expressed as [0-n]-[0-n], the least first.",
    ),
    (
        "--data-size-list 5",
        "error: data-size-list must be expressed as [size1:weight1],...[sizeN:weightN].",
    ),
    ("--data-size-list 5:0", "error: data-size-list must be a number greater than zero."),
    ("--data-size-pattern X", "error: data-size-pattern must be either R or S."),
    ("--data-size-pattern S", "error: data-size-pattern can only be used with data-size-range."),
    (
        "-d 5 --data-size-range 1-2",
        "error: data-size, data-size-range and data-size-list are mutually exclusive.",
    ),
    ("--key-pattern R", "error: key-pattern must be in the format of [S/R/G/P/Z]:[S/R/G/P/Z]."),
    (
        "--key-minimum -1",
        "error: key-minimum must be a number in the range [0-9223372036854775807].",
    ),
    ("--key-minimum 5 --key-maximum 4", "error: key-maximum must be at least key-minimum."),
    (
        "--key-pattern G:G --key-maximum 4 --key-median 5",
        "error: key-median must be between key-minimum and key-maximum.",
    ),
    (
        "--key-pattern G:G --key-median nan",
        "error: key-median must be between key-minimum and key-maximum.",
    ),
    ("--key-stddev 5", "error: key-stddev is only allowed with a key pattern of G."),
    ("--key-zipf-exp 2", "error: key-zipf-exp is only allowed with a key pattern of Z."),
    ("--key-zipf-exp 5", "error: key-zipf-exp must be within the interval (0, 5)."),
    (
        "--key-pattern Z:R --key-maximum 0",
        "error: a key pattern of Z needs a key-maximum above zero.",
    ),
    (
        "--key-pattern P:R --key-maximum 198",
        "error: a key pattern of P needs a key for each of the 200 clients.",
    ),
    ("-n 5 --test-time 5", "error: --test-time and --requests are mutually exclusive."),
    (
        "--rate-limiting 5 --open-loop 5",
        "error: --rate-limiting and --open-loop are mutually exclusive.",
    ),
    ("--num-slaves 1-1", "error: num-slaves can only be used with wait-ratio."),
    ("--wait-ratio 1:1 --ratio 0:1", "error: wait-ratio needs SETs."),
    (
        "--clients-start 5",
        "error: clients-start, clients-step and step-duration must be used together.",
    ),
    (
        "-c 5 --clients-start 5 --clients-step 1 --step-duration 1",
        "error: clients-start must be less than clients.",
    ),
    ("--statsd-port 5", "error: statsd-port can only be used with statsd-host."),
    ("--command-ratio 2", "error: command-ratio must follow the command that it is about."),
    (
        "--command monitor",
        "error: command MONITOR is not supported: it is not answered by one reply per request.",
    ),
    ("--command \"x", "error: command '\"x' cannot be split in words."),
    (
        "--command get --command-key-pattern Q",
        "error: command-key-pattern must be in the format of [S/R/G/P/Z].",
    ),
    (
        "--command get --ratio 1:1",
        "error: when using arbitrary command, --ratio is not allowed: its ratio is set by \
         --command-ratio.",
    ),
    ("--data-offset 1 --expiry-range 1-1", "error: data-offset cannot be used with expiry-range."),
    ("--data-offset 1 --multi-key-get 1", "error: data-offset cannot be used with multi-key-get."),
    ("--data-verify --ratio 0:1", "error: data-verify needs SETs; see verify-only."),
    ("--cluster-mode --select-db 1", "error: cluster mode does not support select-db."),
    ("--cluster-mode -S /a", "error: cluster mode does not support unix-socket."),
    ("--cluster-mode --multi-key-get 2", "error: cluster mode does not support multi-key-get."),
    ("--cluster-mode --wait-ratio 1:1", "error: cluster mode does not support wait-ratio."),
    (
        "--print-percentiles 101",
        "error: print-percentiles must be numbers greater than 0 and up to 100.",
    ),
    ("-u http://h", "error: uri: unknown scheme; expected redis://user:password@host:port/db."),
    ("-u redis://", "error: uri: no host; expected redis://user:password@host:port/db."),
    ("-u redis://[::1", "error: uri: malformed host; expected redis://user:password@host:port/db."),
    ("-u redis://a%4@h", "error: uri: bad escape; expected redis://user:password@host:port/db."),
    ("-u redis://a%+4@h", "error: uri: bad escape; expected redis://user:password@host:port/db."),
    ("-u redis://h/x", "error: database must be a number, not 'x'."),
];

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (line, reason) in REFUSALS {
        assert_eq!(error(line), *reason, "{line}");
    }
}

#[test]
fn help_names_every_flag() {
    let help = help();
    for flag in flags::all() {
        assert!(help.contains(&format!("--{}", flag.long)), "{}", flag.long);
    }
    for line in help.lines() {
        assert!(line.len() <= 100, "{line}");
    }
    assert!(help.contains("\n  -s, --server=ADDR               Server address"), "{help}");
}

#[test]
fn paths_are_kept_as_they_are() {
    assert_eq!(options("-o a/b.txt").output.file, Some(PathBuf::from("a/b.txt")));
}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_words_make_the_parser_panic(words in prop::collection::vec(word(), 0..6)) {
        let _ = Options::parse(&words);
    }
}

/// Values that some flag takes.
const VALUES: &[&str] =
    &["1", "0", "1:1", "5-9", "R:Z", "8:1,9:2", "redis://a:b@c:1/2", "x\u{2013}y", "%"];

/// Anything, but mostly what looks like flags and their values.
fn word() -> impl Strategy<Value = String> {
    let longs: Vec<&str> = flags::all().map(|flag| flag.long).collect();
    let long = prop::sample::select(longs);
    let value = || prop::sample::select(VALUES);
    prop_oneof![
        4 => long.clone().prop_map(|long| format!("--{long}")),
        2 => (long, value())
            .prop_map(|(long, value)| format!("\u{2014}{long}={value}")),
        2 => value().prop_map(String::from),
        2 => "-[a-zA-Z0-9=]{0,4}",
        1 => Just(String::new()),
        2 => any::<String>(),
        1 => "[-\u{2010}-\u{2015}]{0,3}[a-z%=:@/-]{0,8}",
    ]
}
