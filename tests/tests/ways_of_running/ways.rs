//! The ways in which a command comes to run, and how each is gone.
//!
//! Invariant: a real server goes the same way, or, where it has none, that of a plain request.

use base::quote::quote;
use proto::value::Value;
use serde_json::Value as Json;
use tests::Client;
use tests::http::send;
use tests::render::render;
use tests::server::eventually;

use super::acts::{Act, Form};
use super::scene::{Scene, expand};

/// How a command comes to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// By itself.
    Request,
    /// As a line of text.
    Inline,
    /// Among others that have come together.
    Pipelined,
    /// The same, with turns that are over as soon as something is done.
    ShortTurns,
    /// Under locks that several requests share.
    Batched,
    /// By a script, under locks that several scripts share.
    BatchedScript,
    /// Behind the end of a pause.
    Paused,
    /// Behind a wait for its key's lock.
    Parked,
    /// Without its locks while it computes, if it can.
    Apart,
    /// By the console of the dashboard.
    Console,
    /// By EXEC.
    Exec,
    /// By EXEC that goes on elsewhere.
    ExecElsewhere,
    /// By EXEC that begins again.
    ExecAgain,
    /// By a script that needs no Lua.
    Direct,
    /// By one that gives up to Lua.
    GivenUp,
    /// By a script in Lua.
    Lua,
    /// By one that names no key.
    Undeclared,
    /// By one that goes on elsewhere.
    LuaElsewhere,
    /// By a function.
    Function,
    /// By a script within EXEC.
    ScriptInExec,
    /// For a waiter, by another's command.
    Served,
    /// For a waiter, by another's EXEC.
    ServedByExec,
    /// For a waiter, by another's script.
    ServedByScript,
    /// For a waiter of a transaction that begins again for it.
    ServedAgain,
    /// On a thread for heavy work.
    Heavy,
    /// There, by EXEC.
    HeavyInExec,
    /// There, by a script.
    HeavyInScript,
    /// By memcached.
    Memcached,
    /// From a primary's stream.
    Stream,
    /// From the log, at a start.
    Replay,
}

/// Holds `t` until `maxclients` is this.
const HOLD: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";

const LIBRARY: &str = "#!lua name=ways\nredis.register_function('run', \
     function(keys, args) return redis.call(unpack(args)) end)";

impl Way {
    /// Whether acts of this form are run so.
    pub(super) fn runs(self, form: Form) -> bool {
        match self {
            Self::Served | Self::ServedByExec | Self::ServedByScript | Self::ServedAgain => {
                matches!(form, Form::Wait(..))
            }
            Self::Heavy | Self::HeavyInExec | Self::HeavyInScript => matches!(form, Form::Heavy(_)),
            Self::Memcached => matches!(form, Form::Foreign(..)),
            _ => matches!(form, Form::Command(_)),
        }
    }

    /// Whether the client that has the act run may keep copies of what it reads.
    pub(super) fn may_track(self) -> bool {
        use Way::{Batched, BatchedScript, Console, Memcached, Replay, Stream};
        !matches!(self, Batched | BatchedScript | Console | Memcached | Replay | Stream)
    }

    /// What of the server is as the way needs it, before what counts begins.
    pub(super) fn prepare(self, scene: &mut Scene) {
        let is_ours = !scene.is_genuine();
        match self {
            Self::Function => {
                scene.ask_words(&["FUNCTION", "LOAD", "REPLACE", LIBRARY]);
            }
            // No reply waits for the disk.
            Self::Batched | Self::BatchedScript if is_ours => {
                scene.ask("CONFIG SET appendfsync everysec");
            }
            Self::ShortTurns if is_ours => _ = scene.ask("DEBUG FAILPOINT SHORT"),
            Self::Apart if is_ours => _ = scene.ask("DEBUG FAILPOINT APART"),
            Self::ExecElsewhere | Self::LuaElsewhere if is_ours => {
                scene.ask("DEBUG FAILPOINT HEAVY");
            }
            Self::ExecAgain if is_ours => _ = scene.ask("DEBUG FAILPOINT WIDEN"),
            Self::GivenUp if is_ours => _ = scene.ask("DEBUG FAILPOINT GIVE-UP"),
            Self::ServedAgain if is_ours => _ = scene.ask("DEBUG FAILPOINT SERVICE"),
            Self::Parked if is_ours => scene.hold(HOLD),
            _ => {}
        }
    }

    /// Runs an act; what the client is told that has it run.
    pub(super) fn run(self, scene: &mut Scene, act: &Act, keys: &[Vec<u8>]) -> String {
        let (line, wake) = match act.form {
            Form::Command(line) | Form::Heavy(line) => (line, ""),
            Form::Wait(line, wake) => (line, wake),
            Form::Foreign(request, answer, line) if scene.is_genuine() => {
                scene.actor.call(&expand(line));
                return answer.to_owned() + &request[..0];
            }
            Form::Foreign(request, ..) => {
                return scene.memcached().line(&format!("{request}\r\n")).trim_end().to_owned();
            }
        };
        let words = expand(line);
        match self {
            Self::Request | Self::Apart | Self::Heavy | Self::Stream | Self::Replay => {
                render(&scene.actor.call(&words))
            }
            Self::Inline => {
                scene.actor.send_raw(format!("{line}\r\n").as_bytes());
                render(&scene.actor.receive())
            }
            Self::Pipelined | Self::ShortTurns | Self::Batched => {
                pipelined(&mut scene.actor, words, &PADS.map(expand))
            }
            Self::BatchedScript => pipelined_scripts(&mut scene.actor, &words, keys),
            Self::Paused => paused(scene, &words),
            Self::Parked => scene.parked(&words),
            Self::Console => console(scene, line, &words),
            Self::Exec | Self::ExecElsewhere | Self::ExecAgain | Self::HeavyInExec => {
                exec(&mut scene.actor, &[&words])
            }
            Self::Direct | Self::GivenUp => {
                script(scene, "return redis.call(COMMAND)", &words, keys)
            }
            Self::Lua | Self::LuaElsewhere | Self::HeavyInScript => {
                script(scene, "for i = 1, 1 do end return redis.call(COMMAND)", &words, keys)
            }
            Self::Undeclared => {
                script(scene, "for i = 1, 1 do end return redis.call(COMMAND)", &words, &[])
            }
            Self::Function => {
                let count = keys.len().to_string();
                let call = [b"FCALL".to_vec(), b"run".to_vec(), count.into_bytes()];
                render(&scene.actor.call(&[&call[..], keys, &words].concat()))
            }
            Self::ScriptInExec => {
                let call = eval("return redis.call(COMMAND)", &words, keys);
                exec(&mut scene.actor, &[&call])
            }
            Self::Served | Self::ServedAgain => {
                scene.other.call(&expand(wake));
                render(&scene.actor.receive())
            }
            Self::ServedByExec => {
                exec(&mut scene.other, &[&expand(wake)]);
                render(&scene.actor.receive())
            }
            Self::ServedByScript => {
                call_for(&mut scene.other, &expand(wake));
                render(&scene.actor.receive())
            }
            Self::Memcached => unreachable!("a request of memcached is a foreign one"),
        }
    }
}

type Words = Vec<Vec<u8>>;

/// What lock other keys.
const PADS: [&str; 3] = ["STRLEN pad", "STRLEN pad2", "STRLEN pad"];

/// Amid these.
fn pipelined(actor: &mut Client, words: Words, pads: &[Words; 3]) -> String {
    let commands = [&pads[..], &[words], &pads[..]].concat();
    let replies = actor.pipeline(&commands);
    assert!(replies[..3].iter().chain(&replies[4..]).all(|it| *it == Value::Integer(3)));
    render(&replies[3])
}

/// The same of scripts.
fn pipelined_scripts(actor: &mut Client, words: &Words, keys: &[Vec<u8>]) -> String {
    let call = |words: &Words, keys: &[Vec<u8>]| eval("return redis.call(COMMAND)", words, keys);
    let pads = PADS.map(expand).map(|words| call(&words, &words[1..]));
    pipelined(actor, call(words, keys), &pads)
}

/// Has a script call this, whose first argument is its only key.
fn call_for(client: &mut Client, words: &Words) {
    client.call(&eval("return redis.call(COMMAND)", words, &words[1..2]));
}

fn paused(scene: &mut Scene, words: &Words) -> String {
    let id = scene.actor.id();
    let before = scene.heard_of(&id);
    assert_eq!(scene.ask("CLIENT PAUSE 600000 WRITE"), "OK");
    scene.actor.send(words);
    eventually("the command has come", || scene.heard_of(&id) > before);
    assert_eq!(scene.ask("CLIENT UNPAUSE"), "OK");
    render(&scene.actor.receive())
}

fn exec(client: &mut Client, commands: &[&Words]) -> String {
    client.call(&["MULTI"]);
    let queued: Vec<String> = commands.iter().map(|words| render(&client.call(words))).collect();
    format!("{} {}", queued.join(" "), render(&client.call(&["EXEC"])))
}

/// EVAL of a script that calls this command.
fn eval(source: &str, words: &Words, keys: &[Vec<u8>]) -> Words {
    let (mut named, mut arguments) = (Vec::new(), Words::new());
    for (at, word) in words.iter().enumerate() {
        let key = keys.iter().position(|key| key == word).filter(|_| at > 0);
        named.push(match key {
            Some(key) => format!("KEYS[{}]", key + 1),
            None if at == 0 => format!("'{}'", String::from_utf8_lossy(word)),
            None => {
                arguments.push(word.clone());
                format!("ARGV[{}]", arguments.len())
            }
        });
    }
    let source = match named.len() {
        ..200 => source.replace("COMMAND", &named.join(", ")),
        _ => {
            arguments = words.clone();
            source.replace("COMMAND", "unpack(ARGV)")
        }
    };
    let count = keys.len().to_string();
    let call = [b"EVAL".to_vec(), source.into_bytes(), count.into_bytes()];
    [&call[..], keys, &arguments].concat()
}

fn script(scene: &mut Scene, source: &str, words: &Words, keys: &[Vec<u8>]) -> String {
    let call = eval(source, words, keys);
    render(&scene.actor.call(&call))
}

/// The console's reply, in the words of a client.
fn console(scene: &mut Scene, line: &str, words: &Words) -> String {
    let Some(port) = scene.http_port() else { return render(&scene.actor.call(words)) };
    let answer = send(port, "POST", "/api/command", "", line);
    assert_eq!(answer.status, 200, "{line}: {}", answer.body);
    shown(&answer.json()["reply"])
}

/// A reply in JSON as a client of Redis shows it.
fn shown(reply: &Json) -> String {
    match reply {
        Json::Null => "(nil)".to_owned(),
        Json::Number(number) => format!("(integer) {number}"),
        Json::String(text) => quote(text.as_bytes()),
        Json::Array(items) => {
            let items = items.iter().enumerate();
            let lines = items.map(|(at, item)| format!("{}) {}", at + 1, shown(item)));
            lines.collect::<Vec<_>>().join("\n")
        }
        Json::Object(named) => match (&named.get("status"), &named.get("error")) {
            (Some(Json::String(text)), _) => text.clone(),
            (_, Some(Json::String(text))) => format!("(error) {text}"),
            _ => shown(&map(&named["map"])),
        },
        Json::Bool(_) => reply.to_string(),
    }
}

/// A map as a list of names and values.
fn map(pairs: &Json) -> Json {
    let pairs = pairs.as_array().expect("pairs").iter();
    Json::Array(pairs.flat_map(|pair| pair.as_array().expect("a pair").clone()).collect())
}
