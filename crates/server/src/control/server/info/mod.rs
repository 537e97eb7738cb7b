//! INFO: the server in figures, section by section, under the field names of Redis.
//!
//! Fields of what this server does not have yet say what a Redis says that does not use it.
//!
//! Invariant: sections come in one order, each at most once, whatever a client asks for.

mod append_only;
mod clients;
mod cluster;
mod commands;
mod keyspace;
mod mean_ttl;
mod memory;
mod otlp;
mod persistence;
mod process;
mod quotas;
mod replication;
mod report;
mod server;
mod stats;
mod threads;
mod tls;

use ::commands::arguments::is;
use ::commands::declare::{Command, Flags, Group, Spec, at_least};
use ::keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, Next};
use crate::server::Server;

use report::InfoText;

pub(crate) use commands::{baselines, called};

pub(crate) const INFO: ControlCommand = Command {
    spec: Spec {
        name: "INFO",
        since: "1.0.0",
        group: Group::Server,
        syntax: "[section [section ...]]",
        summary: "Returns information and statistics about the server.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        categories: &["@dangerous"],
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        history: &[("7.0.0", "Added support for taking multiple section arguments.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: info,
};

/// A section and what fills it.
struct Section {
    title: &'static str,
    /// Whether INFO has the section without being asked for it.
    default: bool,
    write: fn(&Server, &mut InfoText),
}

/// The section that needs a look at the keys themselves.
const KEYSPACE: &str = "Keyspace";

/// The section that is there only where accounts are kept.
const QUOTAS: &str = "Quotas";

const SECTIONS: &[Section] = &[
    Section { title: "Server", default: true, write: server::write },
    Section { title: "Clients", default: true, write: clients::write },
    Section { title: "Memory", default: true, write: memory::write },
    Section { title: "Persistence", default: true, write: persistence::write },
    Section { title: "Threads", default: true, write: threads::write_threads },
    Section { title: "Workers", default: true, write: threads::write_workers },
    Section { title: "Stats", default: true, write: stats::write },
    Section { title: "Replication", default: true, write: replication::write_replication },
    Section { title: "CPU", default: true, write: process::write_cpu },
    Section { title: "Modules", default: true, write: |_, _| () },
    Section { title: "Commandstats", default: false, write: commands::write_calls },
    Section { title: "Errorstats", default: true, write: stats::write_errors },
    Section { title: "Latencystats", default: false, write: commands::write_latencies },
    Section { title: "Cluster", default: true, write: cluster::write },
    Section { title: "TLS", default: true, write: tls::write },
    Section { title: "OTLP", default: true, write: otlp::write },
    Section { title: QUOTAS, default: true, write: quotas::write },
    Section { title: KEYSPACE, default: true, write: keyspace::write },
    Section { title: "Keysizes", default: true, write: keyspace::write_sizes },
];

fn info(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    let text = text(context, args.skip(1), |_| true);
    reply.verbatim(b"txt", text.as_bytes());
    Ok(Next::Done)
}

/// The sections that are asked for, of those that this process has.
pub(crate) fn text(
    context: &Context<'_>,
    asked: Args<'_>,
    is_present: impl Fn(&str) -> bool,
) -> String {
    let mut report = InfoText::default();
    let has_accounts = context.server.gates.quotas.is_accounting_on();
    let present = SECTIONS
        .iter()
        .filter(|section| is_present(section.title))
        .filter(|section| has_accounts || section.title != QUOTAS);
    for section in present.filter(|section| is_wanted(section.title, section.default, asked)) {
        if !report.text.is_empty() {
            report.text.push_str("\r\n");
        }
        if section.title == KEYSPACE {
            // A script may be where others would wait for its look.
            let means = context.lane().map(mean_ttl::means);
            let databases = context.server.keyspace.database_count();
            report.mean_ttls = means.unwrap_or_else(|_| vec![0; databases]);
        }
        report.line(format_args!("# {}", section.title));
        (section.write)(context.server, &mut report);
    }
    report.text
}

/// The sections one by one, each with what tells it, for callers that can look at no key: no mean
/// times to live are in them.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, impl Fn(&Server) -> String + Send)> {
    SECTIONS.iter().map(|section| {
        let tell = |server: &Server| {
            let mean_ttls = vec![0; server.keyspace.database_count()];
            let mut report = InfoText { mean_ttls, ..InfoText::default() };
            (section.write)(server, &mut report);
            report.text
        };
        (section.title, tell)
    })
}

/// The same as one text.
pub(crate) fn everything(server: &Server) -> String {
    all().map(|(title, tell)| format!("# {title}\r\n{}\r\n", tell(server))).collect()
}

/// Whether a section is asked for; `by_default` it is where none is named.
pub(crate) fn is_wanted(title: &str, by_default: bool, asked: Args<'_>) -> bool {
    asked.is_empty() && by_default
        || asked.iter().any(|word| {
            is(word, title)
                || is(word, "all")
                || is(word, "everything")
                || is(word, "default") && by_default
        })
}
