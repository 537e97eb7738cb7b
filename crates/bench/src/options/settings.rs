//! All settings by memtier's names: for `--show-config` and the `configuration` of the JSON.
//! Invariant: no password is among them.

use serde_json::{Value, json};

use super::{DataSize, Family, KeyPattern, Mix, Options, Protocol, Until, Verify};

impl Options {
    /// Names and values, in memtier's order; ours, which it does not have, at the end.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = self.connection_settings();
        settings.extend(self.test_settings());
        settings.extend(self.object_settings());
        settings.extend(self.key_settings());
        settings.extend(self.own_settings());
        settings
    }

    /// What `--show-config` prints: one setting a line, `name = value`.
    #[must_use]
    pub fn show(&self) -> String {
        let line = |(name, value): &(&str, Value)| match value {
            Value::Null => format!("{name} = \n"),
            Value::String(text) => format!("{name} = {text}\n"),
            other => format!("{name} = {other}\n"),
        };
        self.settings().iter().map(line).collect()
    }

    fn connection_settings(&self) -> Vec<(&'static str, Value)> {
        let family = match self.family {
            None => "Unspecified",
            Some(Family::Ipv4) => "AF_INET",
            Some(Family::Ipv6) => "AF_INET6",
        };
        let protocol = match self.protocol {
            Protocol::Redis => "redis",
            Protocol::Resp2 => "resp2",
            Protocol::Resp3 => "resp3",
        };
        let user = self.authenticate.as_ref().map(|(user, _)| user.as_deref().unwrap_or("default"));
        vec![
            ("server", json!(self.server)),
            ("port", json!(self.port)),
            ("unix socket", json!(self.unix_socket)),
            ("address family", json!(family)),
            ("protocol", json!(protocol)),
            ("out_file", json!(self.output.file)),
            ("tls", json!("false")),
            ("client_stats", json!(self.output.client_stats)),
            ("run_count", json!(self.run_count)),
            ("debug", json!(u8::from(self.output.debug))),
            ("authenticate", json!(user)),
            ("select-db", json!(self.database)),
            ("cluster_mode", flag(self.cluster)),
        ]
    }

    fn test_settings(&self) -> Vec<(&'static str, Value)> {
        let requests = match self.until {
            Until::Requests(count) => json!(count),
            Until::AllKeys => json!("allkeys"),
            Until::Time(_) => json!(0),
        };
        let test_time = match self.until {
            Until::Time(time) => time.as_secs(),
            Until::Requests(_) | Until::AllKeys => 0,
        };
        let ratio = match &self.load.mix {
            Mix::Ratio { set, get } => format!("{set}:{get}"),
            Mix::Commands(commands) => {
                let ratios: Vec<String> =
                    commands.iter().map(|command| command.ratio.to_string()).collect();
                ratios.join(":")
            }
        };
        let ramp = self.ramp.map(|ramp| (ramp.start, ramp.step, ramp.every.as_secs()));
        let (start, step, duration) = ramp.unwrap_or_default();
        vec![
            ("requests", requests),
            ("rate_limit", json!(self.rate_limit.unwrap_or(0))),
            ("clients", json!(self.clients)),
            ("threads", json!(self.threads)),
            ("test_time", json!(test_time)),
            ("clients_start", json!(start)),
            ("clients_step", json!(step)),
            ("step_duration", json!(duration)),
            ("ratio", json!(ratio)),
            ("pipeline", json!(self.pipeline)),
            ("reconnect_interval", json!(self.reconnect_interval.unwrap_or(0))),
            ("multi_key_get", json!(self.load.multi_key_get)),
            ("distinct_client_seed", flag(self.load.distinct_client_seed)),
            ("randomize", flag(self.load.randomize)),
        ]
    }

    fn object_settings(&self) -> Vec<(&'static str, Value)> {
        let values = &self.load.values;
        let (mut size, mut range, mut list, mut pattern) = (0, (0, 0), String::new(), "R");
        match &values.size {
            DataSize::Fixed(fixed) => size = *fixed,
            DataSize::Range { minimum, maximum, by_key } => {
                range = (*minimum, *maximum);
                pattern = if *by_key { "S" } else { "R" };
            }
            DataSize::List(sizes) => {
                let items: Vec<String> =
                    sizes.iter().map(|(size, weight)| format!("{size}:{weight}")).collect();
                list = items.join(",");
            }
        }
        vec![
            ("data_size", json!(size)),
            ("data_offset", json!(values.offset)),
            ("random_data", flag(values.random)),
            ("data_size_range", range_text(range)),
            ("data_size_list", json!(list)),
            ("data_size_pattern", json!(pattern)),
            ("expiry_range", range_text(values.expiry.unwrap_or_default())),
            ("data_verify", flag(self.load.verify != Verify::No)),
            ("verify_only", flag(self.load.verify == Verify::Only)),
            ("no-expiry", flag(values.expiry.is_none())),
        ]
    }

    fn key_settings(&self) -> Vec<(&'static str, Value)> {
        let keys = &self.load.keys;
        let (set, get) = keys.patterns;
        let wait = self.load.wait.as_ref();
        let (sets, waits) = wait.map_or((0, 0), |wait| wait.ratio);
        vec![
            ("key_prefix", json!(String::from_utf8_lossy(&keys.prefix))),
            ("key_minimum", json!(keys.minimum)),
            ("key_maximum", json!(keys.maximum)),
            ("key_pattern", json!(format!("{}:{}", letter(set), letter(get)))),
            ("key_stddev", json!(keys.stddev.unwrap_or(0.0))),
            ("key_median", json!(keys.median.unwrap_or(0.0))),
            ("key_zipf_exp", json!(keys.zipf_exponent)),
            ("wait-ratio", json!(format!("{sets}:{waits}"))),
            ("num-slaves", range_text(wait.map_or((0, 0), |wait| wait.replicas))),
            ("wait-timeout", range_text(wait.map_or((0, 0), |wait| wait.timeout_ms))),
        ]
    }

    fn own_settings(&self) -> Vec<(&'static str, Value)> {
        let commands: Vec<String> = match &self.load.mix {
            Mix::Ratio { .. } => Vec::new(),
            Mix::Commands(commands) => commands
                .iter()
                .map(|command| {
                    let words: Vec<String> =
                        command.words.iter().map(|word| base::quote::quote(word)).collect();
                    format!("{} {}", letter(command.key_pattern), words.join(" "))
                })
                .collect(),
        };
        vec![
            ("commands", json!(commands)),
            ("open_loop", json!(self.open_loop.unwrap_or(0.0))),
            ("html_out_file", json!(self.output.html)),
        ]
    }
}

/// memtier writes its flags as text.
fn flag(on: bool) -> Value {
    json!(if on { "true" } else { "false" })
}

fn range_text((least, most): (u32, u32)) -> Value {
    json!(format!("{least}:{most}"))
}

fn letter(pattern: KeyPattern) -> char {
    match pattern {
        KeyPattern::Random => 'R',
        KeyPattern::Sequential => 'S',
        KeyPattern::Parallel => 'P',
        KeyPattern::Gaussian => 'G',
        KeyPattern::Zipf => 'Z',
    }
}
