//! A child process with its log. Invariant: the process is dead when its value is gone.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::faults::Injector;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Process {
    child: Child,
    log: Arc<Log>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Log {
    text: Mutex<String>,
    grown: Condvar,
}

impl Process {
    /// Starts a program in a folder; what it prints becomes the log.
    pub(crate) fn spawn(program: &Path, arguments: &[String], folder: &Path) -> Self {
        Self::start(&mut command(program, arguments, folder))
    }

    /// A program as the caller describes it.
    pub(crate) fn of(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::start(command)
    }

    /// The same under a filter of its system calls.
    pub(crate) fn spawn_under(
        injector: &mut Injector,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Self {
        let mut command = command(program, arguments, folder);
        injector.attach(&mut command);
        let process = Self::start(&mut command);
        injector.supervise(process.id());
        process
    }

    fn start(command: &mut Command) -> Self {
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let log = Arc::new(Log::default());
        let stdout = child.stdout.take().expect("its standard output was asked for");
        let stderr = child.stderr.take().expect("its error output was asked for");
        let readers = vec![follow(stdout, &log), follow(stderr, &log)];
        Self { child, log, readers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.text.lock().expect("no reader of a log panics").clone()
    }

    /// Waits until the log satisfies `find`; `None` when the process ended or time ran out.
    pub(crate) fn wait_for_log<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // The state is asked for first: what a process logs at its end is then still seen.
            let ended = self.has_ended();
            let text = self.log.text.lock().expect("no reader of a log panics");
            if let Some(found) = find(&text) {
                return Some(found);
            }
            if ended || Instant::now() > deadline {
                return None;
            }
            let (text, _) = self
                .log
                .grown
                .wait_timeout(text, Duration::from_millis(50))
                .expect("no reader of a log panics");
            drop(text);
        }
    }

    /// Whether the process has ended; then all that it logged is there.
    pub(crate) fn has_ended(&mut self) -> bool {
        let has_ended = self.child.try_wait().expect("a child can be asked for").is_some();
        if has_ended {
            self.join_readers();
        }
        has_ended
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked for") {
                self.join_readers();
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "process {} does not end:\n{}",
                self.id(),
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.join_readers();
    }

    fn join_readers(&mut self) {
        for reader in self.readers.drain(..) {
            reader.join().expect("no reader of a log panics");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(program: &Path, arguments: &[String], folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn follow(stream: impl Read + Send + 'static, log: &Arc<Log>) -> JoinHandle<()> {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let mut text = log.text.lock().expect("no reader of a log panics");
            text.push_str(&String::from_utf8_lossy(&line));
            log.grown.notify_all();
            line.clear();
        }
    })
}
