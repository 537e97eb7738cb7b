//! How much a run may make outside of Lua's own memory: replies, encoded text, arguments.
//!
//! Invariant: whatever makes bytes out of Lua values asks here as they grow, because a table can
//! name one long string a million times.

use std::cell::Cell;
use std::rc::Rc;

use mlua::Lua;

use crate::call::Raised;

/// The bytes that one result may have.
#[derive(Clone)]
pub(crate) struct ResultBudget(Rc<Cell<usize>>);

impl ResultBudget {
    /// Makes the budget of a Lua.
    pub(crate) fn new(lua: &Lua) -> ResultBudget {
        let budget = ResultBudget(Rc::new(Cell::new(0)));
        lua.set_app_data(budget.clone());
        budget
    }

    /// Sets the budget of the runs from here on.
    pub(crate) fn set(&self, bytes: usize) {
        self.0.set(bytes);
    }

    /// The bytes that there is room for.
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

/// Raises what Lua does when its memory is out.
pub(crate) fn check_result_budget(lua: &Lua, bytes: usize) -> mlua::Result<()> {
    match lua.app_data_ref::<ResultBudget>() {
        Some(budget) if bytes > budget.get() => {
            Err(Raised::Text(b"not enough memory".to_vec()).into())
        }
        _ => Ok(()),
    }
}
