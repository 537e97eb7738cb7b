//! `cjson`: values to JSON and back.
//!
//! Invariant: what a script sets lasts for its run, as if each run had a library of its own.

mod decode;
mod encode;
#[allow(unsafe_code, reason = "values are read and made on Lua's own stack")]
mod ffi;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::number::format_f64_digits;
use mlua::{Lua, MultiValue, Table, Value};

use super::DEPTH_MAX;
use crate::call::{Call, define, type_name};
use crate::scratch::Scratch;

/// What a script can set.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    convert_sparse: bool,
    sparse_ratio: usize,
    sparse_safe: usize,
    encode_depth: usize,
    decode_depth: usize,
    precision: usize,
    keeps_buffer: bool,
    encodes_invalid: Invalid,
    decodes_invalid: bool,
    marks_arrays: bool,
}

/// Changes a setting if a value was given; tells what it is then.
type Setter = fn(&Call<'_>, &mut Settings) -> mlua::Result<MultiValue>;

/// What becomes of NaN and the infinities.
#[derive(Clone, Copy, PartialEq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            convert_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: DEPTH_MAX,
            decode_depth: DEPTH_MAX,
            precision: 14,
            keeps_buffer: true,
            encodes_invalid: Invalid::Refused,
            decodes_invalid: true,
            marks_arrays: false,
        }
    }
}

/// The settings of all instances that a run has changed.
#[derive(Default)]
pub(crate) struct JsonSettings {
    shared: RefCell<Settings>,
    is_changed: Cell<bool>,
}

impl JsonSettings {
    /// Forgets what a run has set.
    pub(crate) fn reset(&self) {
        if self.is_changed.take() {
            self.shared.take();
        }
    }

    /// The settings of now.
    fn get(&self) -> Settings {
        *self.shared.borrow()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Settings) -> T) -> T {
        self.is_changed.set(true);
        change(&mut self.shared.borrow_mut())
    }
}

/// Makes an instance of the library; arrays that it marks get the metatable `arrays`.
pub(crate) fn cjson(
    lua: &Lua,
    scratch: &Rc<Scratch>,
    settings: &Rc<JsonSettings>,
    arrays: &Table,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    ffi::add(lua, &table, scratch, settings, arrays)?;
    let setters: [(&str, Setter); 8] = [
        ("encode_sparse_array", set_sparse),
        ("encode_max_depth", |call, settings| set_depth(call, &mut settings.encode_depth)),
        ("decode_max_depth", |call, settings| set_depth(call, &mut settings.decode_depth)),
        ("encode_number_precision", |call, settings| {
            set_number(call, 0, &mut settings.precision, 1, 14)?;
            values([Value::Integer(settings.precision as i64)])
        }),
        ("encode_keep_buffer", |call, settings| set_flag(call, &mut settings.keeps_buffer)),
        ("encode_invalid_numbers", set_encodes_invalid),
        ("decode_invalid_numbers", |call, settings| set_flag(call, &mut settings.decodes_invalid)),
        ("decode_array_with_array_mt", |call, settings| set_flag(call, &mut settings.marks_arrays)),
    ];
    for (name, set) in setters {
        let own = Rc::clone(settings);
        define(lua, &table, name, move |call| {
            let (most, count) =
                (if name == "encode_sparse_array" { 3 } else { 1 }, call.args.len());
            if count > most {
                return Err(call.bad_argument(most, "found too many arguments"));
            }
            own.change(|settings| set(call, settings))
        })?;
    }
    let (own, mark) = (Rc::clone(scratch), arrays.clone());
    define(lua, &table, "new", move |call| cjson(call.lua, &own, &Rc::default(), &mark))?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn values<const N: usize>(values: [Value; N]) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter(values))
}

fn set_sparse(call: &Call<'_>, settings: &mut Settings) -> mlua::Result<MultiValue> {
    if !call.is_absent(0) {
        settings.convert_sparse = flag(call, 0)?;
    }
    set_number(call, 1, &mut settings.sparse_ratio, 0, i32::MAX as usize)?;
    set_number(call, 2, &mut settings.sparse_safe, 0, i32::MAX as usize)?;
    values([
        Value::Boolean(settings.convert_sparse),
        Value::Integer(settings.sparse_ratio as i64),
        Value::Integer(settings.sparse_safe as i64),
    ])
}

fn set_depth(call: &Call<'_>, depth: &mut usize) -> mlua::Result<MultiValue> {
    set_number(call, 0, depth, 1, i32::MAX as usize)?;
    values([Value::Integer(*depth as i64)])
}

fn set_flag(call: &Call<'_>, setting: &mut bool) -> mlua::Result<MultiValue> {
    if !call.is_absent(0) {
        *setting = flag(call, 0)?;
    }
    values([Value::Boolean(*setting)])
}

fn set_encodes_invalid(call: &Call<'_>, settings: &mut Settings) -> mlua::Result<MultiValue> {
    if !call.is_absent(0) {
        settings.encodes_invalid = match call.get(0) {
            Value::String(word) if *word.as_bytes() == *b"null" => Invalid::Null,
            _ if flag(call, 0)? => Invalid::Written,
            _ => Invalid::Refused,
        };
    }
    values([match settings.encodes_invalid {
        Invalid::Refused => Value::Boolean(false),
        Invalid::Written => Value::Boolean(true),
        Invalid::Null => Value::String(call.lua.create_string("null")?),
    }])
}

fn set_number(
    call: &Call<'_>,
    index: usize,
    setting: &mut usize,
    least: usize,
    most: usize,
) -> mlua::Result<()> {
    if call.is_absent(index) {
        return Ok(());
    }
    let number = usize::try_from(call.integer(index)?).ok();
    let Some(number) = number.filter(|number| (least..=most).contains(number)) else {
        let reason = format!("expected integer between {least} and {most}");
        return Err(call.bad_argument(0, &reason));
    };
    *setting = number;
    Ok(())
}

/// A truth value, or the words `on` and `off`.
fn flag(call: &Call<'_>, index: usize) -> mlua::Result<bool> {
    match call.get(index) {
        Value::Boolean(value) => Ok(*value),
        Value::String(word) if *word.as_bytes() == *b"on" => Ok(true),
        Value::String(word) if *word.as_bytes() == *b"off" => Ok(false),
        _ => Err(bad_option(call)),
    }
}

fn bad_option(call: &Call<'_>) -> mlua::Error {
    let text = match call.get(0) {
        Value::String(word) => format!("invalid option '{}'", word.to_string_lossy()),
        Value::Integer(number) => format!("invalid option '{number}'"),
        Value::Number(number) => {
            format!("invalid option '{}'", format_f64_digits(*number, 14).as_str())
        }
        other => format!("string expected, got {}", type_name(other)),
    };
    call.bad_argument(0, &text)
}
