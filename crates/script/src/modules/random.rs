//! `math.random` and `math.randomseed`: the generator of POSIX' `lrand48`, as in Redis.
//!
//! Invariant: a run's numbers depend on nothing but the position it began with, so a script that
//! runs again, or elsewhere, draws the same ones.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table};

use crate::call::{Call, define};

/// The 48 bits of the generator.
pub(crate) struct Seed(Cell<u64>);

impl Seed {
    /// Where the sequence of a process begins.
    pub(crate) fn new() -> Seed {
        Seed(Cell::new(0x1234_abcd_330e))
    }

    /// Where the sequence is.
    pub(crate) fn position(&self) -> u64 {
        self.0.get()
    }

    /// Goes on from a position.
    pub(crate) fn resume(&self, position: u64) {
        self.0.set(position);
    }

    /// Begins the sequence of a seed.
    fn plant(&self, seed: u32) {
        self.0.set(u64::from(seed) << 16 | 0x330e);
    }

    /// The next 31 bits.
    fn draw(&self) -> u32 {
        const MASK: u64 = (1 << 48) - 1;
        let next = self.0.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
        self.0.set(next);
        (next >> 17) as u32
    }
}

/// Makes the functions that take the place of Lua's.
pub(crate) fn random(lua: &Lua, seed: &Rc<Seed>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let drawn = Rc::clone(seed);
    define(lua, &table, "random", move |call| draw(call, &drawn))?;
    let planted = Rc::clone(seed);
    define(lua, &table, "randomseed", move |call| {
        planted.plant(call.integer(0)? as u32);
        Ok(())
    })?;
    Ok(table)
}

fn draw(call: &Call<'_>, seed: &Seed) -> mlua::Result<f64> {
    const RANGE: u32 = i32::MAX as u32;
    let fraction = f64::from(seed.draw() % RANGE) / f64::from(RANGE);
    let (low, high, last) = match call.args.len() {
        0 => return Ok(fraction),
        1 => (1, call.integer(0)?, 0),
        2 => (call.integer(0)?, call.integer(1)?, 1),
        _ => return Err(call.error("wrong number of arguments")),
    };
    if low > high {
        return Err(call.bad_argument(last, "interval is empty"));
    }
    let count = (i128::from(high) - i128::from(low) + 1) as f64;
    Ok((fraction * count).floor() + low as f64)
}
