//! What all handles of a pool share: its lock, its threads, its stores.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use foretell_policy::Nanos;
use tokio::runtime::{Builder, Runtime};

use crate::access::Access;
use crate::error::Error;
use crate::guests::Host;
use crate::local::Local;
use crate::memory::Arena;
use crate::options::{ASKED, MOST_STORES, Options, Patience};
use crate::readers::now_ns;
use crate::ring::Rings;
use crate::source::{Fault, Source};
use crate::state::State;
use crate::store;

/// Threads for what blocks: names of hosts are looked up there, local files are read, and what is kept on disk.
const BLOCKING_THREADS: usize = 16;

/// Stores by who speaks to them with what, by the part of a URL that names them, and their numbers.
type Stores = HashMap<(Option<Arc<Access>>, String), (usize, Arc<dyn Source>)>;

pub(crate) struct Shared {
    pub(crate) options: Arc<Options>,
    pub(crate) arena: Arc<Arena>,
    /// Tells this pool from others of the process; not 0.
    pub(crate) number: u64,
    began_ns: u64,
    // Shared with nobody, but so that a forked child need not drop them.
    state: Arc<Mutex<State>>,
    stores: Arc<Mutex<Stores>>,
    pub(crate) rings: Arc<Rings>,
    /// Held by who discloses, so that lists of several threads do not mix.
    disclosing: Mutex<()>,
    /// Once it is shared with other processes.
    host: Mutex<Option<Arc<Host>>>,
    pub(crate) runtime: Option<Runtime>,
    pub(crate) me: Weak<Shared>,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Result<Arc<Shared>, Error> {
        static POOLS: AtomicU64 = AtomicU64::new(1);
        options.check()?;
        let no_memory = |error: std::io::Error| Error::NoMemory { why: error.to_string() };
        let arena =
            Arena::new(options.parts(), options.parts_beside(), options.part_bytes).map_err(no_memory)?;
        let rings = Arc::new(Rings::default());
        let state = State::new(&options, arena.clone(), &rings)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("foretell")
            .enable_all()
            .build()
            .map_err(|error| Error::NoThreads { why: error.to_string() })?;
        Ok(Arc::new_cyclic(|me| Shared {
            options: Arc::new(options),
            arena,
            number: POOLS.fetch_add(1, Ordering::Relaxed),
            began_ns: now_ns(),
            state: Arc::new(Mutex::new(state)),
            stores: Arc::default(),
            rings,
            disclosing: Mutex::default(),
            host: Mutex::default(),
            runtime: Some(runtime),
            me: me.clone(),
        }))
    }

    /// The time since the pool was made.
    pub(crate) fn now(&self) -> Nanos {
        Nanos(now_ns().saturating_sub(self.began_ns))
    }

    /// The state, once it has been told what was read without it.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.catch_up(self.now());
        state
    }

    /// Tells the engine what was read without it, and does what it wants then; where somebody else has the lock, a thread of
    /// the pool does.
    pub(crate) fn catch_up(&self) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return self.catch_up_soon(),
        };
        state.catch_up(self.now());
        self.pump(&mut state);
    }

    /// Has a thread of the pool do so.
    pub(crate) fn catch_up_soon(&self) {
        let me = self.me.clone();
        // Without threads the pool is closed.
        let _ = self.spawn(async move {
            if let Some(shared) = me.upgrade() {
                let mut state = shared.state();
                shared.pump(&mut state);
            }
        });
    }

    pub(crate) fn begin_disclosure(&self) -> MutexGuard<'_, ()> {
        self.disclosing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What other processes connect to; `begin` listens for them, when it is asked for the first time.
    pub(crate) fn host(
        &self,
        begin: impl FnOnce(&Arc<Shared>) -> Result<Arc<Host>, Error>,
    ) -> Result<Arc<Host>, Error> {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = &*host {
            return Ok(host.clone());
        }
        let me = self.me.upgrade().ok_or_else(closed)?;
        Ok(host.insert(begin(&me)?).clone())
    }

    /// Has the pool's threads do something until the pool is gone.
    pub(crate) fn spawn(&self, thing: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        self.runtime.as_ref().ok_or_else(closed)?.spawn(thing);
        Ok(())
    }

    /// The child of a fork has the lock, maybe held for ever, and not the threads.
    #[inline]
    pub(crate) fn is_ours(&self) -> Result<(), Error> {
        if self.arena.is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    /// The store of a URL, its number, and the path in it.
    pub(crate) fn store(
        &self,
        access: Option<&Arc<Access>>,
        url: &str,
    ) -> Result<(usize, Arc<dyn Source>, String), Error> {
        let place = store::Place::parse(url)?;
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (access.cloned(), place.name.clone());
        if let Some((number, source)) = stores.get(&key) {
            return Ok((*number, source.clone(), place.path));
        }
        let number = stores.len();
        if number >= MOST_STORES {
            return Err(Error::Limit { what: "stores of a pool", limit: MOST_STORES as u64 });
        }
        let store = place.connect(&self.options, access.map(|access| &**access))?;
        // Made for whoever needs it.
        let source: Arc<dyn Source> = if place.is_local() {
            let local = Local::new(store, self.rings.get().ok());
            Arc::new(local.map_err(|error| Error::NoThreads { why: error.to_string() })?)
        } else {
            Arc::new(store)
        };
        stores.insert(key, (number, source.clone()));
        Ok((number, source, place.path))
    }

    /// A source that is no URL's, by the name that it is given.
    pub(crate) fn store_named(&self, name: &str, source: &Arc<dyn Source>) -> Result<usize, Error> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let number = stores.len();
        let key = (None, name.to_owned());
        match stores.get(&key) {
            Some((number, _)) => Ok(*number),
            None if number >= MOST_STORES => {
                Err(Error::Limit { what: "stores of a pool", limit: MOST_STORES as u64 })
            }
            None => {
                stores.insert(key, (number, source.clone()));
                Ok(number)
            }
        }
    }

    /// Has the pool's threads do several things, some at a time, and waits for them. Each takes the pool's time-out at
    /// most, and after one has failed no further one is begun.
    pub(crate) fn ask<T, R, F, A>(&self, things: Vec<T>, act: A) -> Result<Vec<Result<R, Fault>>, Error>
    where
        T: Send + 'static,
        R: Send + 'static,
        F: Future<Output = Result<R, Fault>> + Send,
        A: Fn(T) -> F + Clone + Send + Sync + 'static,
    {
        let runtime = self.runtime.as_ref().ok_or_else(closed)?;
        let (timeout, at_a_time) = (self.options.timeout, self.options.requests);
        let count = things.len();
        let queue = Arc::new(Mutex::new((things.into_iter().enumerate(), None::<Fault>)));
        let (answer, answers) = std::sync::mpsc::channel();
        for _ in 0..at_a_time.min(count) {
            let (queue, answer, act) = (queue.clone(), answer.clone(), act.clone());
            runtime.spawn(async move {
                loop {
                    let (next, failed) = {
                        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                        (queue.0.next(), queue.1.clone())
                    };
                    let Some((number, thing)) = next else { return };
                    let outcome = match failed {
                        Some(fault) => Err(fault),
                        None => {
                            let outcome = tokio::time::timeout(timeout, act(thing)).await;
                            outcome.unwrap_or_else(|_| Err(Fault::Late(timeout)))
                        }
                    };
                    if let Err(fault @ (Fault::Failed(_) | Fault::Late(_))) = &outcome {
                        queue.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(fault.clone());
                    }
                    if answer.send((number, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(answer);
        let mut all: Vec<Option<Result<R, Fault>>> = (0..count).map(|_| None).collect();
        let mut patience = Patience::new(self.options.keep_waiting);
        loop {
            match answers.recv_timeout(ASKED) {
                Ok((number, outcome)) => all[number] = Some(outcome),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Without the receiver no further thing is begun.
            patience.ask()?;
        }
        all.into_iter().map(|outcome| outcome.ok_or_else(closed)).collect()
    }
}

fn closed() -> Error {
    Error::NoThreads { why: "the pool was closed".to_owned() }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.arena.leave();
        if self.is_ours().is_ok() {
            // Maybe from one of its own threads: nobody may wait for them.
            if let Some(runtime) = self.runtime.take() {
                runtime.shutdown_background();
            }
        } else {
            // There are no threads, and what they were just changing when the child was forked stays as it is.
            let host = self.host.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            std::mem::forget((
                self.runtime.take(),
                self.state.clone(),
                self.stores.clone(),
                self.rings.clone(),
                host,
            ));
        }
    }
}
