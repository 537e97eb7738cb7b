//! The suites that redis-py and go-redis carry themselves, less their exclusions. Invariant: no
//! test fails, none is skipped for the server's version, and as many pass as ever did.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::exclusions::Exclusions;
use super::report;
use crate::environment::recorded;
use crate::environment::repository;
use crate::server::Server;

/// The version for which version gates shall open: all commands of Redis 8.10 that we have yet.
const VERSION: &str = "8.10";

/// The files of redis-py's suite which are about what exists yet, sync and asyncio.
const PYTHON_FILES: [&str; 24] = [
    "test_cache.py",
    "test_commands.py",
    "test_client.py",
    "test_connection.py",
    "test_connection_pool.py",
    "test_encoding.py",
    "test_function.py",
    "test_lock.py",
    "test_monitor.py",
    "test_pipeline.py",
    "test_pubsub.py",
    "test_retry.py",
    "test_scripting.py",
    "test_asyncio/test_client.py",
    "test_asyncio/test_commands.py",
    "test_asyncio/test_connection.py",
    "test_asyncio/test_connection_pool.py",
    "test_asyncio/test_encoding.py",
    "test_asyncio/test_lock.py",
    "test_asyncio/test_monitor.py",
    "test_asyncio/test_pipeline.py",
    "test_asyncio/test_pubsub.py",
    "test_asyncio/test_retry.py",
    "test_asyncio/test_scripting.py",
];

/// Runs redis-py's own suite in one protocol, a share of it on each server. Its tests wait for a
/// second or less, so on a busy machine a few that fail are tried again, and named.
pub fn redis_py_suite(servers: &[Server], protocol: u8) {
    const FEW: usize = 3;
    let exclusions = Exclusions::read("python/exclusions.txt");
    let shares: Vec<(u64, Vec<String>)> = std::thread::scope(|scope| {
        let share = |number: usize| format!("{number}/{}", servers.len());
        let shares = servers.iter().enumerate().map(|(number, server)| {
            let suite = PythonSuite { server, protocol, share: share(number) };
            let exclusions = &exclusions.path;
            scope.spawn(move || suite.run(exclusions))
        });
        let shares: Vec<_> = shares.collect();
        shares.into_iter().map(|share| share.join().expect("its share passes")).collect()
    });
    let name = format!("redis-py-suite-resp{protocol}");
    let again: Vec<&String> = shares.iter().flat_map(|(_, again)| again).collect();
    assert!(again.len() <= FEW, "{name}: too many were tried again: {again:?}");
    let passed = shares.iter().map(|(passed, _)| passed).sum();
    report(&name, &format!("{passed} passed, 0 failed"));
    exclusions.hold(passed);
}

/// Some of redis-py's tests, on a server of their own.
struct PythonSuite<'a> {
    server: &'a Server,
    protocol: u8,
    /// `K/N`: each Nth test behind the first K.
    share: String,
}

impl PythonSuite<'_> {
    /// Runs the share; how many passed, which are all, and which of them at the second try.
    fn run(&self, exclusions: &Path) -> (u64, Vec<String>) {
        let Self { protocol, share, .. } = self;
        let name = format!("redis-py-suite-resp{protocol}, share {share}");
        let files: Vec<String> = PYTHON_FILES.iter().map(|file| format!("tests/{file}")).collect();
        let (is_good, text) = self.run_tests(exclusions, share, &files);
        let count = text.trim_end().lines().last().unwrap_or_default();
        let passed = count.split(' ').next().and_then(|number| number.parse().ok());
        let passed: u64 = passed.unwrap_or_else(|| panic!("{name} ends with {count}"));
        if is_good {
            return (passed, Vec::new());
        }
        let failed = failed_tests(&text);
        assert!(!failed.is_empty(), "{name}:\n{text}");
        println!("tried again: {failed:?}");
        let (is_good, again) = self.run_tests(Path::new("/dev/null"), "0/1", &failed);
        assert!(is_good, "{name}:\n{text}\nand again:\n{again}");
        (passed + failed.len() as u64, failed)
    }

    /// Runs some of the tests; whether all passed, and what was printed.
    fn run_tests(&self, exclusions: &Path, share: &str, tests: &[String]) -> (bool, String) {
        let mut command = Command::new(recorded("python"));
        command.current_dir(recorded("redis_py")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("PYTHONPATH", repository().join("tests/clients/python"));
        command.args(["-m", "pytest", "--quiet", "--tb=short", "--timeout=20"]);
        command.args(["-p", "no:warnings", "-p", "no:cacheprovider", "-p", "apus_suite"]);
        command.args(["--override-ini=addopts=", "--as-version", VERSION, "--share", share]);
        command.arg("--exclusions").arg(exclusions);
        command.arg(format!("--redis-url=redis://127.0.0.1:{}/0", self.server.port()));
        command.arg(format!("--protocol={}", self.protocol)).args(tests);
        let output = command.output().unwrap_or_else(|error| panic!("redis-py: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        (output.status.success(), format!("{errors}{text}"))
    }
}

/// The tests that pytest's summary calls failed.
fn failed_tests(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("FAILED "));
    lines.map(|line| line.split(" - ").next().unwrap_or(line).to_owned()).collect()
}

/// The specs of go-redis which use one connection as soon as another has sent its SUBSCRIBE, before
/// the reply: one thread serves both in the order in which they were sent, two threads may not.
const GO_IN_ORDER: &str = "^PubSub ";

/// Runs go-redis' own suite, the specs [`GO_IN_ORDER`] on a server with one worker.
pub fn go_redis_suite(server: &Server, one_worker: &Server) {
    let exclusions = Exclusions::read("go/exclusions.txt");
    let skipped = exclusions.patterns.join("|");
    let both = [
        go_redis_specs(server, &["--ginkgo.skip", &format!("{skipped}|{GO_IN_ORDER}")]),
        go_redis_specs(one_worker, &["--ginkgo.skip", &skipped, "--ginkgo.focus", GO_IN_ORDER]),
    ];
    let passed = both.iter().map(|(passed, _)| passed).sum();
    let failures: String = both.into_iter().map(|(_, failures)| failures).collect();
    assert!(failures.is_empty(), "go-redis: {passed} passed, and these failed:\n{failures}");
    report("go-redis-suite", &format!("{passed} passed, 0 failed"));
    exclusions.hold(passed);
}

/// Runs some of the specs; how many passed, and what the others say.
fn go_redis_specs(server: &Server, chosen: &[&str]) -> (u64, String) {
    let endpoints = server.folder().join("endpoints.json");
    let endpoint = format!("redis://127.0.0.1:{}", server.port());
    let text = json!({ "apus": { "endpoints": [endpoint] } }).to_string();
    std::fs::write(&endpoints, text).expect("the server's folder can be written to");
    let result = server.folder().join("specs.json");
    let mut command = Command::new(recorded("go_suite"));
    // So told, the suite uses the one server it is given and starts none of its own.
    command.env("RE_CLUSTER", "true").env("REDIS_ENDPOINTS_CONFIG_PATH", endpoints);
    command.env("REDIS_VERSION", VERSION).current_dir(server.folder());
    command.args(["-test.run", "^TestGinkgoSuite$", "--ginkgo.no-color", "--ginkgo.timeout=5m"]);
    // Its specs wait for a second or less: on a busy machine one that fails is tried again.
    command.arg("--ginkgo.flake-attempts=3");
    command.args(chosen).arg("--ginkgo.json-report").arg(&result);
    let output = command.output().unwrap_or_else(|error| panic!("go-redis: {error}"));
    let written = std::fs::read(&result).unwrap_or_default();
    let specs: Value = serde_json::from_slice(&written).unwrap_or_default();
    let Some(specs) = specs.pointer("/0/SpecReports").and_then(Value::as_array) else {
        panic!("go-redis: {}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    };
    judge(specs)
}

/// How many specs passed, and what the others say.
fn judge(specs: &[Value]) -> (u64, String) {
    let (mut passed, mut failures) = (0, String::new());
    for spec in specs {
        if spec["NumAttempts"].as_u64() > Some(1) {
            println!("tried again: {}", name_of(spec));
        }
        match spec["State"].as_str().unwrap_or_default() {
            "passed" if spec["LeafNodeType"] == "It" => passed += 1,
            "passed" | "skipped" | "pending" => {}
            state => {
                let (text, message) = (name_of(spec), &spec["Failure"]["Message"]);
                let message = message.as_str().unwrap_or_default();
                writeln!(failures, "{state}: {text}\n{message}").expect("a text takes text");
            }
        }
    }
    (passed, failures)
}

/// What a spec's pattern is compared with.
fn name_of(spec: &Value) -> String {
    let containers = spec["ContainerHierarchyTexts"].as_array();
    let texts = containers.into_iter().flatten().chain([&spec["LeafNodeText"]]);
    let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
    texts.join(" ")
}
