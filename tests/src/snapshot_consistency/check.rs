//! Which steps a snapshot holds, and whether there was a moment when just those had happened.

use super::role::{EPOCH, Role, SWAPS};
use super::store::Store;
use super::{History, Note, Snapshot, State, Writer};

/// Why a snapshot, of which `state` is what was found in it, is of no instant.
///
/// # Errors
///
/// What cannot be.
pub fn check(history: &History, snapshot: &Snapshot, state: &State) -> Result<(), String> {
    let epoch = state.get(&(0, EPOCH.to_owned())).map_or(Ok(0), |text| text.parse());
    let epoch = epoch.map_err(|error| format!("{EPOCH}: {error}"))?;
    let held = |writer| held(writer, snapshot, epoch, state);
    let held = history.writers.iter().map(held).collect::<Result<Vec<usize>, String>>()?;
    let cut = Cut { history, snapshot, epoch, held };
    cut.check_whole(state)?;
    cut.check_time()?;
    cut.check_counters(state)?;
    cut.check_sights(state)
}

/// How many of a writer's steps are in the snapshot, as its own keys tell.
fn held(writer: &Writer, snapshot: &Snapshot, epoch: u64, state: &State) -> Result<usize, String> {
    let prefix = writer.role.prefix();
    let found = of(state, &prefix);
    let is_swapped = is_swapped(state)?;
    let mut store = Store::default();
    let mut nearest = None;
    for number in 0..=writer.notes.len() {
        if let Some(note) = number.checked_sub(1).map(|last| &writer.notes[last]) {
            if note.epoch > epoch || note.sent > snapshot.begun {
                break;
            }
            if note.epoch == epoch {
                store.take(&note.step.commands, note.is_swapped);
            }
        }
        // A later one was there too, if it was flushed, or answered before.
        let next = writer.notes.get(number);
        if next.is_some_and(|next| next.epoch < epoch || next.answered < snapshot.called) {
            continue;
        }
        let expected = of(&store.state(is_swapped), &prefix);
        if expected == found {
            return Ok(number);
        }
        nearest.get_or_insert((number, expected));
    }
    Err(format!(
        "{prefix} is as after none of its steps, in epoch {epoch}: {found:#?}\nthe first it could \
         be as: {nearest:#?}"
    ))
}

/// Whether databases 1 and 2 have changed places.
fn is_swapped(state: &State) -> Result<bool, String> {
    let swaps = state.get(&(0, SWAPS.to_owned())).map_or(Ok(0), |text| text.parse::<u64>());
    swaps.map(|swaps| swaps % 2 == 1).map_err(|error| format!("{SWAPS}: {error}"))
}

fn of(state: &State, prefix: &str) -> State {
    let own = state.iter().filter(|((_, key), _)| key.starts_with(prefix));
    own.map(|(at, value)| (at.clone(), value.clone())).collect()
}

/// Steps that are in a snapshot.
struct Cut<'a> {
    history: &'a History,
    snapshot: &'a Snapshot,
    epoch: u64,
    /// How many of each writer's.
    held: Vec<usize>,
}

impl Cut<'_> {
    /// Every step, and whether it is in the snapshot.
    fn notes(&self) -> impl Iterator<Item = (&Note, bool)> {
        self.history.writers.iter().zip(&self.held).flat_map(|(writer, held)| {
            writer.notes.iter().enumerate().map(move |(at, note)| (note, at < *held))
        })
    }

    /// All that is there follows from the steps, and all that follows is there.
    fn check_whole(&self, state: &State) -> Result<(), String> {
        let mut store = Store::default();
        for (note, is_held) in self.notes() {
            if is_held && note.epoch == self.epoch {
                store.take(&note.step.commands, note.is_swapped);
            }
        }
        let expected = store.state(is_swapped(state)?);
        let differs = |at: &&(usize, String)| expected.get(*at) != state.get(*at);
        match expected.keys().chain(state.keys()).find(differs) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{at:?} is {:?}, and {:?} after the steps {:?} in epoch {}",
                state.get(at),
                expected.get(at),
                self.held,
                self.epoch
            )),
        }
    }

    /// What is in it was sent before anything was answered that is not.
    fn check_time(&self) -> Result<(), String> {
        let Snapshot { called, begun, .. } = *self.snapshot;
        let sent = self.notes().filter(|(_, is_held)| *is_held).map(|(note, _)| note.sent);
        let answered = self.notes().filter(|(_, is_held)| !is_held).map(|(note, _)| note.answered);
        let earliest = sent.max().unwrap_or(0).max(called);
        let latest = answered.min().unwrap_or(u64::MAX).min(begun);
        if earliest < latest {
            return Ok(());
        }
        Err(format!(
            "there is no moment after {earliest} and before {latest}, of {called} to {begun}, \
             when the steps {:?} had happened and no others",
            self.held
        ))
    }

    /// A step that was told a number is in the state just if the number is.
    fn check_counters(&self, state: &State) -> Result<(), String> {
        for (note, is_held) in self.notes() {
            let Some((counter, number)) = &note.raised else { continue };
            let value = state.get(&(0, counter.clone())).map_or("0", String::as_str);
            let value: u64 = value.parse().map_err(|error| format!("{counter}: {error}"))?;
            if note.epoch == self.epoch && is_held != (*number <= value) {
                let rest = if is_held { "is in it" } else { "is not" };
                return Err(format!("{counter} is {value}, and who was told {number} {rest}"));
            }
        }
        Ok(())
    }

    /// What a reader saw of all at once is no later for one writer and earlier for another.
    fn check_sights(&self, state: &State) -> Result<(), String> {
        let number = |writer: &Writer| {
            let text = state.get(&(0, writer.role.watched_key()));
            text.map_or(Ok(0), |text| text.parse::<u64>())
        };
        let writers = self.history.writers.iter().filter(|writer| writer.role != Role::Flusher);
        let numbers = writers.map(number).collect::<Result<Vec<_>, _>>();
        let numbers = numbers.map_err(|error| error.to_string())?;
        let Snapshot { called, begun, .. } = *self.snapshot;
        for sight in &self.history.sights {
            let seen = (sight.epoch, &sight.numbers);
            let is_of_epoch = sight.epoch == self.epoch;
            let all = |holds: fn(&u64, &u64) -> bool| {
                is_of_epoch
                    && sight.numbers.iter().zip(&numbers).all(|(seen, own)| holds(seen, own))
            };
            let is_earlier = sight.epoch < self.epoch || all(|seen, own| seen <= own);
            let is_later = sight.epoch > self.epoch || all(|seen, own| seen >= own);
            let may_be_earlier = sight.sent < begun;
            let may_be_later = sight.answered > called;
            if !(is_earlier && may_be_earlier || is_later && may_be_later) {
                let own = (self.epoch, &numbers);
                return Err(format!("a reader saw {seen:?}, and it holds {own:?}"));
            }
        }
        Ok(())
    }
}
