//! PFDEBUG and PFSELFTEST: a look at the registers, for tests of Redis' suite.
//!
//! Invariant: GETREG and TODENSE make the string dense, as in Redis; the others change nothing.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::hyperloglog::{self, Encoding, REGISTERS};

use super::count::store;
use super::{load, refusal};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::errors::showing;
use crate::keys::{Access, at};

/// Elements up to which PFSELFTEST compares estimates; Redis takes 10 million.
const TESTED_ELEMENTS: u64 = 1_000_000;

/// About what the test takes, in nanoseconds.
const TEST_NS: u64 = 1_000_000_000;

const NO_KEY: Refusal = Refusal::error("ERR The specified key does not exist");
const NOT_SPARSE: Refusal = Refusal::error("ERR HLL encoding is not sparse");

pub(super) const PFDEBUG: DataCommand = Command {
    spec: Spec {
        name: "PFDEBUG",
        since: "2.8.9",
        group: Group::HyperLogLog,
        syntax: "subcommand key",
        summary: "Internal commands for debugging HyperLogLog values.",
        complexity: "N/A",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::ADMIN),
        keys: &[at(2, Access::RW.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: pfdebug,
};

fn pfdebug(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (word, key) = (&args[1], &args[2]);
    let mut bytes = load(tx, key)?.ok_or(NO_KEY)?;
    if is(word, "GETREG") {
        make_dense(tx, key, &mut bytes)?;
        reply.array(REGISTERS);
        for index in 0..REGISTERS {
            let value = hyperloglog::register(&bytes, index).map_err(refusal)?;
            reply.integer(i64::from(value));
        }
    } else if is(word, "DECODE") {
        let text = hyperloglog::decode(&bytes).map_err(refusal)?.ok_or(NOT_SPARSE)?;
        reply.bulk(text.as_bytes());
    } else if is(word, "ENCODING") {
        reply.simple(match hyperloglog::encoding(&bytes).map_err(refusal)? {
            Encoding::Dense => "dense",
            Encoding::Sparse => "sparse",
        });
    } else if is(word, "TODENSE") {
        let converted = make_dense(tx, key, &mut bytes)?;
        reply.integer(i64::from(converted));
    } else {
        return Err(showing("ERR Unknown PFDEBUG subcommand '", word, "'"));
    }
    Ok(())
}

/// Makes the registers dense; whether they were not.
fn make_dense(tx: &mut Tx, key: &[u8], bytes: &mut Vec<u8>) -> Result<bool, Refusal> {
    let converted = hyperloglog::to_dense(bytes).map_err(refusal)?;
    if converted {
        store(tx, key, bytes)?;
    }
    Ok(converted)
}

pub(super) const PFSELFTEST: DataCommand = Command {
    spec: Spec {
        name: "PFSELFTEST",
        since: "2.8.9",
        group: Group::HyperLogLog,
        summary: "An internal command for testing HyperLogLog values.",
        complexity: "N/A",
        arity: exactly(1),
        flags: Flags::ADMIN,
        ..Spec::BASE
    },
    subcommands: &[],
    run: pfselftest,
};

fn pfselftest(tx: &mut Tx, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    tx.charge(TEST_NS)?;
    hyperloglog::self_test(TESTED_ELEMENTS).map_err(Refusal::owned)?;
    reply.ok();
    Ok(())
}
