//! How much a run may make outside of Lua's own memory: replies, encoded text, arguments.
//!
//! Invariant: who makes bytes out of Lua values asks here as they grow, because a table can name
//! one long string a million times.

use std::cell::Cell;

use mlua::Lua;

use crate::call::Raised;

/// The bytes that one result may have.
struct Room(Cell<usize>);

/// Sets the room of the runs from here on.
pub(crate) fn set_room(lua: &Lua, bytes: usize) {
    if let Some(room) = lua.app_data_ref::<Room>() {
        room.0.set(bytes);
        return;
    }
    lua.set_app_data(Room(Cell::new(bytes)));
}

/// Raises what Lua does when its memory is out.
pub(crate) fn check_room(lua: &Lua, bytes: usize) -> mlua::Result<()> {
    match lua.app_data_ref::<Room>() {
        Some(room) if bytes > room.0.get() => {
            Err(Raised::Text(b"not enough memory".to_vec()).into())
        }
        _ => Ok(()),
    }
}
