//! Load by `apus bench`, a process of its own on cores of its own. Invariant: its figures are read
//! from the JSON that it writes, and what it warns of is never lost.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::shell;

/// The generator on its cores.
pub(super) struct Generator {
    pub(super) program: PathBuf,
    pub(super) cores: String,
}

/// A run that goes on.
pub(super) struct Running {
    child: Child,
    command: String,
    file: PathBuf,
}

/// What a run has measured: raw, and how it was asked for.
pub(super) struct Report {
    pub(super) command: String,
    pub(super) raw: Value,
}

/// A run's totals.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) requests: f64,
    pub(super) per_second: f64,
    /// CPU time of the server.
    pub(super) server_us: f64,
    pub(super) warnings: Vec<String>,
}

/// One step of a preset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) server_us: f64,
    pub(super) kinds: Vec<Kind>,
    pub(super) warnings: Vec<String>,
}

/// The latencies of one kind of request in a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) per_second: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
}

impl Generator {
    /// Starts a run against this port; the words are separated by blanks.
    pub(super) fn start(&self, port: u16, words: &str) -> Result<Running, String> {
        let folder = shell::target().join("bench");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let file = folder.join(format!("{port}.json"));
        let mut command = Command::new("taskset");
        command.args(["-c", &self.cores]).arg(&self.program).args(["bench", "-p"]);
        command.arg(port.to_string()).args(words.split_whitespace());
        command.arg("--json-out-file").arg(&file).arg("-o").arg(folder.join("text"));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("taskset: {error}"))?;
        let command = format!("taskset -c {} apus bench -p PORT {words}", self.cores);
        Ok(Running { child, command, file })
    }

    /// A whole run.
    pub(super) fn run(&self, port: u16, words: &str) -> Result<Report, String> {
        self.start(port, words)?.finish()
    }

    /// Writes every key that `words` name, without a report.
    pub(super) fn fill(&self, port: u16, words: &str) -> Result<String, String> {
        let words = format!(
            "-t 1 -c 20 --ratio 1:0 --key-pattern P:P -n allkeys --pipeline 50 --hide-histogram \
             {words}"
        );
        self.run(port, &words).map(|report| report.command)
    }
}

impl Running {
    /// Whether the generator has ended.
    pub(super) fn is_over(&mut self) -> Result<bool, String> {
        let ended = self.child.try_wait().map_err(|error| error.to_string())?;
        Ok(ended.is_some())
    }

    pub(super) fn finish(self) -> Result<Report, String> {
        let output = self.child.wait_with_output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}`: {}\n{said}", self.command, output.status));
        }
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| format!("{}: {error}", self.file.display()))?;
        // What the generator says is kept in the record; a file that stays does no harm.
        let _ = std::fs::remove_file(&self.file);
        let mut raw = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        shorten(&mut raw);
        Ok(Report { command: self.command, raw })
    }
}

/// Takes out what a record has no use for: each second by itself, and settings that the command
/// says as well.
fn shorten(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != "Time-Serie" && name != "configuration");
            members.values_mut().for_each(shorten);
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        _ => {}
    }
}

impl Report {
    /// The totals of a single run.
    pub(super) fn load(&self) -> Result<Load, String> {
        let absent = |name: &str| format!("`{}` reports no {name}", self.command);
        let totals = &self.raw["ALL STATS"]["Totals"];
        let own = &self.raw["apus"]["Runs"][0];
        Ok(Load {
            requests: totals["Count"].as_f64().ok_or_else(|| absent("requests"))?,
            per_second: totals["Ops/sec"].as_f64().ok_or_else(|| absent("rate"))?,
            server_us: own["Server"]["CPU us per request"]
                .as_f64()
                .ok_or_else(|| absent("CPU time of the server"))?,
            warnings: texts(&own["Warnings"]),
        })
    }

    /// A percentile of all requests of a single run, in milliseconds.
    pub(super) fn percentile(&self, name: &str) -> Result<f64, String> {
        let value = &self.raw["ALL STATS"]["Totals"]["Percentile Latencies"][name];
        value.as_f64().ok_or_else(|| format!("`{}` reports no {name}", self.command))
    }

    /// A percentile of the GETs of a single run, in milliseconds.
    pub(super) fn percentile_of_gets(&self, name: &str) -> Result<f64, String> {
        let value = &self.raw["ALL STATS"]["Gets"]["Percentile Latencies"][name];
        value.as_f64().ok_or_else(|| format!("`{}` reports no {name} of GET", self.command))
    }

    /// Requests per second of a single run, whether or not the server's CPU time is known.
    pub(super) fn rate(&self) -> Result<f64, String> {
        let value = &self.raw["ALL STATS"]["Totals"]["Ops/sec"];
        value.as_f64().ok_or_else(|| format!("`{}` reports no rate", self.command))
    }

    /// The steps of a preset.
    pub(super) fn steps(&self) -> Result<Vec<Step>, String> {
        let absent = |name: &str| format!("`{}` reports no {name}", self.command);
        let steps = self.raw["steps"].as_array().ok_or_else(|| absent("steps"))?;
        let step = |step: &Value| {
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            let kinds = step["types"].as_array().into_iter().flatten().map(|kind| Kind {
                name: kind["type"].as_str().unwrap_or_default().to_owned(),
                per_second: number(&kind["requests_per_second"]),
                p99_ms: number(&kind["p99_ms"]),
                p999_ms: number(&kind["p99.9_ms"]),
            });
            Some(Step {
                name: step["step"].as_str()?.to_owned(),
                server_us: number(&step["server"]["cpu_us_per_request"]),
                kinds: kinds.collect(),
                warnings: texts(&step["warnings"]),
            })
        };
        steps.iter().map(step).collect::<Option<_>>().ok_or_else(|| absent("name of a step"))
    }
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Report, shorten};

    fn report(raw: Value) -> Report {
        Report { command: "apus bench".to_owned(), raw }
    }

    #[test]
    fn a_load_is_read_from_memtiers_and_our_own_members() {
        let raw = json!({
            "ALL STATS": {"Totals": {"Count": 1200, "Ops/sec": 400.5}},
            "apus": {"Runs": [{
                "Server": {"CPU us per request": 4.25},
                "Warnings": ["the generator was the limit: x"],
            }]},
        });
        let load = report(raw).load().expect("all is there");
        assert_eq!((load.requests, load.per_second, load.server_us), (1200.0, 400.5, 4.25));
        assert_eq!(load.warnings, ["the generator was the limit: x"]);
    }

    #[test]
    fn a_server_whose_cpu_is_not_known_is_an_error() {
        let raw = json!({
            "ALL STATS": {"Totals": {"Count": 1, "Ops/sec": 1.0}},
            "apus": {"Runs": [{"Server": null, "Warnings": []}]},
        });
        let error = report(raw).load().expect_err("there is no CPU time");
        assert!(error.contains("CPU time of the server"), "{error}");
    }

    #[test]
    fn steps_of_a_preset_have_kinds_and_costs() {
        let raw = json!({"steps": [{
            "step": "10%",
            "types": [{"type": "SET", "requests_per_second": 10, "p99_ms": 0.5, "p99.9_ms": 0.75}],
            "server": {"cpu_us_per_request": 5.5},
            "warnings": ["late"],
        }]});
        let steps = report(raw).steps().expect("steps");
        assert_eq!((steps[0].name.as_str(), steps[0].server_us), ("10%", 5.5));
        assert_eq!((steps[0].kinds[0].p99_ms, steps[0].kinds[0].p999_ms), (0.5, 0.75));
        assert_eq!(steps[0].warnings, ["late"]);
        assert!(report(json!({})).steps().is_err());
    }

    #[test]
    fn seconds_and_settings_are_left_out_of_the_record() {
        let mut raw = json!({
            "configuration": {"a": 1},
            "ALL STATS": {"Gets": {"Count": 1, "Time-Serie": {"0": {}}}},
        });
        shorten(&mut raw);
        assert_eq!(raw, json!({"ALL STATS": {"Gets": {"Count": 1}}}));
    }
}
