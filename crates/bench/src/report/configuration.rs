//! The options of a run under memtier_benchmark's names, for the JSON file, `--show-config` and
//! the page. Invariant: no password is ever among them.

use std::path::Path;

use super::json::Json;
use crate::options::{
    CustomCommand, DataSize, Family, KeyPattern, Load, Mix, Options, Protocol, Until, Verify,
};

/// Names and values in memtier's order, ours at the end.
pub(super) fn values(options: &Options) -> Vec<(&'static str, Json)> {
    let mut values = connection(options);
    values.extend(amount(options));
    values.extend(data(&options.load));
    values.extend(keys(&options.load));
    values.extend(rest(options));
    values.extend(ours(options));
    values
}

fn connection(options: &Options) -> Vec<(&'static str, Json)> {
    let output = &options.output;
    let family = match options.family {
        None => "Unspecified",
        Some(Family::Ipv4) => "AF_INET",
        Some(Family::Ipv6) => "AF_INET6",
    };
    let protocol = match options.protocol {
        Protocol::Redis => "redis",
        Protocol::Resp2 => "resp2",
        Protocol::Resp3 => "resp3",
        Protocol::MemcacheText => "memcache_text",
        Protocol::MemcacheBinary => "memcache_binary",
    };
    let encryption = options.encryption.as_ref();
    vec![
        ("server", Json::text(&*options.server)),
        ("port", Json::whole(options.port)),
        ("unix socket", path(options.unix_socket.as_deref())),
        ("address family", Json::text(family)),
        ("protocol", Json::text(protocol)),
        ("out_file", path(output.file.as_deref())),
        ("tls", Json::flag(options.encryption.is_some())),
        ("cert", path(encryption.and_then(|it| it.certificate.as_deref()))),
        ("key", path(encryption.and_then(|it| it.key.as_deref()))),
        ("cacert", path(encryption.and_then(|it| it.authorities.as_deref()))),
        ("tls_skip_verify", Json::flag(encryption.is_some_and(|it| it.trusts_all))),
        ("sni", encryption.and_then(|it| it.sni.as_deref()).map_or(Json::Null, Json::text)),
        ("client_stats", path(output.client_stats.as_deref())),
        ("run_count", Json::whole(options.run_count)),
        ("debug", Json::whole(u64::from(output.debug))),
    ]
}

fn amount(options: &Options) -> Vec<(&'static str, Json)> {
    let (requests, seconds) = match options.until {
        Until::Requests(count) => (count, 0),
        Until::AllKeys => (0, 0),
        Until::Time(time) => (0, time.as_secs()),
    };
    let ratio = match options.load.mix {
        Mix::Ratio { set, get } => format!("{set}:{get}"),
        Mix::Commands(_) => "0:0".into(),
    };
    vec![
        ("requests", Json::whole(requests)),
        ("rate_limit", Json::whole(options.rate_limit.unwrap_or(0))),
        ("clients", Json::whole(options.clients)),
        ("threads", Json::whole(options.threads)),
        ("test_time", Json::whole(seconds)),
        ("ratio", Json::text(ratio)),
        ("pipeline", Json::whole(options.pipeline)),
    ]
}

fn data(load: &Load) -> Vec<(&'static str, Json)> {
    let values = &load.values;
    let (mut fixed, mut range, mut list, mut pattern) = (0, (0, 0), String::new(), "R");
    match &values.size {
        DataSize::Fixed(size) => fixed = *size,
        DataSize::Range { minimum, maximum, by_key } => {
            range = (*minimum, *maximum);
            pattern = if *by_key { "S" } else { "R" };
        }
        DataSize::List(sizes) => {
            let pairs: Vec<_> =
                sizes.iter().map(|(size, weight)| format!("{size}:{weight}")).collect();
            list = pairs.join(",");
        }
    }
    vec![
        ("data_size", Json::whole(fixed)),
        ("data_offset", Json::whole(values.offset)),
        ("random_data", Json::flag(values.random)),
        ("data_size_range", pair(range, ":")),
        ("data_size_list", Json::text(list)),
        ("data_size_pattern", Json::text(pattern)),
        ("expiry_range", pair(values.expiry.unwrap_or((0, 0)), ":")),
        ("data_import", Json::Null),
        ("data_verify", Json::flag(load.verify == Verify::AfterWriting)),
        ("verify_only", Json::flag(load.verify == Verify::Only)),
        ("generate_keys", Json::flag(false)),
    ]
}

fn keys(load: &Load) -> Vec<(&'static str, Json)> {
    let keys = &load.keys;
    let pattern = format!("{}:{}", letter(keys.patterns.0), letter(keys.patterns.1));
    vec![
        ("key_prefix", Json::text(String::from_utf8_lossy(&keys.prefix))),
        ("key_minimum", Json::whole(keys.minimum)),
        ("key_maximum", Json::whole(keys.maximum)),
        ("key_pattern", Json::text(pattern)),
        ("key_stddev", Json::decimal(keys.stddev.unwrap_or(0.0), 6)),
        ("key_median", Json::decimal(keys.median.unwrap_or(0.0), 6)),
        ("key_zipf_exp", Json::decimal(keys.zipf_exponent, 6)),
    ]
}

fn rest(options: &Options) -> Vec<(&'static str, Json)> {
    let authenticate = if options.authenticate.is_some() { "(hidden)" } else { "" };
    let wait = options.load.wait.as_ref();
    vec![
        ("reconnect_interval", Json::whole(options.reconnect_interval.unwrap_or(0))),
        ("multi_key_get", Json::whole(options.load.multi_key_get)),
        ("authenticate", Json::text(authenticate)),
        ("select-db", Json::whole(options.database)),
        ("no-expiry", Json::flag(false)),
        ("wait-ratio", pair(wait.map_or((0, 0), |wait| wait.ratio), ":")),
        ("num-slaves", pair(wait.map_or((0, 0), |wait| wait.replicas), ":")),
        ("wait-timeout", pair(wait.map_or((0, 0), |wait| wait.timeout_ms), "-")),
    ]
}

fn ours(options: &Options) -> Vec<(&'static str, Json)> {
    let mut values = vec![("cluster_mode", Json::flag(options.cluster))];
    if let Mix::Commands(commands) = &options.load.mix {
        values.push(("commands", Json::Array(commands.iter().map(command).collect())));
    }
    if options.until == Until::AllKeys {
        values.push(("all_keys", Json::flag(true)));
    }
    if let Some(rate) = options.open_loop {
        values.push(("open_loop", Json::decimal(rate, 2)));
    }
    if let Some(ramp) = options.ramp {
        values.push(("clients_start", Json::whole(ramp.start)));
        values.push(("clients_step", Json::whole(ramp.step)));
        values.push(("step_duration", Json::whole(ramp.every.as_secs())));
    }
    values.push(("distinct_client_seed", Json::flag(options.load.distinct_client_seed)));
    values.push(("randomize", Json::flag(options.load.randomize)));
    values
}

fn command(command: &CustomCommand) -> Json {
    let words: Vec<_> = command.words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    Json::object([
        ("command", Json::text(words.join(" "))),
        ("ratio", Json::whole(command.ratio)),
        ("key_pattern", Json::text(letter(command.key_pattern))),
    ])
}

fn letter(pattern: KeyPattern) -> &'static str {
    match pattern {
        KeyPattern::Random => "R",
        KeyPattern::Sequential => "S",
        KeyPattern::Parallel => "P",
        KeyPattern::Gaussian => "G",
        KeyPattern::Zipf => "Z",
    }
}

fn pair((first, second): (u32, u32), between: &str) -> Json {
    Json::text(format!("{first}{between}{second}"))
}

fn path(path: Option<&Path>) -> Json {
    path.map_or(Json::Null, |path| Json::text(path.to_string_lossy()))
}
