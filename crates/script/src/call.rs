//! Functions that scripts call: their arguments as Lua's own libraries read them, and errors that
//! name the place of the call.
//!
//! Invariant: what a function raises carries no reference into Lua, so it may travel as far as it
//! likes; `visible` in the interpreter turns it into what scripts see.

use std::fmt;

use base::number::{format_f64, format_i64};
use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};
use proto::ArgsBuffer;

/// Integers below this are exact as doubles.
const EXACT_BOUND: f64 = (1_u64 << 53) as f64;

/// An error raised in Rust, on its way through Lua.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// What a script sees as a string.
    Text(Vec<u8>),
    /// What a script sees as a table: the error of a nested command.
    Reply(ReplyError),
    /// The end of the run, which no script sees.
    Stop,
}

/// The error of a nested command, and where it was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplyError {
    pub(crate) text: Vec<u8>,
    pub(crate) place: Option<Place>,
    /// Whether nobody has counted the error yet.
    pub(crate) is_new: bool,
}

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The chunk's name as it was given, `@` first.
    pub(crate) source: String,
    /// The name as messages show it.
    pub(crate) short_source: String,
    pub(crate) line: usize,
}

impl Place {
    /// Whether the line is the prelude's.
    pub(crate) fn is_ours(&self) -> bool {
        self.source == "=prelude"
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) => formatter.write_str(&String::from_utf8_lossy(text)),
            Raised::Reply(error) => formatter.write_str(&String::from_utf8_lossy(&error.text)),
            Raised::Stop => formatter.write_str("the run is over"),
        }
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for mlua::Error {
    fn from(raised: Raised) -> mlua::Error {
        mlua::Error::external(raised)
    }
}

impl Raised {
    /// What was raised in Rust and came back through Lua.
    pub(crate) fn find(error: &mlua::Error) -> Option<&Raised> {
        match error {
            mlua::Error::CallbackError { cause, .. } => Raised::find(cause),
            other => other.downcast_ref(),
        }
    }
}

/// Where the function at `level` of the stack stands; level 0 is the Rust function that runs.
pub(crate) fn place_at(lua: &Lua, level: usize) -> Option<Place> {
    let place = lua.inspect_stack(level, |frame| {
        let line = frame.current_line()?;
        let source = frame.source();
        let short_source = source.short_src?.into_owned();
        Some(Place { source: source.source?.into_owned(), short_source, line })
    });
    place.flatten()
}

/// An error with the place of the call before it.
pub(crate) fn located(place: Option<&Place>, text: impl AsRef<[u8]>) -> mlua::Error {
    let mut message = Vec::new();
    if let Some(place) = place {
        let prefix = format!("{}:{}: ", place.short_source, place.line);
        message.extend_from_slice(prefix.as_bytes());
    }
    message.extend_from_slice(text.as_ref());
    Raised::Text(message).into()
}

/// One call of a function that scripts see.
pub(crate) struct Call<'lua> {
    pub(crate) lua: &'lua Lua,
    pub(crate) args: MultiValue,
}

impl Call<'_> {
    /// The argument at an index that counts from zero; nil if it was not given.
    pub(crate) fn get(&self, index: usize) -> &Value {
        self.args.get(index).unwrap_or(&Value::Nil)
    }

    /// Whether the argument was left out, or nil was given.
    pub(crate) fn is_absent(&self, index: usize) -> bool {
        matches!(self.get(index), Value::Nil)
    }

    /// A number, or a string that reads as one.
    pub(crate) fn number(&self, index: usize) -> mlua::Result<f64> {
        match self.get(index) {
            Value::Integer(number) => Ok(*number as f64),
            Value::Number(number) => Ok(*number),
            text @ Value::String(_) => {
                let number = self.lua.coerce_number(text.clone())?;
                number.ok_or_else(|| self.wrong_type(index, "number"))
            }
            _ => Err(self.wrong_type(index, "number")),
        }
    }

    /// A number without its fraction.
    pub(crate) fn integer(&self, index: usize) -> mlua::Result<i64> {
        Ok(to_i64(self.number(index)?))
    }

    /// An error about the argument at an index that counts from zero.
    pub(crate) fn bad_argument(&self, index: usize, reason: &str) -> mlua::Error {
        let name =
            self.lua.inspect_stack(0, |frame| frame.names().name.map(std::borrow::Cow::into_owned));
        let name = name.flatten().unwrap_or_else(|| "?".to_owned());
        self.error(format!("bad argument #{} to '{name}' ({reason})", index + 1))
    }

    /// An error with the place of the call before it.
    pub(crate) fn error(&self, text: impl AsRef<[u8]>) -> mlua::Error {
        located(place_at(self.lua, 1).as_ref(), text)
    }

    fn wrong_type(&self, index: usize, expected: &str) -> mlua::Error {
        let got = self.args.get(index).map_or("no value", type_name);
        self.bad_argument(index, &format!("{expected} expected, got {got}"))
    }
}

/// A type as Lua names it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::LightUserData(_) | Value::UserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// Adds a function to a table that scripts see.
pub(crate) fn define<R: IntoLuaMulti>(
    lua: &Lua,
    table: &Table,
    name: &str,
    body: impl Fn(&Call<'_>) -> mlua::Result<R> + 'static,
) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, args: MultiValue| body(&Call { lua, args }))?;
    table.raw_set(name, function)
}

/// A number cut to an integer as C does on x86-64: what does not fit becomes the least.
pub(crate) fn to_i64(number: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&number) { number as i64 } else { i64::MIN }
}

/// The same without a sign: from 2^63 on, what lies beyond it with the highest bit turned. What is
/// no number counts as below.
pub(crate) fn to_u64(number: f64) -> u64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if number >= BOUND { to_i64(number - BOUND) as u64 ^ 1 << 63 } else { to_i64(number) as u64 }
}

/// Adds a number to the arguments of a command; whether it fits.
pub(crate) fn push_number(args: &mut ArgsBuffer, number: f64) -> bool {
    if number.fract() == 0.0 && number.abs() < EXACT_BOUND {
        return args.push(format_i64(number as i64, &mut [0; 20]));
    }
    if number.is_nan() && number.is_sign_negative() {
        // The sign of a NaN shows, as it does in C.
        return args.push(b"-nan");
    }
    args.push(&format_f64(number))
}
