//! A proxy that spoils connections: between a replica and its primary it cuts them after so many
//! bytes, or goes silent with both ends open.
//!
//! Invariants: what is forwarded is what came, in order; a fault is of one connection, the next one
//! to come, and those behind it are sound again; all threads end with the proxy.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks whether a quiet connection is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What goes which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From who connected.
    Up,
    /// To who connected.
    Down,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Both ends are closed behind so many bytes of a direction.
    Cut(Direction, u64),
    /// Behind so many bytes of a direction nothing is forwarded either way, and nothing closed.
    Silence(Direction, u64),
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
            ends: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        let listener = std::thread::spawn(move || shared.accept(&listener));
        Self { port, state, listener: Some(listener) }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What becomes of the next connection that has no fault yet.
    pub fn spoil_next(&self, fault: Fault) {
        self.state.faults.lock().expect("no holder panics").push_back(fault);
    }

    /// Closes every connection there is.
    fn cut_all(&self) {
        self.state.open.lock().expect("no holder panics").drain(..).for_each(close);
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
        self.open.lock().expect("no holder panics").drain(..).for_each(close);
        pumps.into_iter().for_each(|pump: JoinHandle<()>| drop(pump.join()));
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> io::Result<[JoinHandle<()>; 2]> {
        let server = TcpStream::connect(("127.0.0.1", self.target))?;
        let fault = self.faults.lock().expect("no holder panics").pop_front();
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK))?;
        }
        let ends = [client.try_clone()?, server.try_clone()?];
        self.open.lock().expect("no holder panics").push(ends);
        let is_silent = Arc::new(AtomicBool::new(false));
        let up = Pump { fault, direction: Direction::Up, is_silent: Arc::clone(&is_silent) };
        let down = Pump { fault, direction: Direction::Down, is_silent };
        let (back, forth) = (server.try_clone()?, client.try_clone()?);
        let (one, other) = (Arc::clone(self), Arc::clone(self));
        Ok([
            std::thread::spawn(move || up.run(&one, client, server)),
            std::thread::spawn(move || down.run(&other, back, forth)),
        ])
    }
}

/// One direction of a connection.
struct Pump {
    fault: Option<Fault>,
    direction: Direction,
    is_silent: Arc<AtomicBool>,
}

impl Pump {
    fn run(self, state: &State, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        let mut passed: u64 = 0;
        while !state.ends.load(Ordering::Relaxed) {
            let room = buffer.len();
            let count = match self.left(passed) {
                Some(0) => 0,
                left => match from.read(&mut buffer[..room.min(left.unwrap_or(room))]) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(_) => break,
                },
            };
            if self.is_silent.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                continue;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            passed += count as u64;
            match self.fault {
                Some(Fault::Cut(..)) if self.left(passed) == Some(0) => break,
                Some(Fault::Silence(..)) if self.left(passed) == Some(0) => {
                    self.is_silent.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        close([from, to]);
    }

    /// How many bytes may pass before the fault.
    fn left(&self, passed: u64) -> Option<usize> {
        match self.fault {
            Some(Fault::Cut(direction, at) | Fault::Silence(direction, at))
                if direction == self.direction =>
            {
                Some(usize::try_from(at.saturating_sub(passed)).unwrap_or(usize::MAX))
            }
            _ => None,
        }
    }
}

fn close(ends: [TcpStream; 2]) {
    // One that is closed already stays so.
    ends.into_iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}
