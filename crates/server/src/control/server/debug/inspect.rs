//! A look at what lies under keys: DEBUG OBJECT, SDSLEN, LISTPACK, HTSTATS.
//!
//! Invariant: looking changes nothing, not even an access clock.

use base::quote::quote;
use commands::errors::{NO_SUCH_KEY, NOT_AN_INTEGER};
use engine::runtime::log::log_notice;
use keyspace::{EntryRef, Keyspace, PARTITIONS, PartitionIndex, Refusal, Text, Tx};
use proto::{Args, Reply};
use structs::listpack::Listpack;
use structs::object::Stored;

use crate::control::context::{Context, ControlOutcome};

/// Bytes of a DUMP payload that are not the value: its type, the version and the checksum.
const PAYLOAD_FRAME: usize = 11;

pub(super) fn object(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    inspect_stored(context, args, reply, |tx, entry, reply| {
        let length = persist::dump::dump(entry, true).len() - PAYLOAD_FRAME;
        let line = format!(
            "Value at:0x0 refcount:1 encoding:{} serializedlength:{length} lru:{} \
             lru_seconds_idle:{}",
            entry.encoding_name(),
            entry.access_clock(),
            tx.idle_seconds(entry).unwrap_or(0),
        );
        reply.simple(line);
        Ok(())
    })
}

pub(super) fn sdslen(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    inspect_stored(context, args, reply, |_, entry, reply| {
        let length = match entry.text() {
            Some(Text::Inline(bytes)) => bytes.len(),
            Some(Text::Large(blob)) => blob.len(),
            Some(Text::Integer(_)) | None => {
                return Err(Refusal::error("ERR Not an sds encoded string."));
            }
        };
        reply.simple(format!(
            "key_sds_len:{}, key_sds_avail:0, key_zmalloc: {}, val_sds_len:{length}, \
             val_sds_avail:0, val_zmalloc: 0",
            entry.key().len(),
            entry.memory(),
        ));
        Ok(())
    })
}

/// Writes the elements of a listpack to the log, one a line; Redis writes to where it was started.
pub(super) fn listpack(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let log = &context.server.log;
    inspect_entry(context, args, reply, |_, entry, reply| {
        if !entry.encoding_name().starts_with("listpack") {
            return Err(Refusal::error("ERR Not a listpack encoded object."));
        }
        // One that is within the limits but too long to be in one piece has pages.
        if let Some(Stored::Packed(packed)) = entry.stored() {
            let listpack = Listpack::new(packed.bytes);
            log_notice!(log, "DEBUG LISTPACK: {} bytes", packed.bytes.len());
            for (number, element) in listpack.iter().enumerate() {
                log_notice!(log, "DEBUG LISTPACK: {number}: {}", quote(&element.to_vec()));
            }
        }
        reply.simple("Listpack structure printed on stdout");
        Ok(())
    })
}

/// No kind of value that there is yet has a hash table of its own.
pub(super) fn table_of_key(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    inspect_entry(context, args, reply, |_, _, _| {
        Err(Refusal::error(
            "ERR The value stored at the specified key is not represented using an hash table",
        ))
    })
}

/// As `inspect_entry`, and as in Redis the time of the key may be over: a key is there until it is
/// removed.
fn inspect_stored(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    show: impl FnOnce(&Tx, EntryRef<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
) -> Result<ControlOutcome, Refusal> {
    super::inspect_data(context, args, reply, |tx, args, reply| {
        tx.visit_keys([&args[2]])?;
        tx.with_expired(|tx| show(tx, tx.peek(&args[2])?.ok_or(NO_SUCH_KEY)?, reply))
    })
}

/// Looks at the entry of the key that the third argument names.
fn inspect_entry(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    show: impl FnOnce(&Tx, EntryRef<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
) -> Result<ControlOutcome, Refusal> {
    super::inspect_data(context, args, reply, |tx, args, reply| {
        tx.visit_keys([&args[2]])?;
        show(tx, tx.peek(&args[2])?.ok_or(NO_SUCH_KEY)?, reply)
    })
}

pub(super) fn table_of_database(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let keyspace = context.server.keyspace;
    let number = base::number::parse_i64(&args[2]).ok_or(NOT_AN_INTEGER)?;
    let database = usize::try_from(number).ok().filter(|&it| it < keyspace.database_count());
    let database = database.ok_or(Refusal::error("ERR Out of range database"))?;
    let full = match args.get(3) {
        Some(word) => word.eq_ignore_ascii_case(b"full"),
        None => false,
    };
    super::inspect_data(context, args, reply, move |tx, _, reply| {
        let home = tx.switch_database(database);
        let shapes = Shapes::of(tx);
        tx.switch_database(home);
        reply.verbatim(b"txt", shapes?.report(keyspace, database, full).as_bytes());
        Ok(())
    })
}

/// The tables of all partitions, summed up.
#[derive(Default)]
struct Shapes {
    tables: usize,
    segments: usize,
    words: usize,
    used: usize,
    longest_run: usize,
    by_fill: [usize; 9],
}

impl Shapes {
    /// Those of the transaction's present database.
    fn of(tx: &mut Tx) -> Result<Self, Refusal> {
        let mut sum = Self::default();
        for partition in 0..PARTITIONS as PartitionIndex {
            tx.visit(partition)?;
            let shape = tx.table_shape(partition).filter(|shape| shape.words > 0);
            let Some(shape) = shape else { continue };
            sum.tables += 1;
            sum.segments += shape.segments;
            sum.words += shape.buckets * (shape.buckets_by_fill.len() - 1);
            sum.used += shape.words;
            sum.longest_run = sum.longest_run.max(shape.longest_run);
            for (total, count) in sum.by_fill.iter_mut().zip(shape.buckets_by_fill) {
                *total += count;
            }
        }
        Ok(sum)
    }

    /// In the form of Redis as far as the tables are alike.
    fn report(&self, keyspace: &Keyspace, database: usize, full: bool) -> String {
        let mut text = String::from("[Dictionary HT]\n");
        if self.used > 0 {
            text += "Hash table 0 stats (main hash table):\n";
            text += &format!(" table size: {}\n", self.words);
            text += &format!(" number of elements: {}\n", self.used);
        }
        if full && self.used > 0 {
            text += &format!(" partitions: {}\n segments: {}\n", self.tables, self.segments);
            text += &format!(" longest run of full buckets: {}\n", self.longest_run);
            text += " Bucket fill distribution:\n";
            let buckets = self.by_fill.iter().sum::<usize>().max(1);
            for (fill, count) in self.by_fill.iter().enumerate().filter(|(_, count)| **count > 0) {
                let share = *count as f64 * 100.0 / buckets as f64;
                text += &format!("   {fill}: {count} ({share:.2}%)\n");
            }
        }
        text += "[Expires HT]\n";
        let volatile = keyspace.volatile_len(database);
        if volatile > 0 {
            text += &format!(" number of elements: {volatile}\n");
        }
        text
    }
}
