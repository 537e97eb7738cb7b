//! COMMAND DOCS: what a declaration says about a command, and its arguments read from its grammar.
//!
//! Invariant: a field is there if and only if the declaration has something to say in it.

use commands::Spec;
use engine::table::command_table::CommandEntry;
use proto::Reply;

use super::syntax::{self, Argument, ArgumentKind};

/// Writes the name of a command and the map of its documentation.
pub(super) fn write_named(entry: &CommandEntry, reply: &mut Reply<'_>) {
    reply.bulk(entry.full_name.as_bytes());
    let map = reply.defer();
    let fields = write(entry, reply);
    reply.finish_map(map, fields);
}

/// Writes the fields; returns how many.
fn write(entry: &CommandEntry, reply: &mut Reply<'_>) -> usize {
    let Spec { summary, since, complexity, history, deprecated, .. } = *entry.spec;
    let mut fields = Fields { reply, count: 0 };
    fields.text("summary", summary);
    fields.text("since", since);
    fields.text("group", entry.spec.group.name());
    if !complexity.is_empty() {
        fields.text("complexity", complexity);
    }
    if let Some((version, instead)) = deprecated {
        fields.begin("doc_flags").set(1);
        fields.reply.simple("deprecated");
        fields.text("deprecated_since", version);
        fields.text("replaced_by", instead);
    }
    if !history.is_empty() {
        let reply = fields.begin("history");
        reply.set(history.len());
        for (version, change) in history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    let keys = entry.spec.keys.len();
    let arguments = syntax::arguments(entry.spec.syntax, keys > 0);
    if !arguments.is_empty() {
        write_arguments(
            &arguments,
            &mut KeySpecs { next: 0, count: keys },
            fields.begin("arguments"),
        );
    }
    if !entry.subcommands.is_empty() {
        let reply = fields.begin("subcommands");
        reply.map(entry.subcommands.len());
        entry.subcommands.iter().for_each(|subcommand| write_named(subcommand, reply));
    }
    fields.count
}

/// Counts the fields of a map as they are written.
struct Fields<'a, 'r> {
    reply: &'a mut Reply<'r>,
    count: usize,
}

impl<'r> Fields<'_, 'r> {
    fn begin(&mut self, name: &str) -> &mut Reply<'r> {
        self.count += 1;
        self.reply.bulk(name.as_bytes());
        self.reply
    }

    fn text(&mut self, name: &str, text: &str) {
        self.begin(name).bulk(text.as_bytes());
    }
}

/// Gives each argument that is a key its key specification, in order.
struct KeySpecs {
    next: usize,
    count: usize,
}

impl KeySpecs {
    fn take(&mut self) -> usize {
        let index = self.next.min(self.count.saturating_sub(1));
        self.next += 1;
        index
    }
}

fn write_arguments(arguments: &[Argument], keys: &mut KeySpecs, reply: &mut Reply<'_>) {
    reply.array(arguments.len());
    for argument in arguments {
        let map = reply.defer();
        let fields = write_argument(argument, keys, reply);
        reply.finish_map(map, fields);
    }
}

fn write_argument(argument: &Argument, keys: &mut KeySpecs, reply: &mut Reply<'_>) -> usize {
    let mut fields = Fields { reply, count: 0 };
    fields.text("name", &argument.name);
    fields.text("type", argument.kind.name());
    if argument.arguments.is_empty() {
        fields.text("display_text", &argument.name);
    }
    if argument.kind == ArgumentKind::Key {
        let index = keys.take();
        fields.begin("key_spec_index").integer(i64::try_from(index).unwrap_or(0));
    }
    if let Some(token) = argument.token {
        fields.text("token", token);
    }
    let flags = [
        (argument.optional, "optional"),
        (argument.multiple, "multiple"),
        (argument.multiple_token, "multiple_token"),
    ];
    let flags = flags.into_iter().filter_map(|(set, name)| set.then_some(name));
    if flags.clone().next().is_some() {
        let reply = fields.begin("flags");
        reply.set(flags.clone().count());
        flags.for_each(|flag| reply.simple(flag));
    }
    if !argument.arguments.is_empty() {
        write_arguments(&argument.arguments, keys, fields.begin("arguments"));
    }
    fields.count
}
