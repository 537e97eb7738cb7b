//! Which settings make sense together. Invariant: what passes here can be run as it was asked
//! for, with nothing that was given left out.

use super::draft::Draft;
use super::{DataSize, KeyPattern, Mix, Options, Protocol, Ramp, Until, Verify, Wait};

impl Draft {
    /// The options, if they make sense.
    pub(super) fn finish(mut self) -> Result<Options, String> {
        self.settle_address();
        self.settle_encryption()?;
        self.settle_end()?;
        self.settle_sizes()?;
        self.settle_mix()?;
        self.settle_wait()?;
        self.settle_ramp()?;
        self.settle_statsd()?;
        if self.no_expiry {
            self.options.load.values.expiry = None;
        }
        self.check_keys()?;
        self.check_load()?;
        self.check_cluster()?;
        self.check_protocol()?;
        self.check_rivals()?;
        Ok(self.options)
    }

    /// A comparison has one report: what belongs to a single run is refused.
    fn check_rivals(&self) -> Result<(), String> {
        let output = &self.options.output;
        let of_one_run = [
            ("--hdr-file-prefix", output.hdr_prefix.is_some()),
            ("--client-stats", output.client_stats.is_some()),
            ("--print-all-runs", output.all_runs),
        ];
        match of_one_run.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if !self.options.against.is_empty() => {
                Err(format!("error: --against and {flag} are mutually exclusive."))
            }
            _ => Ok(()),
        }
    }

    fn settle_address(&mut self) {
        let Some(address) = self.address.take() else {
            return;
        };
        let options = &mut self.options;
        options.server = address.server;
        options.port = address.port.unwrap_or(options.port);
        options.database = address.database.unwrap_or(options.database);
        options.authenticate = address.authenticate.or(options.authenticate.take());
        options.unix_socket = None;
        self.is_encrypted |= address.is_encrypted;
    }

    /// Flags about encryption mean nothing without it.
    fn settle_encryption(&mut self) -> Result<(), String> {
        const OTHERS: &[&str] =
            &["cert", "key", "cacert", "tls-skip-verify", "tls-protocols", "sni", "tls-resume"];
        if !self.is_encrypted {
            return match self.first_of(OTHERS) {
                Some(flag) => Err(format!("error: --{flag} needs --tls.")),
                None => Ok(()),
            };
        }
        if self.options.unix_socket.is_some() {
            return Err("error: --tls and --unix-socket are mutually exclusive.".into());
        }
        if self.has("cert") != self.has("key") {
            return Err("error: --cert and --key go together.".into());
        }
        self.options.encryption = Some(std::mem::take(&mut self.encryption));
        Ok(())
    }

    fn settle_end(&mut self) -> Result<(), String> {
        self.options.until = match (self.requests, self.test_time) {
            (Some(_), Some(_)) => {
                return Err("error: --test-time and --requests are mutually exclusive.".into());
            }
            (Some(until), None) => until,
            (None, Some(time)) => Until::Time(time),
            (None, None) => self.options.until,
        };
        if self.options.rate_limit.is_some() && self.options.open_loop.is_some() {
            return Err("error: --rate-limiting and --open-loop are mutually exclusive.".into());
        }
        Ok(())
    }

    fn settle_sizes(&mut self) -> Result<(), String> {
        let kinds = ["data-size", "data-size-range", "data-size-list"];
        if kinds.iter().filter(|flag| self.has(flag)).count() > 1 {
            let text = "error: data-size, data-size-range and data-size-list are mutually \
                        exclusive.";
            return Err(text.into());
        }
        if let Some(size) = self.sizes.pop() {
            self.options.load.values.size = size;
        }
        if let DataSize::Range { by_key, .. } = &mut self.options.load.values.size {
            *by_key = self.sizes_by_key;
        } else if self.has("data-size-pattern") {
            return Err("error: data-size-pattern can only be used with data-size-range.".into());
        }
        Ok(())
    }

    fn settle_mix(&mut self) -> Result<(), String> {
        if self.commands.is_empty() {
            if self.options.load.mix == (Mix::Ratio { set: 0, get: 0 }) {
                return Err("error: ratio must have at least one number above zero.".into());
            }
            return Ok(());
        }
        let excluded = [
            ("ratio", "its ratio is set by --command-ratio"),
            ("key-pattern", "its key pattern is set by --command-key-pattern"),
            ("multi-key-get", "it would not be used"),
            ("data-offset", "it would not be used"),
            ("expiry-range", "it would not be used"),
            ("wait-ratio", "it would not be used"),
            ("data-verify", "its values cannot be verified"),
            ("verify-only", "its values cannot be verified"),
        ];
        for (flag, reason) in excluded {
            if self.has(flag) {
                return Err(format!(
                    "error: when using arbitrary command, --{flag} is not allowed: {reason}."
                ));
            }
        }
        self.options.load.mix = Mix::Commands(std::mem::take(&mut self.commands));
        Ok(())
    }

    fn settle_wait(&mut self) -> Result<(), String> {
        let (sets, waits) = self.wait_ratio;
        if waits == 0 {
            return match self.first_of(&["num-slaves", "wait-timeout"]) {
                Some(flag) => Err(format!("error: {flag} can only be used with wait-ratio.")),
                None => Ok(()),
            };
        }
        if sets == 0 || matches!(self.options.load.mix, Mix::Ratio { set: 0, .. }) {
            return Err("error: wait-ratio needs SETs.".into());
        }
        self.options.load.wait = Some(Wait {
            ratio: self.wait_ratio,
            replicas: self.wait_replicas,
            timeout_ms: self.wait_timeout_ms,
        });
        Ok(())
    }

    fn settle_ramp(&mut self) -> Result<(), String> {
        let flags = ["clients-start", "clients-step", "step-duration"];
        match flags.iter().filter(|flag| self.has(flag)).count() {
            0 => return Ok(()),
            3 => {}
            _ => {
                let text = "error: clients-start, clients-step and step-duration must be used \
                            together.";
                return Err(text.into());
            }
        }
        if self.clients_start >= self.options.clients {
            return Err("error: clients-start must be less than clients.".into());
        }
        self.options.ramp = Some(Ramp {
            start: self.clients_start,
            step: self.clients_step,
            every: self.step_duration,
        });
        Ok(())
    }

    fn settle_statsd(&mut self) -> Result<(), String> {
        if !self.statsd.host.is_empty() {
            self.options.output.statsd = Some(self.statsd.clone());
            return Ok(());
        }
        match self.first_of(&["statsd-port", "statsd-prefix", "statsd-run-label"]) {
            Some(flag) => Err(format!("error: {flag} can only be used with statsd-host.")),
            None => Ok(()),
        }
    }

    fn check_keys(&self) -> Result<(), String> {
        let keys = &self.options.load.keys;
        if keys.maximum < keys.minimum {
            return Err("error: key-maximum must be at least key-minimum.".into());
        }
        let median_inside =
            keys.median.is_none_or(|at| at >= keys.minimum as f64 && at <= keys.maximum as f64);
        if !median_inside {
            return Err("error: key-median must be between key-minimum and key-maximum.".into());
        }
        let patterns = self.patterns();
        let normal = self.first_of(&["key-stddev", "key-median"]);
        if let (Some(flag), false) = (normal, patterns.contains(&KeyPattern::Gaussian)) {
            return Err(format!("error: {flag} is only allowed with a key pattern of G."));
        }
        if self.has("key-zipf-exp") && !patterns.contains(&KeyPattern::Zipf) {
            return Err("error: key-zipf-exp is only allowed with a key pattern of Z.".into());
        }
        if patterns.contains(&KeyPattern::Zipf) && keys.maximum == 0 {
            return Err("error: a key pattern of Z needs a key-maximum above zero.".into());
        }
        let connections = u64::from(self.options.threads) * u64::from(self.options.clients);
        let count = keys.maximum - keys.minimum + 1;
        if patterns.contains(&KeyPattern::Parallel) && count < connections {
            return Err(format!(
                "error: a key pattern of P needs a key for each of the {connections} clients."
            ));
        }
        Ok(())
    }

    /// The patterns that are used.
    fn patterns(&self) -> Vec<KeyPattern> {
        let (set, get) = self.options.load.keys.patterns;
        match &self.options.load.mix {
            Mix::Ratio { .. } => vec![set, get],
            Mix::Commands(commands) => commands.iter().map(|command| command.key_pattern).collect(),
        }
    }

    fn check_load(&self) -> Result<(), String> {
        let load = &self.options.load;
        if load.values.offset > 0 && load.values.expiry.is_some() {
            return Err("error: data-offset cannot be used with expiry-range.".into());
        }
        if load.values.offset > 0 && load.multi_key_get > 0 {
            return Err("error: data-offset cannot be used with multi-key-get.".into());
        }
        if load.verify == Verify::AfterWriting && matches!(load.mix, Mix::Ratio { set: 0, .. }) {
            return Err("error: data-verify needs SETs; see verify-only.".into());
        }
        Ok(())
    }

    fn check_cluster(&self) -> Result<(), String> {
        let options = &self.options;
        if !options.cluster {
            return Ok(());
        }
        let excluded = [
            ("unix-socket", options.unix_socket.is_some()),
            ("select-db", options.database > 0),
            ("multi-key-get", options.load.multi_key_get > 0),
            // A WAIT has no key, so it would not go where the SETs before it went.
            ("wait-ratio", options.load.wait.is_some()),
        ];
        match excluded.iter().find(|(_, used)| *used) {
            Some((flag, _)) => Err(format!("error: cluster mode does not support {flag}.")),
            None => Ok(()),
        }
    }
    /// What memcached cannot be asked.
    fn check_protocol(&self) -> Result<(), String> {
        let options = &self.options;
        match options.protocol {
            Protocol::Redis | Protocol::Resp2 | Protocol::Resp3 => return Ok(()),
            Protocol::MemcacheText | Protocol::MemcacheBinary => {}
        }
        let excluded = [
            ("command", matches!(options.load.mix, Mix::Commands(_))),
            ("cluster-mode", options.cluster),
            ("select-db", options.database > 0),
            ("data-offset", options.load.values.offset > 0),
            ("wait-ratio", options.load.wait.is_some()),
            ("multi-key-get", options.load.multi_key_get > 0),
        ];
        match excluded.iter().find(|(_, used)| *used) {
            Some((flag, _)) => Err(format!("error: memcached's protocols have no {flag}.")),
            None => Ok(()),
        }
    }
}
