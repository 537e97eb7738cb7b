//! Commands within EXEC that are not about the data: where they run, and what they change for the
//! commands behind them.
//!
//! Invariant: what such a command makes of its session holds from the next command on, and for none
//! before.

use commands::Role;
use keyspace::Refusal;
use proto::{Output, Reply};

use super::{Exec, makes_final};
use crate::admission::redirection::slot_access;
use crate::lane::Lane;
use crate::session::fieldsets::Fieldsets;
use crate::session::multi::Queued;
use crate::session::{ClientView, Session};
use crate::table::command_table::CommandEntry;
use crate::transaction::control_plane::{CallingSession, ControlOutcome, ControlRequest};
use crate::transaction::unit::{RunsOn, Unit, failpoint};

impl Exec {
    /// Runs a control command; whether it failed.
    pub(super) fn control(
        &mut self,
        queued: Queued<'_>,
        unit: &mut Unit,
        place: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<bool, Refusal> {
        let (server, Queued { entry, args, .. }, mark) = (self.server, queued, out.mark());
        unit.has_seen = self.watching.is_some() || !self.ran.is_empty();
        failpoint::trigger(unit)?;
        if makes_final(entry) {
            unit.become_final()?;
        }
        let ended = match place {
            _ if entry.spec.role == Role::Select => self.select(&args[1], unit, out),
            RunsOn::Worker(lane, session) => {
                // What it took along is not to be copied where the session changes it.
                self.fieldsets = Fieldsets::default();
                // The command may ask where it is. The session itself follows when all is over.
                let home = session.database;
                session.select(unit.tx.database());
                let mut reply = Reply::new(out, session.resp);
                let asker = Some(CallingSession { lane, session });
                let request = ControlRequest { entry, asker, unit: Some(&mut *unit) };
                let next = match self.task.take() {
                    Some(work) => Ok(ControlOutcome::Offload(work)),
                    None => server.control(request, args, &mut reply),
                };
                let next = match next {
                    Ok(ControlOutcome::Offload(work))
                        if unit.refuses_long_work() && makes_final(entry) =>
                    {
                        self.task = Some(work);
                        // The command may change the rights of its own user.
                        self.subject = session.acl_subject_from_now(server);
                        return Err(Refusal::Heavy);
                    }
                    next => next,
                };
                let ended = next.and_then(|next| next.end_here(lane.number, args, &mut reply));
                if makes_final(entry) {
                    self.refresh_after_control(entry, unit, lane, session);
                    out.set_ceiling(server.output_ceiling(&session.client));
                } else {
                    session.select(home);
                }
                ended
            }
            RunsOn::Heavy => self.offload_control(queued, unit, out),
        };
        match ended {
            Ok(closes) => {
                self.closes |= closes;
                Ok(false)
            }
            Err(refusal) => {
                out.truncate(mark);
                Ok(self.refuse(unit, &refusal, out))
            }
        }
    }

    /// As `control`, away from the session's worker.
    fn offload_control(
        &mut self,
        queued: Queued<'_>,
        unit: &mut Unit,
        out: &mut Output,
    ) -> Result<bool, Refusal> {
        let (server, entry, args) = (self.server, queued.entry, queued.args);
        let (lane, mut reply) = (unit.tx.options().lane, Reply::new(out, self.resp));
        let request = ControlRequest { entry, asker: None, unit: Some(&mut *unit) };
        let next = match self.task.take() {
            Some(work) => Ok(ControlOutcome::Offload(work)),
            None => server.control(request, args, &mut reply),
        };
        let ended = next.and_then(|next| next.end_here(lane, args, &mut reply));
        unit.refresh_views(unit.reader(), entry);
        // The command may have changed the limits.
        if let Some(client) = &self.out_for {
            out.set_ceiling(server.output_ceiling(client));
        }
        ended
    }

    /// For the commands that come; the session follows when all is over.
    fn select(&self, index: &[u8], unit: &mut Unit, out: &mut Output) -> Result<bool, Refusal> {
        unit.select(index)?;
        Reply::new(out, self.resp).ok();
        Ok(false)
    }

    /// Looks again at what a control command may have made another.
    fn refresh_after_control(
        &mut self,
        entry: &CommandEntry,
        unit: &mut Unit,
        lane: &Lane,
        session: &Session,
    ) {
        self.resp = session.resp;
        self.is_subscriber = session.is_subscriber();
        let ClientView { sees_expired, touches } = ClientView::of(lane, session);
        unit.tx.set_view(sees_expired, touches);
        self.is_mute = !session.replies();
        self.wants_debugger = session.wants_debugger;
        self.subject = session.acl_subject(self.server);
        self.access = slot_access(session);
        unit.refresh_views(session.reader(), entry);
        unit.tx.switch_database(session.database);
    }
}
