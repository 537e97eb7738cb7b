//! How much a run may make outside of Lua's own memory: replies, encoded text, arguments.
//!
//! Invariant: who makes bytes out of Lua values asks here as they grow, because a table can name
//! one long string a million times.

use std::cell::Cell;
use std::rc::Rc;

use mlua::Lua;

use crate::call::Raised;

/// The bytes that one result may have.
#[derive(Clone)]
pub(crate) struct Room(Rc<Cell<usize>>);

impl Room {
    /// Makes the room of a Lua.
    pub(crate) fn new(lua: &Lua) -> Room {
        let room = Room(Rc::new(Cell::new(0)));
        lua.set_app_data(room.clone());
        room
    }

    /// Sets the room of the runs from here on.
    pub(crate) fn set(&self, bytes: usize) {
        self.0.set(bytes);
    }

    /// The bytes that there is room for.
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

/// Raises what Lua does when its memory is out.
pub(crate) fn check_room(lua: &Lua, bytes: usize) -> mlua::Result<()> {
    match lua.app_data_ref::<Room>() {
        Some(room) if bytes > room.get() => Err(Raised::Text(b"not enough memory".to_vec()).into()),
        _ => Ok(()),
    }
}
