//! What a Sentinel is told by files, instances, other Sentinels and clients, of any bytes: the
//! Sentinel goes on, and the file that it writes then is one that it reads as the same.
#![no_main]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use base::Random;
use libfuzzer_sys::fuzz_target;
use proto::value::Value;
use proto::{OwnedArgs, Resp};
use sentinel::{
    Action, ClientId, ConnectionId, Event, HELLO_CHANNEL, Level, Millis, Options, Purpose, Sentinel,
};

const FILE: &[u8] = b"sentinel monitor m 127.0.0.1 6379 2\n\
                      sentinel down-after-milliseconds m 1000\n\
                      sentinel known-replica m 127.0.0.1 6380\n";

/// What stands between pieces of the data.
const END: u8 = 0xff;

fuzz_target!(|data: &[u8]| {
    if let Ok((sentinel, _)) = start(data, 0) {
        comes_back(&sentinel, data);
    }
    let (sentinel, actions) = start(FILE, 0).ok().expect("the file is right");
    let mut world =
        World { sentinel, now: 0, info: Vec::new(), hearing: None, coming: VecDeque::new() };
    world.take(actions);
    for piece in data.split(|byte| *byte == END) {
        let [kind, text @ ..] = piece else { continue };
        match kind {
            b'i' => world.info = text.to_vec(),
            b'h' => world.say_hello(text),
            b'c' => world.command(text),
            _ => world.now += Millis::from(*kind) * 10,
        }
        world.feed(Event::Tick);
        world.settle();
    }
    comes_back(&world.sentinel, FILE);
});

fn start(text: &[u8], now: Millis) -> Result<(Sentinel, Vec<Action>), sentinel::ConfigError> {
    let options = Options {
        port: 26379,
        requirepass: None,
        log_level: Level::Nothing,
        is_executable: Box::new(|_| true),
    };
    Sentinel::start(options, text, now, Random::from_seed(1))
}

/// Whether what it writes into a file is read, and says the same from there on: an epoch of a hello
/// that runs ahead of its Sentinel's is caught up with by reading.
fn comes_back(sentinel: &Sentinel, file: &[u8]) {
    let read = |text: &[u8]| match start(text, 0) {
        Ok((again, _)) => again.rewritten(text),
        Err(error) => panic!("{error}\nin {}", text.escape_ascii()),
    };
    let text = read(&sentinel.rewritten(file));
    assert_eq!(read(&text).escape_ascii().to_string(), text.escape_ascii().to_string());
}

/// Instances that take everything, and answer INFO as the data say.
struct World {
    sentinel: Sentinel,
    now: Millis,
    info: Vec<u8>,
    /// A connection on which hellos are heard.
    hearing: Option<ConnectionId>,
    coming: VecDeque<Event>,
}

impl World {
    fn feed(&mut self, event: Event) {
        let actions = self.sentinel.handle(self.now, event);
        self.take(actions);
    }

    /// Feeds what came of what was fed.
    fn settle(&mut self) {
        for _ in 0..100 {
            let Some(event) = self.coming.pop_front() else { return };
            self.feed(event);
        }
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Connect { connection, purpose, .. } => {
                    if purpose == Purpose::Messages {
                        self.hearing = Some(connection);
                    }
                    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
                    self.coming.push_back(Event::Connected { connection, local });
                }
                Action::Send { connection, command, .. } => {
                    let value = match command.as_args().get(0) {
                        Some(b"INFO") => Value::Bulk(self.info.clone()),
                        Some(b"PING") => Value::Simple(b"PONG".to_vec()),
                        _ => Value::Simple(b"OK".to_vec()),
                    };
                    self.coming.push_back(Event::Received { connection, value });
                }
                _ => {}
            }
        }
    }

    fn say_hello(&mut self, payload: &[u8]) {
        let Some(connection) = self.hearing else { return };
        let words = [b"message".as_slice(), HELLO_CHANNEL.as_bytes(), payload];
        let value = Value::Array(words.map(|word| Value::Bulk(word.to_vec())).to_vec());
        self.feed(Event::Received { connection, value });
    }

    fn command(&mut self, text: &[u8]) {
        let words = [b"SENTINEL".as_slice()].into_iter();
        let args: OwnedArgs = words.chain(text.split(|byte| *byte == b' ')).collect();
        self.feed(Event::Command { client: ClientId(1), resp: Resp::Three, args });
    }
}
