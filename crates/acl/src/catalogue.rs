//! What rules need to know of the server's commands.
//!
//! Invariant: a name has one id for as long as the process lives.

use std::collections::HashMap;

use ::commands::categories;

/// One command or subcommand, as it is told to [`Catalogue::new`].
pub struct CatalogueEntry {
    /// Its number.
    pub id: usize,
    /// In lower case, `container|subcommand` for a subcommand.
    pub name: String,
    /// Its categories, `@` included.
    pub categories: Vec<&'static str>,
    /// The command that it is a subcommand of.
    pub container: Option<usize>,
    /// Whether nobody may deny the command, as all need it to log in.
    pub is_exempt: bool,
}

/// All commands.
pub struct Catalogue {
    commands: Vec<Command>,
    ids: HashMap<Box<[u8]>, usize>,
}

#[derive(Default)]
struct Command {
    name: Box<str>,
    /// A bit for each of [`categories::ALL`].
    categories: u32,
    /// Ids.
    subcommands: Vec<usize>,
    is_exempt: bool,
}

impl Catalogue {
    /// The catalogue of these commands, whose ids are the numbers from 0 on.
    pub fn new(listed: impl IntoIterator<Item = CatalogueEntry>) -> Catalogue {
        let mut commands: Vec<Command> = Vec::new();
        for CatalogueEntry { id, name, categories, container, is_exempt } in listed {
            let bits = categories.iter().filter_map(|name| category(name.as_bytes()));
            let command = at(&mut commands, id);
            command.categories = bits.fold(0, |all, bit| all | 1 << bit);
            command.name = name.into();
            command.is_exempt = is_exempt;
            if let Some(container) = container {
                at(&mut commands, container).subcommands.push(id);
            }
        }
        let names = commands.iter().enumerate();
        let ids = names.map(|(id, it)| (Box::from(it.name.as_bytes()), id)).collect();
        Catalogue { commands, ids }
    }

    /// One more than the greatest id.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The command of a full name, in any case of letters.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.ids.get(&*name.to_ascii_lowercase()).copied()
    }

    /// The full name of a command.
    pub(crate) fn name(&self, id: usize) -> &str {
        &self.commands[id].name
    }

    /// The command and its subcommands.
    pub(crate) fn family(&self, id: usize) -> impl Iterator<Item = usize> {
        std::iter::once(id).chain(self.commands[id].subcommands.iter().copied())
    }

    /// The full names of a category's commands, in any case of letters; `None` where there is no
    /// such category.
    pub fn names_in(&self, category: &[u8]) -> Option<impl Iterator<Item = &str>> {
        let number = self::category(&[b"@", category].concat())?;
        Some(self.members(number).map(|id| self.name(id)))
    }

    /// Whether the command has subcommands.
    pub(crate) fn is_container(&self, id: usize) -> bool {
        !self.commands[id].subcommands.is_empty()
    }

    /// The commands of a category.
    pub(crate) fn members(&self, category: usize) -> impl Iterator<Item = usize> {
        self.ids_where(move |command| command.categories & 1 << category != 0)
    }

    /// The commands that nobody is denied.
    pub(crate) fn exempt(&self) -> impl Iterator<Item = usize> {
        self.ids_where(|command| command.is_exempt)
    }

    pub(crate) fn is_exempt(&self, id: usize) -> bool {
        self.commands[id].is_exempt
    }

    fn ids_where(&self, is_meant: impl Fn(&Command) -> bool) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(move |id| is_meant(&self.commands[*id]))
    }
}

fn at(commands: &mut Vec<Command>, id: usize) -> &mut Command {
    if commands.len() <= id {
        commands.resize_with(id + 1, Command::default);
    }
    &mut commands[id]
}

/// The number of a category, `@` included, in any case of letters.
pub(crate) fn category(name: &[u8]) -> Option<usize> {
    categories::ALL.iter().position(|it| it.as_bytes().eq_ignore_ascii_case(name))
}
