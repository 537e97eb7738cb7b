//! The command table: from a name in a request to a declaration and its handler.
//!
//! Built once at start from the families that it is told, with `rename-command` applied.
//!
//! Invariant: ids are dense, containers and subcommands alike, so statistics are plain arrays.

use std::num::NonZeroU64;
use std::sync::Arc;

use acl::{Catalogue, CatalogueEntry};
use base::quote::shown;
use commands::errors;
use commands::{Command, DataCommand, Flags, Group, Handler, LockPlan, Role, Spec, categories};
use keyspace::Refusal;
use proto::Args;

/// Where a script or a function is told how many keys follow.
const PROGRAM_COUNT: usize = 2;

/// A command as it is found: declaration, handler, id.
pub struct CommandEntry {
    /// Index into per-command statistics.
    pub id: usize,
    /// Lower case, `container|subcommand` for a subcommand; after renaming.
    pub full_name: String,
    /// The declaration of the command.
    pub spec: &'static Spec,
    /// What runs the command.
    pub run: Run,
    /// Whether the command locks one key and no more, at index 1.
    pub has_first_key: bool,
    /// Whether the command is a program that says at index 2 how many keys follow.
    pub(crate) counts_keys: bool,
    /// Whether requests for it may share their locks with others.
    pub is_brief: bool,
    /// In order of declaration; empty unless this is a container.
    pub subcommands: Vec<CommandEntry>,
}

impl CommandEntry {
    /// The one key of a request, where it has just one and may meet no others but as a program.
    #[inline]
    pub(crate) fn only_key<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        if self.has_first_key {
            return args.get(1);
        }
        let has_one = self.counts_keys && args.get(PROGRAM_COUNT) == Some(b"1");
        if has_one { args.get(PROGRAM_COUNT + 1) } else { None }
    }

    /// Whether the command confirms what it did by messages, which are no replies.
    pub fn answers_with_messages(&self) -> bool {
        let spec = &self.spec;
        let tells = spec.group == Group::PubSub && spec.flags.has(Flags::SUBSCRIBED);
        tells || spec.role == Role::SyncSlots
    }

    /// Whether another node of a cluster may run the command for a client of this one: the command
    /// is about its keys, and neither about this node nor about what its session goes on with.
    pub(crate) fn runs_elsewhere(&self) -> bool {
        let (flags, role) = (self.spec.flags, self.spec.role);
        let of_session = [Flags::SESSION, Flags::USES_FIELDSET, Flags::ASKING];
        let is_kept = of_session.into_iter().any(|flag| flags.has(flag)) || role == Role::Migrate;
        let has_keys = !self.spec.keys.is_empty();
        let is_steering = matches!(self.run, Run::Control) && role != Role::ShardPublish;
        has_keys && !is_kept && !is_steering
    }

    /// Whether the command may change the data; EXEC and scripts may, unless they say that they do
    /// not.
    #[inline]
    pub fn may_write(&self) -> bool {
        let flags = self.spec.flags;
        let is_program = matches!(self.run, Run::Unit) && !flags.has(Flags::FAST);
        flags.has(Flags::WRITE) || is_program && !flags.has(Flags::READONLY)
    }
}

/// What runs a command.
#[derive(Clone, Copy)]
pub enum Run {
    /// A command on data: its handler.
    Data(Handler),
    /// The control plane, by the command's id.
    Control,
    /// A program, by the command's id.
    Unit,
}

/// Where a name leads.
#[derive(Clone, Copy, Default)]
struct NameSlot {
    /// The name, if it is short enough.
    word: Option<NonZeroU64>,
    /// Index + 1 into the entries, 0 for none.
    number: u16,
}

/// Families of commands that a kind of handler runs.
pub(crate) type FamiliesOf<H> = &'static [&'static [&'static Command<H>]];

/// The families of commands, by what runs them.
pub struct Families<C: 'static, P: 'static> {
    /// Commands on data, a list for each family, from several places.
    pub data: &'static [&'static [&'static [&'static DataCommand]]],
    /// Commands of the control plane.
    pub control: FamiliesOf<C>,
    /// Commands that run as programs of several steps: EXEC, EVAL and their kin.
    pub programs: FamiliesOf<P>,
    /// Data commands that stand below containers of the other kinds, from several places.
    pub subcommands: &'static [&'static [(&'static str, &'static DataCommand)]],
}

/// What runs the commands of one kind, by their ids.
pub struct Handlers<H>(Box<[Option<H>]>);

impl<H: Copy> Handlers<H> {
    /// What runs a command of this kind.
    pub fn of(&self, entry: &CommandEntry) -> H {
        self.0[entry.id].expect("the entry says which kind it is")
    }
}

/// The table, and what runs the commands that it knows by their ids.
pub struct Built<C, P> {
    /// The commands by their names.
    pub table: CommandTable,
    /// What runs the commands of the control plane, by their ids.
    pub control: Handlers<C>,
    /// What makes the programs, by the ids of their commands.
    pub programs: Handlers<P>,
}

/// All commands of the server.
pub struct CommandTable {
    entries: Vec<CommandEntry>,
    /// Open addressing.
    slots: Box<[NameSlot]>,
    /// Those that were taken away from clients: a log may hold them still.
    removed: Vec<CommandEntry>,
    count: usize,
    catalogue: Arc<Catalogue>,
}

impl CommandTable {
    /// Builds the table, with some commands renamed, or removed where the new name is empty; the
    /// error says which one cannot be, and why.
    pub fn build<C: Copy, P: Copy>(
        families: &Families<C, P>,
        renames: &[(String, String)],
    ) -> Result<Built<C, P>, (usize, &'static str)> {
        let mut builder = Builder { next_id: 0 };
        let mut entries: Vec<CommandEntry> = Vec::new();
        for family in families.data.iter().copied().flatten() {
            entries.extend(family.iter().map(|command| builder.entry(command, &mut data, None)));
        }
        let (mut control, mut programs) = (Vec::new(), Vec::new());
        builder.add_all(families.control, Run::Control, &mut entries, &mut control);
        builder.add_all(families.programs, Run::Unit, &mut entries, &mut programs);
        for (container, command) in families.subcommands.iter().copied().flatten() {
            let container = container.to_ascii_lowercase();
            let entry = entries.iter_mut().find(|entry| entry.full_name == container);
            let entry = entry.expect("the container is declared");
            entry.subcommands.push(builder.entry(command, &mut data, Some(&container)));
        }
        let catalogue = Arc::new(catalogue(&entries));
        let mut removed = Vec::new();
        for (index, (old, new)) in renames.iter().enumerate() {
            let (old, new) = (old.to_ascii_lowercase(), new.to_ascii_lowercase());
            rename(&mut entries, &mut removed, &old, &new).map_err(|why| (index, why))?;
        }
        let mut slots = vec![NameSlot::default(); (entries.len() * 4).next_power_of_two()];
        for (index, entry) in entries.iter().enumerate() {
            let name = entry.full_name.as_bytes();
            let word = short(name);
            let mut place = hash(name, word) & (slots.len() - 1);
            while slots[place].number != 0 {
                place = (place + 1) & (slots.len() - 1);
            }
            let number = u16::try_from(index + 1).expect("there are a few hundred commands");
            slots[place] = NameSlot { word, number };
        }
        let slots = slots.into_boxed_slice();
        let count = builder.next_id;
        let table = Self { entries, slots, removed, count, catalogue };
        let (control, programs) = (by_id(control, count), by_id(programs, count));
        Ok(Built { table, control, programs })
    }

    /// How many ids there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The top-level commands, in order of declaration.
    pub fn entries(&self) -> &[CommandEntry] {
        &self.entries
    }

    /// The command a name stands for, in any case of letters.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&CommandEntry> {
        let word = short(name);
        let mut place = hash(name, word) & (self.slots.len() - 1);
        loop {
            let slot = self.slots[place];
            let entry = self.entries.get(usize::from(slot.number).checked_sub(1)?)?;
            let is_same = match word {
                Some(_) => slot.word == word && entry.full_name.len() == name.len(),
                None => entry.full_name.as_bytes().eq_ignore_ascii_case(name),
            };
            if is_same {
                return Some(entry);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// The command or subcommand of a request.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<&CommandEntry, Refusal> {
        let Some(entry) = self.find(&args[0]) else { return Err(unknown_command(args)) };
        if entry.subcommands.is_empty() || args.len() == 1 {
            return Ok(entry);
        }
        entry.subcommand(&args[1]).ok_or_else(|| unknown_subcommand(entry, &args[1]))
    }

    /// The command that was declared by this name, whatever clients call it now; one that was taken
    /// away from them is still found.
    pub fn declared(&self, name: &[u8]) -> Option<&CommandEntry> {
        let mut all = self.entries.iter().chain(&self.removed);
        all.find(|entry| entry.is_declared_as(name))
    }

    /// The same, of the commands that clients can call.
    pub fn declared_for_clients(&self, name: &[u8]) -> Option<&CommandEntry> {
        self.entries.iter().find(|entry| entry.is_declared_as(name))
    }

    /// As `resolve`, by the names that the commands had before any was renamed or taken away: those
    /// that the server itself writes into a log, and that others wrote there before.
    pub fn resolve_declared(&self, args: Args<'_>) -> Option<&CommandEntry> {
        let entry = self.declared(&args[0])?;
        match args.get(1) {
            Some(name) if !entry.subcommands.is_empty() => entry.subcommand(name),
            _ => Some(entry),
        }
    }

    /// What rules of users need to know of the commands; they call them by the names that they had
    /// before any was renamed.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue)
    }

    /// A command by its full name, `container|subcommand` included.
    pub fn find_full(&self, name: &[u8]) -> Option<&CommandEntry> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find(&name[..bar])?.subcommand(&name[bar + 1..]),
        }
    }
}

impl CommandEntry {
    /// Whether this was its name before any command was renamed.
    fn is_declared_as(&self, name: &[u8]) -> bool {
        self.spec.name.as_bytes().eq_ignore_ascii_case(name)
    }

    /// Whether every request that begins with this word means it, of which one did.
    #[inline]
    pub(crate) fn is_meant_by(&self, word: &[u8]) -> bool {
        // The name of a subcommand is longer than its container's, which the word is.
        self.subcommands.is_empty() && self.full_name.len() == word.len()
    }

    /// The subcommand of a container.
    pub(crate) fn subcommand(&self, name: &[u8]) -> Option<&Self> {
        self.subcommands.iter().find(|entry| entry.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The entry itself, then its subcommands.
    pub fn family(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.subcommands)
    }
}

struct Builder {
    next_id: usize,
}

impl Builder {
    /// Adds commands that are run by their ids; what runs each goes to `handlers`.
    fn add_all<H: Copy>(
        &mut self,
        families: FamiliesOf<H>,
        run: Run,
        entries: &mut Vec<CommandEntry>,
        handlers: &mut Vec<(usize, H)>,
    ) {
        for command in families.iter().copied().flatten() {
            let note = &mut |command: &'static Command<H>, id| {
                handlers.push((id, command.run));
                run
            };
            entries.push(self.entry(command, note, None));
        }
    }

    fn entry<H: Copy>(
        &mut self,
        command: &'static Command<H>,
        run: &mut dyn FnMut(&'static Command<H>, usize) -> Run,
        container: Option<&str>,
    ) -> CommandEntry {
        let id = self.next_id;
        self.next_id += 1;
        let name = command.spec.name.to_ascii_lowercase();
        let full_name = match container {
            Some(container) => format!("{container}|{name}"),
            None => name,
        };
        let children = command.subcommands.iter();
        let subcommands = children.map(|child| self.entry(child, run, Some(&full_name))).collect();
        let (spec, run) = (&command.spec, run(command, id));
        let locks_keys = spec.plan == LockPlan::Keys;
        let has_first_key = matches!(spec.keys, [only] if only.is_first()) && locks_keys;
        let is_counted = matches!(spec.keys, [only] if only.is_counted_at(PROGRAM_COUNT));
        let counts_keys = is_counted && matches!(run, Run::Unit);
        // Which of the programs are brief shows when they run.
        let is_brief = has_first_key && is_brief(spec, run) || counts_keys;
        CommandEntry { id, full_name, spec, run, has_first_key, counts_keys, is_brief, subcommands }
    }
}

fn data(command: &'static DataCommand, _id: usize) -> Run {
    Run::Data(Handler::of(command))
}

fn by_id<H: Copy>(handlers: Vec<(usize, H)>, count: usize) -> Handlers<H> {
    let mut all = vec![None; count];
    for (id, handler) in handlers {
        all[id] = Some(handler);
    }
    Handlers(all.into())
}

/// Whether a command that has one key does little with it, needs no more locks than that one's, and
/// changes nothing but data: the commands that Redis calls fast, and those on strings.
fn is_brief(spec: &Spec, run: Run) -> bool {
    let flags = spec.flags;
    let goes_on = [Flags::BLOCKING, Flags::TOUCHES_ARBITRARY_KEYS, Flags::USES_FIELDSET];
    matches!(run, Run::Data(_))
        && spec.plan == LockPlan::Keys
        && (flags.has(Flags::FAST) || spec.group == Group::String)
        && !goes_on.into_iter().any(|flag| flags.has(flag))
}

fn catalogue(entries: &[CommandEntry]) -> Catalogue {
    let listed = entries.iter().flat_map(|top| {
        top.family().map(|entry| CatalogueEntry {
            id: entry.id,
            name: entry.full_name.clone(),
            categories: categories::of(entry.spec, !entry.subcommands.is_empty()).collect(),
            container: (entry.id != top.id).then_some(top.id),
            is_exempt: entry.spec.flags.has(Flags::NO_AUTH),
        })
    });
    Catalogue::new(listed)
}

fn rename(
    entries: &mut Vec<CommandEntry>,
    removed: &mut Vec<CommandEntry>,
    old: &str,
    new: &str,
) -> Result<(), &'static str> {
    let Some(index) = entries.iter().position(|entry| entry.full_name == old) else {
        return Err("No such command in rename-command");
    };
    if new.is_empty() {
        removed.push(entries.remove(index));
        return Ok(());
    }
    if entries.iter().any(|entry| entry.full_name == new) {
        return Err("Target command name already exists");
    }
    let entry = &mut entries[index];
    entry.full_name = new.to_owned();
    for child in &mut entry.subcommands {
        child.full_name = format!("{new}|{}", child.spec.name.to_ascii_lowercase());
    }
    Ok(())
}

/// The bytes of a name in lower case, if they are at most eight; the length goes beside it.
#[inline]
fn short(name: &[u8]) -> Option<NonZeroU64> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    if name.len() > 8 {
        return None;
    }
    let word = name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    // Eight comparisons at once: where a byte is one of the capitals, the high bit is set.
    let low = word & !HIGH;
    let (from_a, above_z) = (low + (0x80 - 0x41) * ONES, low + (0x80 - 0x5b) * ONES);
    let capitals = from_a & !above_z & !word & HIGH;
    NonZeroU64::new(word | capitals >> 2)
}

/// Of a name in any case of letters.
#[inline]
fn hash(name: &[u8], word: Option<NonZeroU64>) -> usize {
    if let Some(word) = word {
        return (word.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    }
    // FNV-1a.
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193);
    name.iter().take(32).fold(0x811c_9dc5, step) as usize
}

#[cold]
fn unknown_command(args: Args<'_>) -> Refusal {
    let mut others = Vec::new();
    for argument in args.iter().skip(1) {
        if others.len() >= 128 {
            break;
        }
        let room = 128 - others.len();
        others.extend([b"'", shown(argument, room), b"' "].concat());
    }
    let parts: [&[u8]; 4] =
        [b"ERR unknown command '", shown(&args[0], 128), b"', with args beginning with: ", &others];
    Refusal::owned(parts.concat())
}

#[cold]
fn unknown_subcommand(container: &CommandEntry, name: &[u8]) -> Refusal {
    let container = container.full_name.to_ascii_uppercase();
    errors::unknown_subcommand(&container, name)
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn only_letters_change_their_case() {
        for byte in 0..=u8::MAX {
            let expected = byte.to_ascii_lowercase();
            assert_eq!(short(&[b'x', byte]), short(&[b'x', expected]));
            let word = short(&[b'x', byte, b'y']).unwrap().get();
            assert_eq!(word >> 8 & 0xff, u64::from(expected));
        }
    }
}
