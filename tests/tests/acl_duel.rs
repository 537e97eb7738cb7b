//! Random users on Apus and on the real servers: the same rules are accepted, shown in the same
//! words, and allow the same random requests. Nothing is allowed here that is denied there.
//!
//! `APUS_ACL_REQUESTS=300000` asks so many requests of each server, of fresh seeds.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::BTreeMap;

use base::random::Random;
use proto::value::Value;
use tests::client::line;
use tests::differential::Command;
use tests::generator::{Declared, Generator, shared};
use tests::render::render;
use tests::{Client, Oracle, Server};

/// How many requests are tried on each server.
const REQUESTS: usize = 3_000;
/// How many requests each user tries.
const FOR_ONE_USER: usize = 20;
/// How many differences are told before a run gives up.
const TOLD: usize = 12;

#[test]
fn random_users_are_those_of_redis70() {
    duel(Oracle::Redis70);
}

#[test]
fn random_users_are_those_of_redis82() {
    duel(Oracle::Redis82);
}

#[test]
fn random_users_are_those_of_valkey91() {
    duel(Oracle::Valkey91);
}

/// The real servers find no key where PFMERGE has no sources (H80): nobody is denied it.
fn is_pfmerge_alone(request: &[Vec<u8>]) -> bool {
    request.len() == 2 && request[0].eq_ignore_ascii_case(b"PFMERGE")
}

/// Valkey says that HELP touches the database where other subcommands do.
fn is_help(request: &[Vec<u8>]) -> bool {
    request.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"HELP"))
}

fn duel(oracle: Oracle) {
    let [ours, theirs] = oracle.beside(&[]);
    let declared = shared(&mut ours.client(), &mut theirs.client());
    let asked = std::env::var("APUS_ACL_REQUESTS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_ACL_REQUESTS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { 1 };
    for (protocol, connect) in
        [("2", Server::client as fn(&Server) -> Client), ("3", Server::client3)]
    {
        let mut duel = Duel {
            oracle,
            clients: [connect(&ours), connect(&theirs)],
            random: Random::from_seed(seed),
            differences: Vec::new(),
            verdicts: BTreeMap::new(),
        };
        duel.fight(seed, &declared, asked.unwrap_or(REQUESTS) / 2);
        let Duel { differences, verdicts, .. } = duel;
        println!("{oracle:?}, RESP{protocol}, seed {seed}: {verdicts:?}");
        assert!(differences.is_empty(), "seed {seed}: {}", differences.join("\n"));
        for verdict in ["OK", "run", "key", "channel"] {
            assert!(verdicts.contains_key(verdict), "never {verdict}: {verdicts:?}");
        }
    }
}

struct Duel {
    oracle: Oracle,
    /// Of ours and of the real server.
    clients: [Client; 2],
    random: Random,
    differences: Vec<String>,
    /// How often each verdict was reached.
    verdicts: BTreeMap<String, usize>,
}

impl Duel {
    fn fight(&mut self, seed: u64, declared: &[Declared], requests: usize) {
        let payloads = [b"payload".to_vec()];
        let mut generator = Generator::new(seed, declared, &payloads);
        let categories = words_of(&self.clients[1].call(&["ACL", "CAT"]));
        let names: Vec<String> = declared.iter().map(|command| command.name.clone()).collect();
        for _ in 0..requests.div_ceil(FOR_ONE_USER) {
            let tried: Vec<Command> =
                (0..FOR_ONE_USER).map(|_| generator.draw().step.command).collect();
            let mut drawer = Drawer {
                random: &mut self.random,
                names: &names,
                categories: &categories,
                tried: &tried,
                has_databases: self.oracle == Oracle::Valkey91,
            };
            let rules = drawer.rules();
            self.make_user(&rules);
            for request in tried {
                self.try_request(&rules, &request);
            }
            if self.differences.len() >= TOLD {
                return;
            }
        }
    }

    fn call(&mut self, words: &[Vec<u8>]) -> [Value; 2] {
        self.clients.each_mut().map(|client| client.call(words))
    }

    /// Rule by rule, so that a wrong one keeps no other out.
    fn make_user(&mut self, rules: &[Vec<u8>]) {
        self.call(&command(&["ACL", "DELUSER", "u"]));
        self.call(&command(&["ACL", "SETUSER", "u", "on", "nopass"]));
        for rule in rules {
            let mut words = command(&["ACL", "SETUSER", "u"]);
            words.push(rule.clone());
            self.compare(&words, rules);
        }
        // Redis 7.0 finds shorter rules that say the same; Valkey has a field for databases.
        if self.oracle != Oracle::Redis70 {
            self.compare(&command(&["ACL", "LIST"]), rules);
        }
        if self.oracle == Oracle::Redis82 {
            self.compare(&command(&["ACL", "GETUSER", "u"]), rules);
        }
    }

    fn compare(&mut self, words: &[Vec<u8>], rules: &[Vec<u8>]) {
        let [ours, theirs] = self.call(words);
        let ours = if self.oracle == Oracle::Valkey91 { as_valkey_says(ours) } else { ours };
        if ours != theirs {
            self.tell(rules, words, &ours, &theirs);
        }
    }

    fn try_request(&mut self, rules: &[Vec<u8>], request: &[Vec<u8>]) {
        let mut words = command(&["ACL", "DRYRUN", "u"]);
        words.extend(request.iter().cloned());
        let [ours, theirs] = self.call(&words);
        *self.verdicts.entry(verdict(&ours)).or_default() += 1;
        let same = match (self.oracle, &theirs) {
            // Some commands take more arguments here.
            (_, Value::Error(_)) => true,
            (Oracle::Redis70, _) => verdict(&ours) == verdict(&theirs),
            // Of two databases that are closed either may be named; and beside what is no database,
            // or a wrong word, Valkey finds none, but another reason to deny the request.
            (Oracle::Valkey91, _) if verdict(&ours) == "database" => verdict(&theirs) != "OK",
            _ => ours == theirs,
        };
        let is_excused = is_pfmerge_alone(request)
            || is_help(request)
            || verdict(&ours) == "OK" && self.is_malformed(request);
        if !same && !is_excused {
            self.tell(rules, &words, &ours, &theirs);
        }
    }

    /// Where the number of keys is none, the real servers look for keys all the same; here the
    /// command refuses it before it looks for any.
    fn is_malformed(&mut self, request: &[Vec<u8>]) -> bool {
        let Value::Error(error) = self.clients[0].call(request) else { return false };
        let error = String::from_utf8_lossy(&error).to_lowercase();
        ["integer", "numkeys", "syntax error", "timeout"].iter().any(|word| error.contains(word))
    }

    fn tell(&mut self, rules: &[Vec<u8>], words: &[Vec<u8>], ours: &Value, theirs: &Value) {
        let (rules, words) = (line(rules), line(words));
        let (ours, theirs) = (render(ours), render(theirs));
        self.differences.push(format!("{rules}\n    {words}\n    {ours}\n    {theirs}"));
    }
}

/// Draws rules that have to do with the requests that are tried.
struct Drawer<'a> {
    random: &'a mut Random,
    names: &'a [String],
    categories: &'a [String],
    tried: &'a [Command],
    has_databases: bool,
}

impl Drawer<'_> {
    fn rules(&mut self) -> Vec<Vec<u8>> {
        let count = 2 + self.random.below(10);
        let mut rules: Vec<Vec<u8>> = Vec::new();
        if self.random.below(2) == 0 {
            rules.push(b"+@all".to_vec());
        }
        for _ in 0..count {
            if self.random.below(8) > 0 {
                rules.push(self.rule());
                continue;
            }
            let inside: Vec<Vec<u8>> = (0..self.random.below(5)).map(|_| self.rule()).collect();
            rules.push([b"(", &*inside.join(&b' '), b")"].concat());
        }
        rules
    }

    fn rule(&mut self) -> Vec<u8> {
        let pattern = self.pattern();
        let text = match self.random.below(if self.has_databases { 17 } else { 16 }) {
            0..=3 => {
                return [self.of(&["~", "~", "%R~", "%W~", "%RW~"]).as_bytes(), &*pattern].concat();
            }
            4 => return [b"&", &*pattern].concat(),
            5 | 6 => format!("{}@{}", self.sign(), self.random_of(self.categories)),
            7..=11 => format!("{}{}", self.sign(), self.name()),
            12 => format!("+{}|{}", self.name(), self.of(&["a", "0", "x"])),
            13 => self.of(&["allkeys", "~*", "&*", "allchannels"]).to_owned(),
            14 => self.of(&["resetkeys", "resetchannels", "nocommands", "allcommands"]).to_owned(),
            15 => self.of(&["+nosuch", "-@nosuch", "%~x", "foo", "%RX~a", "+@", ""]).to_owned(),
            _ => self.of(&["db=0", "db=1,0", "alldbs", "resetdbs", "db=x"]).to_owned(),
        };
        text.into_bytes()
    }

    fn sign(&mut self) -> &'static str {
        self.of(&["+", "+", "-"])
    }

    /// A command that is tried, most of the time.
    fn name(&mut self) -> String {
        if self.random.below(3) == 0 {
            return self.random_of(self.names);
        }
        let request = &self.tried[self.random.below(self.tried.len() as u64) as usize];
        let word = |index: usize| {
            let word = request.get(index).map(|word| String::from_utf8_lossy(word));
            word.unwrap_or_default().to_ascii_lowercase()
        };
        let full = format!("{}|{}", word(0), word(1));
        if self.names.contains(&full) { full } else { word(0) }
    }

    /// What begins like an argument of a request that is tried, and is no more than a rule may be.
    /// The pattern is never the star alone, which is all keys here whatever words give it.
    fn pattern(&mut self) -> Vec<u8> {
        let request = &self.tried[self.random.below(self.tried.len() as u64) as usize];
        let mut word = request[self.random.below(request.len() as u64) as usize].clone();
        word.truncate(self.random.below(8) as usize + 1);
        word.retain(|byte| byte.is_ascii_graphic() && !b"\"'()*".contains(byte));
        if self.random.below(3) > 0 && !word.is_empty() {
            word.truncate(1 + self.random.below(3) as usize);
            word.push(b'*');
        }
        word
    }

    fn of(&mut self, words: &[&'static str]) -> &'static str {
        words[self.random.below(words.len() as u64) as usize]
    }

    fn random_of(&mut self, words: &[String]) -> String {
        words[self.random.below(words.len() as u64) as usize].clone()
    }
}

fn command(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn words_of(reply: &Value) -> Vec<String> {
    let Value::Array(words) = reply else { panic!("{reply:?}") };
    let text = |word: &Value| match word {
        Value::Bulk(word) => String::from_utf8_lossy(word).into_owned(),
        other => panic!("{other:?}"),
    };
    words.iter().map(text).collect()
}

/// What DRYRUN said, in a word: Redis 7.0 says it in other words than later ones.
fn verdict(reply: &Value) -> String {
    let text = match reply {
        Value::Simple(text) | Value::Bulk(text) | Value::Error(text) => {
            String::from_utf8_lossy(text)
        }
        other => panic!("{other:?}"),
    };
    if text.contains("permissions to run") {
        return "run".to_owned();
    }
    for kind in ["key", "channel"] {
        if text.contains("permissions to access") && text.ends_with(kind) {
            return kind.to_owned();
        }
    }
    let kind = if text.contains("access database") {
        "database"
    } else if text == "OK" {
        "OK"
    } else {
        "error"
    };
    kind.to_owned()
}

/// A list of users without the word on payloads, which Valkey 9.1 does not have any more.
fn as_valkey_says(reply: Value) -> Value {
    let Value::Array(lines) = reply else { return reply };
    let line = |line: Value| match line {
        Value::Bulk(text) => {
            let text = String::from_utf8(text).expect("the rules are ASCII");
            Value::Bulk(text.replace(" sanitize-payload", "").into_bytes())
        }
        other => other,
    };
    Value::Array(lines.into_iter().map(line).collect())
}
