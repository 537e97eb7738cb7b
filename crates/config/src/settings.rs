//! Typed handles to the options that the server reads: `config.get(PORT)` is a `u16`.
//!
//! A handle stands beside the block of its option and names it once more, but only to the compiler:
//! [`setting`] refuses, while compiling, a name without a block and a type that cannot hold every
//! value of its kind. All handles are told on from here, so a new one touches no other file.

use std::marker::PhantomData;

use super::kind::Kind;
use super::options::{ALL, CELLS};
use super::store::{Readable, Setting, Shape};

pub use super::options::{
    clients::*, cluster::*, encoding::*, keydb::*, logging::*, memcached::*, memory::*,
    monitoring::*, network::*, persistence::*, process::*, replication::*, security::*, threads::*,
    tls::*,
};

/// The handle of the option called `name`; its panics are errors of the compiler.
pub(crate) const fn setting<T: Readable>(name: &str) -> Setting<T> {
    let mut index = 0;
    while index < ALL.len() {
        if same(ALL[index].name, name) {
            assert!(fits(&T::SHAPE, &ALL[index].kind), "the option's kind does not fit the type");
            return Setting { cell: CELLS[index], is: PhantomData };
        }
        index += 1;
    }
    panic!("no option has this name");
}

const fn fits(shape: &Shape, kind: &Kind) -> bool {
    match (shape, kind) {
        (Shape::Bool, Kind::Bool) => true,
        (Shape::Bool, Kind::Special(special)) => special.width == 1,
        (Shape::Number(low, high), Kind::Number { least, most, .. }) => {
            *low <= *least && *most <= *high
        }
        (Shape::Numbers(width), Kind::Special(special)) => special.width == *width,
        (Shape::Text, kind) => kind.width() == 0,
        (Shape::Choice(words), Kind::Choice(names)) => {
            let mut index = 0;
            while index < words.len() && index < names.len() && same(words[index], names[index]) {
                index += 1;
            }
            index == words.len() && index == names.len()
        }
        _ => false,
    }
}

const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut index = 0;
    while index < left.len() && index < right.len() && left[index] == right[index] {
        index += 1;
    }
    index == left.len() && index == right.len()
}

/// Declares handles, beside the blocks of their options: name, type, option.
macro_rules! settings {
    ($($handle:ident: $kind:ty = $name:literal;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub const $handle: $crate::store::Setting<$kind> = $crate::settings::setting($name);
    )*};
}
pub(crate) use settings;
