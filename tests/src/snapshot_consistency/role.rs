//! What clients write: steps of one command or one unit, each following from its number.
//!
//! Invariants: a step leaves its number under a key of its writer's, or comes right behind one
//! that does, so that the keys tell after how many steps they are; what several writers change does
//! not depend on their order.

/// How often all was flushed.
pub(super) const EPOCH: &str = "flusher:epoch";

/// How often databases 1 and 2 changed places.
pub(super) const SWAPS: &str = "swapper:swaps";

/// Runs the commands of its arguments, which are encoded as JSON.
const SCRIPT: &str = "local replies = {}
    for number, command in ipairs(ARGV) do
        replies[number] = redis.call(unpack(cjson.decode(command)))
    end
    return replies";

/// A deadline that no test lives to see, in Unix milliseconds.
const FAR: u64 = 9_000_000_000_000;

/// The role of a client that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Keys of its own, counters and accounts that it shares; all as units if all is flushed
    /// meanwhile, so that each tells on which side of a flush it was.
    Writer { number: usize, in_units: bool },
    /// Has databases 1 and 2 change places.
    Swapper,
    /// Flushes all.
    Flusher,
}

/// How the commands of a step are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One command by itself.
    Plain,
    Transaction,
    Script,
}

/// What a writer does at once.
pub(super) struct Step {
    form: Form,
    /// Its commands, one after the other.
    pub(super) commands: Vec<Vec<String>>,
}

impl Role {
    /// What the names of its own keys begin with.
    pub(super) fn prefix(self) -> String {
        match self {
            Self::Writer { number, .. } => format!("writer{number}:"),
            Self::Swapper => "swapper:".to_owned(),
            Self::Flusher => "flusher:".to_owned(),
        }
    }

    /// The key that many of its steps leave their number under.
    pub(super) fn watched_key(self) -> String {
        self.prefix() + "text"
    }

    /// The step of this number.
    pub(super) fn step(self, number: u64) -> Step {
        let transaction = |commands| Step { form: Form::Transaction, commands };
        match self {
            // FLUSHALL would give up the snapshot under way.
            Self::Flusher => transaction(
                format!(
                    "FLUSHDB\nSELECT 1\nFLUSHDB\nSELECT 2\nFLUSHDB\nSELECT 0\n\
                     SET {EPOCH} {number}"
                )
                .lines()
                .map(words)
                .collect(),
            ),
            Self::Swapper => transaction(vec![
                words(&format!("GET {EPOCH}")),
                words("SWAPDB 1 2"),
                words(&format!("INCR {SWAPS}")),
                words(&format!("SET {} {number}", self.watched_key())),
            ]),
            Self::Writer { in_units, .. } => self.written(number, in_units),
        }
    }

    fn written(self, n: u64, in_units: bool) -> Step {
        let dice = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let own = self.prefix();
        let (account, other) = (dice % 5, (dice / 5) % 7);
        let lines = match n % 16 {
            0 | 1 => format!("SET {own}text {n}"),
            2 => format!("RPUSH {own}list {n}"),
            3 => format!("HSET {own}hash f{} {n}", dice % 9),
            4 => format!("ZADD {own}scores {n} m{}", dice % 7),
            5 => format!("MSET {own}x{} {n} {own}y{} {n}", dice % 20, dice % 25),
            6 => format!("SET {own}mortal {n} PXAT {}", FAR + n),
            7 => format!("SET {own}old {n}"),
            8 if !in_units => format!("RENAME {own}old {own}new"),
            8 => format!("SET {own}old {n}\nRENAME {own}old {own}new"),
            9 | 10 => format!("INCR count:{account}\nSET {own}text {n}"),
            11 => format!("DECRBY account:{account} 3\nINCRBY account:{other} 3\nSET {own}b {n}"),
            12 | 13 => {
                format!("GET {SWAPS}\nSELECT 1\nSET {own}text {n}\nRPUSH {own}list {n}\nSELECT 0")
            }
            14 => format!(
                "SET {own}passing {n} PX 1\nLMOVE {own}list {own}moved LEFT RIGHT\n\
                 LTRIM {own}moved -9 -1\nSET {own}text {n}"
            ),
            _ => format!(
                "DEL {own}list {own}hash\nSET {own}text {n}\nCOPY {own}text {own}copy REPLACE"
            ),
        };
        let mut commands: Vec<_> = lines.lines().map(words).collect();
        if in_units {
            commands.insert(0, words(&format!("GET {EPOCH}")));
        }
        let form = match commands.len() {
            1 => Form::Plain,
            _ if dice & 1 == 0 => Form::Transaction,
            _ => Form::Script,
        };
        Step { form, commands }
    }
}

impl Step {
    /// What is sent.
    pub(super) fn requests(&self) -> Vec<Vec<String>> {
        match self.form {
            Form::Plain => self.commands.clone(),
            Form::Transaction => {
                let ends = [words("MULTI"), words("EXEC")];
                let mut requests = self.commands.clone();
                let [first, last] = ends;
                requests.insert(0, first);
                requests.push(last);
                requests
            }
            Form::Script => {
                let encode = |command| serde_json::to_string(command).expect("words are JSON");
                let mut request = vec!["EVAL".to_owned(), SCRIPT.to_owned(), "0".to_owned()];
                request.extend(self.commands.iter().map(encode));
                vec![request]
            }
        }
    }

    /// Whether its last reply holds those of all its commands.
    pub(super) fn is_unit(&self) -> bool {
        self.form != Form::Plain
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
