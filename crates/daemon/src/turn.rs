//! A client's turn: its messages, then the entries of its ring.

use std::collections::BTreeMap;
use std::time::Instant;

use foretell_door::ForeignFd;
use foretell_pagecache::{Broker, Hold, HoldError};
use foretell_protocol::frame::Frame;
use foretell_protocol::ring::ring_bytes;
use foretell_protocol::{Consumer, ErrorCode, Handle, PROTOCOL, Part, Reply, Request, Statistics, Welcome};

use crate::connection::{Connection, End, Named, Role, Speech};
use crate::entries;
use crate::limits::{
    ENTRIES_A_ROUND, LEVELS, MESSAGES_A_ROUND, STATUS_BYTES_OF_ROOT, STATUS_COST, STATUS_REQUEST_BYTES,
};
use crate::owners::Weight;
use crate::run::{self, Run, RunRefused, RunReply, RunRequest};
use crate::service::Service;
use crate::snapshot::StatusRequest;
use crate::unfinished::Telling;

/// Rounds in which a ring is watched though nothing comes.
const SILENT_ROUNDS: u32 = 16;

impl Connection {
    /// Do hints of its run wait for room in the list?
    pub(crate) fn has_pending_hints(&self) -> bool {
        matches!(&self.role, Role::Command(Some(run)) if run.is_waiting())
    }

    fn speech(&mut self) -> Option<&mut Speech> {
        match &mut self.role {
            Role::Client(speech) => Some(speech),
            Role::Unknown | Role::Command(_) => None,
        }
    }
}

impl Service {
    /// Takes what a connection has to say, as much as a turn allows; says whether it is to have another one
    /// soon.
    pub(crate) fn turn(&mut self, id: u64) -> Result<bool, End> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(false) };
        if let Some(end) = connection.ending.take() {
            return Err(end);
        }
        if let Some((handle, taking)) = connection.taking.take() {
            let hold = self.plane.go_on_holding(taking);
            let done = self.named(id, handle, hold);
            self.plane.timing().lap("files named");
            done?;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(false) };
        if connection.taking.is_some() {
            return Ok(true);
        }
        if let Some(request) = connection.asked {
            let told = self.go_on_telling(id, request);
            self.plane.timing().lap("status reports");
            return told.map(|()| true);
        }
        // First what is left of the entry before, then the tail, then the socket, then the entries before the tail.
        if let Some(speech) = connection.speech()
            && speech.rest.is_some()
        {
            let head = speech.ring.head();
            return self.read_ring(id, Some(head)).map(|_| true);
        }
        let tail = match connection.speech() {
            Some(speech) => Some(speech.ring.tail().map_err(|e| End::because(ErrorCode::RingCorrupt, e))?),
            None => None,
        };
        for message in 0..MESSAGES_A_ROUND {
            if message > 0 && self.turn_is_over() {
                break;
            }
            let Some(connection) = self.connections.get_mut(&id) else { return Ok(false) };
            if connection.taking.is_some() || connection.asked.is_some() {
                self.unfinished |= connection.asked.is_some();
                return Ok(true);
            }
            let Some(frame) = connection.receive()? else {
                self.count_half(id)?;
                return self.read_ring(id, tail);
            };
            connection.half_since = None;
            let cost = if matches!(frame.message, Request::Status(_)) { STATUS_COST } else { 1 };
            connection.spend(cost, &self.limits)?;
            let work = work_of(&frame.message);
            let heard = self.hear(id, frame);
            self.plane.timing().lap(work);
            heard?;
        }
        self.unfinished = true;
        Ok(true)
    }

    /// Notes the descriptors that have come with a message whose rest has not.
    fn count_half(&mut self, id: u64) -> Result<(), End> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let now = connection.half_descriptors();
        if now == 0 {
            connection.half_since = None;
        } else if connection.half_since.is_none() {
            connection.half_since = Some(Instant::now());
            self.half.insert(id);
        }
        let (user, before) = (connection.peer.account, connection.half_counted);
        if now != before {
            self.owners.count_half(user, before, now).map_err(|(code, text)| End::Because(code, text))?;
            connection.half_counted = now;
        }
        Ok(())
    }

    /// Takes entries; all messages that came before them have been heard.
    fn read_ring(&mut self, id: u64, tail: Option<u64>) -> Result<bool, End> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(false) };
        let (Some(tail), Role::Client(speech)) = (tail, &mut connection.role) else {
            // A client that has just greeted: its ring is looked at in the next turn.
            return Ok(matches!(connection.role, Role::Client(_)));
        };
        let mut refusals = Vec::new();
        let mut taken = 0;
        let (mut first, mut went_on) = (true, false);
        while taken < ENTRIES_A_ROUND && (first || Instant::now() < self.turn_ends) {
            first = false;
            let done = if speech.rest.is_some() {
                went_on = true;
                let done = speech.go_on(&mut self.plane);
                self.plane.timing().lap("parts of a directive");
                done
            } else if let Some(entry) = speech.ring.take(tail) {
                taken += 1;
                match entry {
                    Ok(entry) => {
                        let done = speech.apply(&mut self.plane, entry);
                        self.plane.timing().lap(entries::work_of(&entry));
                        done
                    }
                    Err(error) => Err((ErrorCode::BadEntry, None, error.to_string())),
                }
            } else {
                break;
            };
            if let Err(refusal) = done {
                speech.refused += 1;
                refusals.push(refusal);
            }
        }
        speech.ring.release();
        speech.taken += u64::from(taken);
        let more = speech.rest.is_some() || speech.ring.head() < tail;
        self.unfinished |= more;
        speech.silent_rounds = if taken > 0 || went_on { 0 } else { speech.silent_rounds + 1 };
        let sleeps = !more && speech.silent_rounds > SILENT_ROUNDS && speech.ring.sleep();
        let head = speech.ring.head();
        let due = speech.rest.is_none() && speech.answer_at.take_if(|at| *at <= head).is_some();
        for (code, handle, text) in refusals {
            connection.refuse_entry(code, handle, text)?;
        }
        // Also when it falls asleep: the plane has taken in by now what was said last.
        if taken > 0 || due || sleeps {
            self.show(id);
        }
        if due {
            self.answer_statistics(id)?;
        }
        Ok(!sleeps)
    }

    fn hear(&mut self, id: u64, frame: Frame<Request, ForeignFd>) -> Result<(), End> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let Frame { message, mut descriptors } = frame;
        let out_of_turn = |what| Err(End::because(ErrorCode::OutOfTurn, what));
        match (message, &mut connection.role) {
            (Request::Hello { protocol, ring_entries }, Role::Unknown) => {
                self.greet(id, protocol, ring_entries, descriptors.pop())
            }
            (Request::Hello { .. }, _) => out_of_turn("a second greeting"),
            (_, Role::Unknown) => out_of_turn("a message before the greeting"),
            (Request::Status(part), _) => self.tell_status(id, &part),
            (Request::File { handle, number }, Role::Client(_)) => match descriptors.pop() {
                Some(descriptor) => self.name_file(id, handle, number, descriptor),
                None => out_of_turn("a file without its descriptor"),
            },
            (Request::Forget { handle }, Role::Client(speech)) => {
                if let Some(named) = speech.files.remove(&handle) {
                    self.plane.release_file(speech.session, named.file);
                    self.owners.forget_file(connection.peer.account, named.weight);
                }
                Ok(())
            }
            (Request::Wake, Role::Client(speech)) => {
                speech.ring.wake();
                speech.silent_rounds = 0;
                Ok(())
            }
            (Request::Stats, Role::Client(speech)) => {
                let tail = speech.ring.tail().map_err(|e| End::because(ErrorCode::RingCorrupt, e))?;
                speech.answer_at = Some(tail);
                Ok(())
            }
            (Request::Run(part), Role::Command(_)) => self.hear_run(id, &part, descriptors.pop()),
            (Request::Run(_), Role::Client(_)) => out_of_turn("a run in a session that has a ring"),
            (_, Role::Command(_)) => out_of_turn("a message of a session with a ring, in one without"),
        }
    }

    fn greet(
        &mut self,
        id: u64,
        protocol: u32,
        ring_entries: Option<u32>,
        memory: Option<ForeignFd>,
    ) -> Result<(), End> {
        if protocol != PROTOCOL {
            let text = format!("this service speaks version {PROTOCOL} of the protocol, not {protocol}");
            return Err(End::Because(ErrorCode::Version, text));
        }
        let role = match ring_entries.zip(memory) {
            None => Role::Command(None),
            Some((entries, memory)) => {
                let ring =
                    Consumer::open(&memory, entries).map_err(|e| End::because(ErrorCode::RingRefused, e))?;
                let ring_bytes = ring_bytes(entries) as u64;
                let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
                self.owners
                    .add_ring(connection.peer.account, ring_bytes, &self.limits)
                    .map_err(|(code, text)| End::Because(code, text))?;
                connection.ring_bytes = ring_bytes;
                let session = self.speak(id)?;
                Role::Client(Box::new(Speech {
                    session,
                    ring,
                    files: BTreeMap::new(),
                    rest: None,
                    taken: 0,
                    refused: 0,
                    answer_at: None,
                    shown: Statistics::default(),
                    silent_rounds: 0,
                }))
            }
        };
        self.opened += 1;
        self.want_turn(id);
        let welcome = Welcome {
            protocol: PROTOCOL,
            block_bytes: self.plane.options().block_bytes,
            files: self.limits.files,
            levels: LEVELS,
            disclosed_blocks: u64::from(self.limits.list_blocks),
        };
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        connection.role = role;
        connection.reply(&Reply::Welcome(welcome))
    }

    fn name_file(&mut self, id: u64, handle: Handle, number: u32, descriptor: ForeignFd) -> Result<(), End> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let Role::Client(speech) = &mut connection.role else { return Ok(()) };
        let number = i32::try_from(number).ok();
        let hold = self.plane.begin_hold(speech.session, descriptor.into_inner(), number);
        self.named(id, handle, hold)
    }

    /// What became of a file that was named.
    fn named(&mut self, id: u64, handle: Handle, hold: Result<Hold, HoldError>) -> Result<(), End> {
        use foretell_pagecache::HoldError as E;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let user = connection.peer.account;
        let Role::Client(speech) = &mut connection.role else { return Ok(()) };
        let held = match hold {
            Ok(Hold::Held(held)) => held,
            Ok(Hold::Waits(taking)) => {
                connection.taking = Some((handle, taking));
                return Ok(());
            }
            Err(error) => {
                let code = match error {
                    E::NotAFile => ErrorCode::NotAFile,
                    E::NotReadable => ErrorCode::NotReadable,
                    E::NotOnDisk { .. } => ErrorCode::NotSteerable,
                    _ => ErrorCode::FileRefused,
                };
                return connection.refuse(code, Some(handle), error.to_string());
            }
        };
        let present = speech.files.get(&handle).map(|named| named.file);
        let refusal = match present {
            // The same once more.
            Some(present) if present == held => None,
            Some(_) => {
                Some((ErrorCode::HandleInUse, "the handle names another file; forget that first".to_owned()))
            }
            None => {
                let weight = Weight {
                    bytes: self.plane.file_size(speech.session, held).unwrap_or(0),
                    name_bytes: self.plane.file_name_bytes(speech.session, held).unwrap_or(0) as u64,
                };
                let named = self.owners.name_file(user, speech.files.len(), weight, &self.limits);
                if named.is_ok() {
                    speech.files.insert(handle, Named { file: held, weight });
                }
                named.err()
            }
        };
        if present.is_some() || refusal.is_some() {
            self.plane.release_file(speech.session, held);
        }
        match refusal {
            Some((code, text)) => connection.refuse(code, Some(handle), text),
            None => Ok(()),
        }
    }

    /// Shows a client how its session fares.
    fn show(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Role::Client(speech) = &mut connection.role else { return };
        let statistics = statistics(&self.plane, speech);
        if statistics != speech.shown {
            speech.ring.publish(&statistics);
            speech.shown = statistics;
        }
    }

    /// Goes on with showing clients how their sessions fare, until then.
    pub(crate) fn show_on(&mut self, ends: Instant) {
        let Some(mut from) = self.showing.take() else { return };
        while let Some((&id, _)) = self.connections.range(from..).next() {
            if Instant::now() >= ends {
                self.showing = Some(id);
                self.unfinished = true;
                return;
            }
            self.show(id);
            from = id + 1;
        }
    }

    fn answer_statistics(&mut self, id: u64) -> Result<(), End> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let Some(statistics) = connection.speech().map(|speech| speech.shown) else { return Ok(()) };
        connection.reply(&Reply::Stats(statistics))
    }

    fn tell_status(&mut self, id: u64, part: &Part) -> Result<(), End> {
        let owner = self.owner;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let user = if owner == Some(connection.peer.user) { 0 } else { connection.peer.user };
        let request = if part.more || part.text.len() > STATUS_REQUEST_BYTES {
            Err(format!("a status request has at most {STATUS_REQUEST_BYTES} bytes, in one part"))
        } else if part.text.is_empty() {
            Ok(StatusRequest::default())
        } else {
            serde_json::from_str(&part.text).map_err(|error| format!("not a status request: {error}"))
        };
        let request = match request {
            Ok(request) => request,
            Err(text) => return connection.refuse(ErrorCode::BadSpecification, None, text),
        };
        if user != 0 && request.user.is_some_and(|wanted| wanted != user) {
            let text = "only root sees what other users do".to_owned();
            return connection.refuse(ErrorCode::NotPermitted, None, text);
        }
        connection.asked = Some(request);
        Ok(())
    }

    /// Goes on with the report that a connection has asked for, as long as the turn lasts, unless another one of its
    /// user's is being told.
    fn go_on_telling(&mut self, id: u64, request: StatusRequest) -> Result<(), End> {
        let owner = self.owner;
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let account = connection.peer.account;
        let user = if owner == Some(connection.peer.user) { 0 } else { connection.peer.user };
        // With the frames' headers, well within what may wait.
        let most = if user == 0 { STATUS_BYTES_OF_ROOT } else { self.limits.outbox_bytes / 2 };
        let mut telling = match self.tellings.remove(&account) {
            Some((of, telling)) if of == id => telling,
            Some(other) => {
                self.tellings.insert(account, other);
                return Ok(());
            }
            None => Box::new(Telling::new(user, request.user, most)),
        };
        let text = loop {
            match self.tell_on(&mut telling) {
                Some(text) => break text,
                None if self.turn_is_over() => {
                    self.tellings.insert(account, (id, telling));
                    self.unfinished = true;
                    return Ok(());
                }
                None => {}
            }
        };
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        connection.asked = None;
        Part::cut(&text).into_iter().try_for_each(|part| connection.reply(&Reply::Status(part)))
    }

    fn hear_run(&mut self, id: u64, part: &Part, root: Option<ForeignFd>) -> Result<(), End> {
        let owner = self.owner;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.peer.user != 0 && owner != Some(connection.peer.user) {
            let text = "only root may take programs under rules through the service".to_owned();
            return connection.refuse(ErrorCode::NotPermitted, None, text);
        }
        let text = match connection.parts.add(part) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(()),
            Err(error) => return Err(End::because(ErrorCode::Malformed, error)),
        };
        match run::parse(&text).and_then(|request| self.do_run(id, request, root.as_ref())) {
            Ok(replies) => replies.iter().try_for_each(|reply| self.reply_run(id, &run::encode(reply))),
            Err((code, text)) => match self.connections.get_mut(&id) {
                Some(connection) => connection.refuse(code, None, text),
                None => Ok(()),
            },
        }
    }

    fn do_run(
        &mut self,
        id: u64,
        request: RunRequest,
        root: Option<&ForeignFd>,
    ) -> Result<Vec<RunReply>, RunRefused> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(Vec::new()) };
        if let (RunRequest::Start { .. }, Some(broker)) = (&request, Broker::of_process()) {
            // Rules and lists name files by paths, which are root's to give.
            let _ = broker.vouch(connection.socket());
        }
        let Role::Command(run) = &mut connection.role else { return Ok(Vec::new()) };
        let bad = |text: &str| Err((ErrorCode::BadSpecification, text.to_owned()));
        match (request, run.as_deref_mut(), root) {
            (request, Some(run), _) => run.answer(&mut self.plane, request),
            (RunRequest::Rules { rules, before_ns }, None, _) => {
                Ok(vec![run::rules_here(&self.plane, rules, before_ns)?])
            }
            (RunRequest::Start { .. }, None, _) if self.runs >= self.limits.runs => {
                let text = format!("{} programs run under rules already; wait for one of them", self.runs);
                Err((ErrorCode::Runs, text))
            }
            (RunRequest::Start { managers }, None, Some(root)) => {
                // With a private host nobody brings processes of others under control.
                let parent = self.owner.map(|_| connection.peer.pid);
                let (started, reply) = Run::start_behind(&mut self.plane, root, parent, managers)?;
                self.runs += 1;
                *run = Some(Box::new(started));
                Ok(vec![reply])
            }
            (RunRequest::Start { .. }, None, None) => bad("a start comes with a pidfd"),
            (_, None, _) => bad("start first"),
        }
    }

    pub(crate) fn reply_run(&mut self, id: u64, text: &str) -> Result<(), End> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        for part in Part::cut(text) {
            connection.reply(&Reply::Run(part))?;
        }
        Ok(())
    }

    /// Passes on the hints that wait.
    pub(crate) fn offer_hints(&mut self) {
        let waiting: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.has_pending_hints())
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let Role::Command(Some(run)) = &mut connection.role else { continue };
            let replies = run.offer(&mut self.plane);
            let said = replies.iter().try_for_each(|reply| self.reply_run(id, &run::encode(reply)));
            match said {
                Ok(()) => self.flush(id),
                Err(end) => self.end(id, end),
            }
        }
    }
}

/// What a message makes the loop do.
fn work_of(message: &Request) -> &'static str {
    match message {
        Request::Hello { .. } => "greetings",
        Request::File { .. } => "files named",
        Request::Forget { .. } => "files forgotten",
        Request::Wake | Request::Stats => "bells",
        Request::Status(_) => "status reports",
        Request::Run(_) => "runs",
    }
}

fn statistics(plane: &foretell_pagecache::Plane, speech: &Speech) -> Statistics {
    let mut counts = plane.session_counts(speech.session);
    let mut manager = plane.managers(speech.session).into_iter().next().unwrap_or_default();
    if plane.is_withheld(speech.session) {
        (counts, manager.owned_blocks) = (counts.without_prefetches(), 0);
    }
    Statistics {
        entries_taken: speech.taken,
        entries_refused: speech.refused,
        disclosed: manager.disclosed,
        disclosed_ahead: manager.disclosed_ahead,
        owned: u64::from(manager.owned_blocks),
        references: counts.references,
        hits: counts.hits,
        demand_fetches: counts.demand_fetches,
        prefetches: counts.prefetches,
        prefetches_useful: counts.prefetches_useful,
        prefetches_late: counts.prefetches_late,
        prefetches_wasted: counts.prefetches_wasted,
        evictions: counts.evictions,
        consulted: manager.consulted,
        overruled: manager.overruled,
        placeholders_used: manager.placeholders_used,
        revoked: u64::from(manager.revoked),
    }
}
