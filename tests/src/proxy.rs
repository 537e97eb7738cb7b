//! A proxy that spoils connections: between a replica and its primary it cuts them after so many
//! bytes, goes silent with both ends or one end open, is slow or late, or connects twice.
//!
//! Invariants: what is forwarded is what came, in order; a fault is of one connection, the next one
//! to come, and those behind it are sound again; all threads end with the proxy.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks whether a quiet connection is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What goes which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client, which connected.
    Up,
    /// To the client.
    Down,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Both ends are closed behind so many bytes of a direction.
    Cut(Direction, u64),
    /// Behind so many bytes of a direction nothing is forwarded either way, and nothing closed.
    Silence(Direction, u64),
    /// Behind so many bytes of a direction the end they went to is closed, and the other one, which
    /// hears nothing more, is not.
    HalfOpen(Direction, u64),
    /// So many bytes of a direction pass in a second.
    Throttle(Direction, u64),
    /// What goes in a direction waits so long before.
    Delay(Direction, Duration),
    /// What goes up goes to the server a second time, over a connection of its own, whose replies
    /// nobody hears.
    Double,
}

/// The proxy.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
    listener: Option<JoinHandle<()>>,
}

struct State {
    /// The port behind it.
    target: u16,
    faults: Mutex<VecDeque<Fault>>,
    open: Mutex<Vec<[TcpStream; 2]>>,
    accepted: AtomicUsize,
    is_parted: AtomicBool,
    ends: AtomicBool,
}

impl Proxy {
    /// A proxy of the server on this port.
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let state = Arc::new(State {
            target,
            faults: Mutex::default(),
            open: Mutex::default(),
            accepted: AtomicUsize::new(0),
            is_parted: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        let listener = std::thread::spawn(move || shared.accept(&listener));
        Self { port, state, listener: Some(listener) }
    }

    /// The port on which the proxy listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What becomes of the next connection that has no fault yet.
    pub fn spoil_next(&self, fault: Fault) {
        self.state.faults.lock().expect("no holder panics").push_back(fault);
    }

    /// Closes every connection there is.
    fn cut_all(&self) {
        self.state.open.lock().expect("no holder panics").drain(..).for_each(close_all);
    }

    /// From here on nothing comes through, as if the network were in two; what is sent waits.
    pub fn part(&self) {
        self.state.is_parted.store(true, Ordering::Relaxed);
    }

    /// The network is whole again.
    pub fn heal(&self) {
        self.state.is_parted.store(false, Ordering::Relaxed);
    }

    /// How many connections came.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        self.cut_all();
        // The listener looks once more.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl State {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        let mut pumps = Vec::new();
        for client in listener.incoming().flatten() {
            if self.ends.load(Ordering::Relaxed) {
                break;
            }
            self.accepted.fetch_add(1, Ordering::Relaxed);
            // A server that is not there closes what asks for it.
            if let Ok(threads) = self.connect(client) {
                pumps.extend(threads);
            }
        }
        self.open.lock().expect("no holder panics").drain(..).for_each(close_all);
        pumps.into_iter().for_each(|pump: JoinHandle<()>| drop(pump.join()));
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> io::Result<Vec<JoinHandle<()>>> {
        let server = TcpStream::connect(("127.0.0.1", self.target))?;
        let fault = self.faults.lock().expect("no holder panics").pop_front();
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK))?;
        }
        let ends = [client.try_clone()?, server.try_clone()?];
        self.open.lock().expect("no holder panics").push(ends);
        let is_silent = Arc::new(AtomicBool::new(false));
        let pump = |direction| Pump { fault, direction, is_silent: Arc::clone(&is_silent) };
        let (up, down) = (pump(Direction::Up), pump(Direction::Down));
        let (back, forth) = (server.try_clone()?, client.try_clone()?);
        let mut targets = vec![server];
        let mut threads = Vec::new();
        if matches!(fault, Some(Fault::Double)) {
            let twin = TcpStream::connect(("127.0.0.1", self.target))?;
            self.open
                .lock()
                .expect("no holder panics")
                .push([twin.try_clone()?, client.try_clone()?]);
            targets.push(twin.try_clone()?);
            threads.push(std::thread::spawn(move || drop(io::copy(&mut &twin, &mut io::sink()))));
        }
        let (one, other) = (Arc::clone(self), Arc::clone(self));
        threads.push(std::thread::spawn(move || up.run(&one, client, targets)));
        threads.push(std::thread::spawn(move || down.run(&other, back, vec![forth])));
        Ok(threads)
    }

    /// Waits, unless the proxy ends.
    fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.ends.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

/// One direction of a connection.
struct Pump {
    fault: Option<Fault>,
    direction: Direction,
    is_silent: Arc<AtomicBool>,
}

/// Whether nothing has come yet, or the process stood still.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Pump {
    fn run(self, state: &State, mut from: TcpStream, mut to: Vec<TcpStream>) {
        let mut buffer = vec![0; self.piece()];
        let mut passed: u64 = 0;
        while !state.ends.load(Ordering::Relaxed) {
            let room = buffer.len();
            let count = match self.left(passed) {
                Some(0) => 0,
                left => match from.read(&mut buffer[..room.min(left.unwrap_or(room))]) {
                    // The end that was closed by the fault.
                    Ok(0) | Err(_) if self.is_forsaken() => return,
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if is_pause(&error) => continue,
                    Err(_) => break,
                },
            };
            if self.is_silent.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                continue;
            }
            state.wait(self.pause(count));
            while state.is_parted.load(Ordering::Relaxed) && !state.ends.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
            }
            if to[0].write_all(&buffer[..count]).is_err() {
                break;
            }
            for twin in &mut to[1..] {
                // Its end is nobody's business.
                let _ = twin.write_all(&buffer[..count]);
            }
            passed += count as u64;
            if self.left(passed) == Some(0) {
                match self.fault {
                    Some(Fault::Silence(..)) => self.is_silent.store(true, Ordering::Relaxed),
                    Some(Fault::HalfOpen(..)) => {
                        self.is_silent.store(true, Ordering::Relaxed);
                        return self.outlive(state, from, &to[0]);
                    }
                    _ => break,
                }
            }
        }
        close_all(to);
        close_all([from]);
    }

    /// Closes one end, and takes what the other one says until that is closed, too.
    fn outlive(&self, state: &State, mut from: TcpStream, to: &TcpStream) {
        let _ = to.shutdown(Shutdown::Both);
        let mut buffer = vec![0; self.piece()];
        while !state.ends.load(Ordering::Relaxed) {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                Err(_) => break,
            }
        }
        close_all([from]);
    }

    /// Whether the fault of the other direction has closed an end.
    fn is_forsaken(&self) -> bool {
        matches!(self.fault, Some(Fault::HalfOpen(direction, _)) if direction != self.direction)
            && self.is_silent.load(Ordering::Relaxed)
    }

    /// How many bytes are forwarded at once.
    fn piece(&self) -> usize {
        match self.fault {
            Some(Fault::Throttle(direction, rate)) if direction == self.direction => {
                usize::try_from(rate / 50).unwrap_or(64 << 10).clamp(1, 64 << 10)
            }
            _ => 64 << 10,
        }
    }

    /// How long so many bytes have to wait.
    fn pause(&self, count: usize) -> Duration {
        match self.fault {
            Some(Fault::Throttle(direction, rate)) if direction == self.direction => {
                Duration::from_micros(count as u64 * 1_000_000 / rate)
            }
            Some(Fault::Delay(direction, time)) if direction == self.direction => time,
            // The twin is answered meanwhile, too.
            Some(Fault::Double) => LOOK,
            _ => Duration::ZERO,
        }
    }

    /// How many bytes may pass before the fault.
    fn left(&self, passed: u64) -> Option<usize> {
        match self.fault {
            Some(
                Fault::Cut(direction, at)
                | Fault::Silence(direction, at)
                | Fault::HalfOpen(direction, at),
            ) if direction == self.direction => {
                Some(usize::try_from(at.saturating_sub(passed)).unwrap_or(usize::MAX))
            }
            _ => None,
        }
    }
}

fn close_all(ends: impl IntoIterator<Item = TcpStream>) {
    // One that is closed already stays so.
    ends.into_iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}
