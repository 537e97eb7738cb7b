//! A real Prometheus beside the server scrapes, and every query of the dashboard and of the
//! alerts is one that it answers.
//!
//! Invariant: a query that names a metric that there is not fails its test, for an empty answer
//! alone is no proof of it.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tests::environment::repository;
use tests::http::send;
use tests::server::{eventually, free_port};
use tests::{Server, http};

const DASHBOARD: &str = "packaging/grafana/apus.json";
const RULES: &str = "packaging/prometheus/apus.rules.yml";
const CASES: &str = "packaging/prometheus/apus.rules.test.yml";

/// A Prometheus that scrapes one server. Dead when it is gone.
struct Prometheus {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn watching(target: u16) -> Prometheus {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("prometheus.yml");
        let rules = repository().join(RULES);
        let config = format!(
            "global:\n  scrape_interval: 2s\n  evaluation_interval: 1s\nrule_files: ['{}']\n\
             scrape_configs:\n  - job_name: apus\n    static_configs:\n      - targets: \
             ['127.0.0.1:{target}']\n",
            rules.display()
        );
        fs::write(&file, config).expect("a file");
        let port = free_port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the package prometheus is installed");
        let prometheus = Prometheus { child, port, _folder: folder };
        eventually("Prometheus listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        eventually("Prometheus is ready", || send(port, "GET", "/-/ready", "", "").status == 200);
        prometheus
    }

    /// What a query gives: its samples. A query that is none fails the test.
    #[track_caller]
    fn query(&self, query: &str) -> Vec<Value> {
        let answer = self.ask(&format!("/api/v1/query?query={}", percent_encoded(query)));
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().expect("a list").clone()
    }

    fn ask(&self, path: &str) -> Value {
        let answer: http::Answer = send(self.port, "GET", path, "", "");
        serde_json::from_str(&answer.body).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The queries of the dashboard, with what Grafana puts in.
fn queries_of_panels() -> Vec<String> {
    let text = fs::read_to_string(repository().join(DASHBOARD)).expect("it is there");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("a list"));
    let query = |target: &Value| target["expr"].as_str().expect("a text").to_owned();
    targets
        .map(query)
        .map(|it| it.replace("$instance", ".*").replace("$__rate_interval", "1m"))
        .collect()
}

/// The expressions of the rules, each a line.
fn queries_of_rules() -> Vec<String> {
    let text = fs::read_to_string(repository().join(RULES)).expect("it is there");
    text.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).map(str::to_owned).collect()
}

/// The metrics that a query names.
fn metrics_of(query: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    query.split(move |letter| !is_part(letter)).filter(|word| word.starts_with("apus_"))
}

#[test]
fn every_query_of_the_dashboard_and_of_the_alerts_is_answered() {
    let port = free_port();
    let server = Server::start(&["--http-port", &port.to_string(), "--maxmemory", "1gb"]);
    let mut client = server.client();
    let prometheus = Prometheus::watching(port);
    // Rates want two scrapes, and traffic before the first and between.
    eventually("rates are known", || {
        client.call(&["SET", "key", "value"]);
        client.call(&["GET", "key"]);
        client.call(&["GET", "nothing"]);
        client.call(&["NOSUCH"]);
        !prometheus.query("rate(apus_commands_total{command=\"set\"}[1m]) > 0").is_empty()
    });
    // What only a primary with replicas has.
    let may_be_empty = ["apus_replica_lag_bytes"];
    for query in queries_of_panels() {
        let is_optional = may_be_empty.iter().any(|name| query.contains(name));
        // A series that came with a later scrape has no rate before the one behind it.
        eventually(&format!("{query} gives something"), || {
            !prometheus.query(&query).is_empty() || is_optional
        });
    }
    for query in queries_of_rules() {
        prometheus.query(&query);
    }
    eventually("the rules are evaluated", || {
        let rules = prometheus.ask("/api/v1/rules");
        let rules = rules["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        rules.len() == queries_of_rules().len() && rules.iter().all(|rule| rule["health"] == "ok")
    });
}

/// A rule about a metric that there is not is never true.
#[test]
fn queries_name_metrics_that_there_are() {
    let page = fs::read_to_string(repository().join("docs/metrics.md")).expect("it is there");
    let families: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let queries = [queries_of_panels(), queries_of_rules()].concat();
    assert!(queries.len() > 30, "{}", queries.len());
    for name in queries.iter().flat_map(|query| metrics_of(query)) {
        let family = name.trim_end_matches("_bucket");
        assert!(families.contains(family), "there is no {name}");
    }
}

/// Each alert fires when it should, and a server that is well fires none.
#[test]
fn the_rules_are_sound() {
    for (what, file) in [("check", RULES), ("test", CASES)] {
        let run =
            Command::new("promtool").args([what, "rules"]).arg(repository().join(file)).output();
        let run = run.expect("the package prometheus is installed");
        let [said, why] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(run.status.success(), "{said}{why}");
    }
    let cases = fs::read_to_string(repository().join(CASES)).expect("it is there");
    let rules = fs::read_to_string(repository().join(RULES)).expect("it is there");
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        assert!(cases.contains(&format!("alertname: {alert}\n")), "{alert} has no case");
    }
}

#[test]
fn a_scrape_is_sound() {
    let port = free_port();
    let server = Server::start(&["--http-port", &port.to_string()]);
    server.client().call(&["SET", "key", "value"]);
    let scraped = send(port, "GET", "/metrics", "", "").body;
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = check.stderr(Stdio::piped()).spawn().expect("prometheus is installed");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, scraped.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("a child can be waited for");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}
