//! Where a page is tried: a folder of its own, the programs that pages name, and ports that are
//! free in the place of those that they say.
//!
//! Invariants: nothing listens but on the loopback; what a page starts ends with its stage, and a
//! panic in it fails the page.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::page::{self, Block, Kind, Step};
use crate::environment;
use crate::process::{PATIENCE, Process};
use crate::server::{eventually, free_port};

/// The ports that pages name.
const PORTS: [u16; 10] = [6379, 6380, 6381, 6390, 26379, 26380, 26381, 11211, 11212, 9121];

/// The folders that pages name, which lie within the stage.
const FOLDERS: [&str; 4] = ["/etc/apus", "/var/lib/apus", "/var/log/apus", "/run/apus"];

/// The programs that pages call, and that are not the machine's own.
const PROGRAMS: [&str; 8] = [
    "apus",
    "redis-cli",
    "redis-benchmark",
    "redis-server",
    "valkey-server",
    "memcached",
    "python3",
    "node",
];

/// What each of them is.
const PROGRAM: &str = include_str!("program.sh");

/// What a server that is ready says.
const READY: [&str; 2] = ["Ready to accept connections", "Sentinel ID is"];

/// What is printed where a server is not there yet.
const NOT_YET: [&str; 4] = ["Connection refused", "Could not connect", "LOADING", "MASTERDOWN"];

/// Words of commands that may be given again until they print what they are to.
const LOOKS: [&str; 9] =
    ["GET ", "INFO", "ROLE", "DBSIZE", "get-master", "curl", "ls", "cat", "STATUS"];

/// A place where a page is tried.
pub struct Stage {
    folder: TempDir,
    ports: BTreeMap<u16, u16>,
    servers: Vec<Process>,
}

/// Tries all blocks of a page of the book, in their order.
pub fn play(name: &str) {
    play_file(&page::folder().join(name));
}

/// The same of any page.
pub fn play_file(path: &Path) {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut stage = Stage::new();
    let mut files = Vec::new();
    for block in page::blocks(&text) {
        let place = format!("{}:{}", path.display(), block.line);
        if let Some(file) = block.file() {
            stage.write(file, &block.text);
            files.push((file.to_owned(), block.text.clone()));
        }
        match block.kind {
            Kind::Console => block.steps().iter().for_each(|step| stage.step(&place, step)),
            Kind::Elsewhere => block.steps().iter().for_each(|step| stage.read(&place, step)),
            Kind::Conf => try_configuration(&place, &block, &files),
            Kind::Python => stage.program(&place, "python3", "example.py", &block),
            Kind::JavaScript => stage.program(&place, "node", "example.js", &block),
            Kind::File | Kind::Text => {}
        }
    }
    stage.end(&path.display().to_string());
}

/// Starts a server with a configuration, on a stage where the page's files are.
fn try_configuration(place: &str, block: &Block, files: &[(String, String)]) {
    let mut stage = Stage::new();
    for (file, text) in files {
        stage.write(file, text);
    }
    stage.write("tried.conf", &block.text);
    let is_sentinel = block.text.lines().any(|line| line.starts_with("sentinel "));
    stage.start(place, if is_sentinel { "apus sentinel tried.conf" } else { "apus tried.conf" });
    stage.end(place);
}

impl Stage {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("apus-book-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        let ports = PORTS.map(|port| (port, free_port())).into();
        let stage = Self { folder, ports, servers: Vec::new() };
        for own in FOLDERS.iter().chain(&["/bin"]) {
            std::fs::create_dir_all(stage.place(own)).expect("a new folder can be written to");
        }
        let script = stage.with_ports(&script());
        for name in PROGRAMS {
            let path = stage.place("/bin").join(name);
            std::fs::write(&path, &script).expect("it can be written to");
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, executable).expect("its owner may");
        }
        stage
    }

    /// A path within the stage.
    fn place(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    /// Writes a file that a page shows.
    fn write(&self, name: &str, text: &str) {
        let path = match FOLDERS.iter().any(|folder| name.starts_with(folder)) {
            true => self.place(name),
            false => self.place(&format!("/{}", name.trim_start_matches('/'))),
        };
        let folder = path.parent().expect("it lies in the stage");
        std::fs::create_dir_all(folder).expect("the stage can be written to");
        std::fs::write(&path, self.translated(text)).expect("the stage can be written to");
    }

    /// Runs a command, and looks at what it prints.
    fn step(&mut self, place: &str, step: &Step) {
        if let Some(command) = step.command.strip_suffix(" &") {
            return self.start(place, command);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (output, is_well) = self.run(&step.command);
            let is_met = match step.expected.is_empty() {
                true => !output.contains("ERR ") && !output.starts_with("Error"),
                false => step.is_met_by(&output),
            };
            if is_well && is_met {
                return;
            }
            let may_come = NOT_YET.iter().any(|text| output.contains(text))
                || LOOKS.iter().any(|word| step.command.contains(word));
            let is_over = Instant::now() > deadline;
            let wanted = step.expected.join("\n");
            assert!(
                may_come && !is_over,
                "{place}: `{}` prints\n{output}\nand not\n{wanted}\n{}",
                step.command,
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Has the shell read what nothing here can run.
    fn read(&self, place: &str, step: &Step) {
        let read = Command::new("sh").args(["-n", "-c", &step.command]).status();
        assert!(read.is_ok_and(|status| status.success()), "{place}: `{}`", step.command);
    }

    /// Starts a server, and waits until it is ready.
    fn start(&mut self, place: &str, command: &str) {
        let mut process = Process::of(&mut self.shell(&format!("exec {command}")));
        let port = self.ports[&11211];
        let is_silent = command.starts_with("memcached");
        eventually(command, || {
            let log = process.log() + &self.log_files();
            assert!(!process.has_ended(), "{place}: `{command}` ends:\n{log}");
            let is_ready = READY.iter().any(|text| log.contains(text));
            is_ready || is_silent && TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        self.servers.push(process);
    }

    /// Runs a program that a page shows, which must end well.
    fn program(&self, place: &str, interpreter: &str, usual: &str, block: &Block) {
        let name = block.file().unwrap_or(usual);
        self.write(name, &block.text);
        // One with a name of its own is called by the page.
        if block.file().is_none() {
            let (output, is_well) = self.run(&format!("{interpreter} {name}"));
            assert!(is_well, "{place}: the program ends with\n{output}{}", self.logs());
        }
    }

    /// What a command prints, in the words of the page, and whether it ended well.
    fn run(&self, command: &str) -> (String, bool) {
        let mut process = Process::of(&mut self.shell(command));
        let status = process.wait();
        (self.in_words_of_the_page(&process.log()), status.success())
    }

    fn shell(&self, command: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = self.place("/bin");
        let path = std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path)));
        let mut shell = Command::new("sh");
        // One stream for all that is printed: what comes by two has no order.
        let command_line = format!("exec 2>&1\n{}", self.translated(command));
        shell.args(["-c", &command_line]).current_dir(self.folder.path());
        shell.env("PATH", path.expect("no path has a colon")).env("HOME", self.folder.path());
        shell.env("TMPDIR", self.folder.path()).env_remove("REDISCLI_AUTH");
        if !command.contains(['|', '>', '`']) && !command.contains("$(") {
            shell.env("BOOK_TERMINAL", "1");
        }
        shell
    }

    /// A text with the ports and the folders of the stage in the place of the page's.
    fn translated(&self, text: &str) -> String {
        let mut text = self.with_ports(text);
        for folder in FOLDERS {
            text = text.replace(folder, &self.place(folder).display().to_string());
        }
        text
    }

    fn with_ports(&self, text: &str) -> String {
        replace_numbers(text, |number| self.ports.get(&number).copied())
    }

    fn in_words_of_the_page(&self, output: &str) -> String {
        let text = output.replace(&self.folder.path().display().to_string(), "");
        let named = |number| self.ports.iter().find(|(_, own)| **own == number).map(|it| *it.0);
        replace_numbers(&text, named)
    }

    fn log_files(&self) -> String {
        let entries = std::fs::read_dir(self.place("/var/log/apus")).into_iter().flatten();
        let texts = entries.flatten().map(|entry| std::fs::read_to_string(entry.path()));
        texts.flatten().collect()
    }

    /// What all servers have logged.
    fn logs(&self) -> String {
        self.servers.iter().map(Process::log).collect::<String>() + &self.log_files()
    }

    /// Ends what was started.
    fn end(mut self, place: &str) {
        let logs = self.logs();
        assert!(!logs.contains("panicked at"), "{place}: a server panicked:\n{logs}");
        self.servers.iter_mut().for_each(Process::kill);
    }
}

/// A text with some of its numbers replaced.
fn replace_numbers(text: &str, replaced: impl Fn(u16) -> Option<u16>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (digits, behind) = from.split_at(end);
        result.push_str(before);
        match digits.parse().ok().and_then(&replaced) {
            Some(number) => result.push_str(&number.to_string()),
            None => result.push_str(digits),
        }
        rest = behind;
    }
    result + rest
}

/// The script that stands for every program, with the paths of the real ones.
fn script() -> String {
    let recorded = ["redis_cli", "redis_benchmark", "redis70", "valkey91", "memcached"];
    let mut script = PROGRAM.replace("@apus@", &environment::binary().display().to_string());
    for name in recorded.iter().chain(&["python", "npm", "node"]) {
        let path = environment::recorded(name).display().to_string();
        script = script.replace(&format!("@{name}@"), &path);
    }
    script
}

#[cfg(test)]
mod tests {
    use super::replace_numbers;

    #[test]
    fn only_whole_numbers_are_replaced() {
        let other = |number| (number == 6379).then_some(1);
        assert_eq!(replace_numbers("6379 16379 x6379:6379.", other), "1 16379 x1:1.");
        assert_eq!(replace_numbers("99999 none", other), "99999 none");
    }
}
