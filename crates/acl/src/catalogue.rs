//! What rules need to know of the server's commands.
//!
//! Invariant: a name has one id for as long as the process lives.

use std::collections::HashMap;

use commands::categories;

/// One command or subcommand, as it is told to [`Catalogue::new`].
pub struct Listed {
    /// Its number.
    pub id: usize,
    /// In lower case, `container|subcommand` for a subcommand.
    pub name: String,
    /// Its categories, `@` included.
    pub categories: Vec<&'static str>,
    /// The command that it is a subcommand of.
    pub container: Option<usize>,
}

/// All commands.
pub struct Catalogue {
    /// By id; where a command was taken away there is none.
    commands: Vec<Option<Command>>,
    ids: HashMap<Box<[u8]>, usize>,
}

struct Command {
    name: Box<str>,
    /// A bit for each of [`categories::ALL`].
    categories: u32,
    container: Option<usize>,
}

impl Catalogue {
    /// The catalogue of these commands, whose ids are below `len`.
    pub fn new(len: usize, listed: impl IntoIterator<Item = Listed>) -> Catalogue {
        let mut catalogue =
            Catalogue { commands: (0..len).map(|_| None).collect(), ids: HashMap::new() };
        for Listed { id, name, categories, container } in listed {
            let bits = categories.iter().filter_map(|name| category(name.as_bytes()));
            let categories = bits.fold(0, |all, bit| all | 1 << bit);
            catalogue.ids.insert(Box::from(name.as_bytes()), id);
            catalogue.commands[id] = Some(Command { name: name.into(), categories, container });
        }
        catalogue
    }

    /// One more than the greatest id.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The command of a full name, in any case of letters.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.ids.get(&*name.to_ascii_lowercase()).copied()
    }
}

/// The number of a category, `@` included, in any case of letters.
pub(crate) fn category(name: &[u8]) -> Option<usize> {
    categories::ALL.iter().position(|it| it.as_bytes().eq_ignore_ascii_case(name))
}
