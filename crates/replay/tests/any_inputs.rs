//! Any sequence of inputs: it is survived, the books stay right, and its log says the same again.

#![allow(clippy::unwrap_used)] // a test's own helpers

use foretell_policy::{
    Action, Allocation, Beside, Block, Config, DiskId, Engine, Extent, FileId, Input, Layout, ManagerId,
    Nanos, Order, PoolPolicy, Prefetch, ProcessId, Residency, Revocation,
};
use foretell_replay::{
    Criterion, End, Log, LogError, OwnedInput, Reader, Record, Writer, recorded, replay, shrink_log,
};
use proptest::prelude::*;

/// Numbers that exist, numbers near the ends of their type, and a few between.
fn id() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..4, 1 => 4u32..80, 1 => Just(u32::MAX), 1 => Just(1 << 16), 1 => any::<u32>()]
}

fn index() -> impl Strategy<Value = u32> {
    prop_oneof![12 => 0u32..40, 1 => Just(u32::MAX), 1 => any::<u32>()]
}

fn block() -> impl Strategy<Value = Block> {
    (id(), index()).prop_map(|(file, index)| Block::new(FileId(file), index))
}

fn process() -> impl Strategy<Value = ProcessId> {
    id().prop_map(ProcessId)
}

fn manager() -> impl Strategy<Value = ManagerId> {
    id().prop_map(ManagerId)
}

fn layout() -> impl Strategy<Value = Layout> {
    let number = || prop_oneof![0u64..100, any::<u64>()];
    let extent = (index(), id(), number(), number(), any::<u16>()).prop_map(
        |(first_block, blocks, address, stride, disk)| Extent {
            first_block,
            blocks,
            address,
            stride,
            disk: DiskId(disk),
        },
    );
    prop_oneof![
        2 => Just(Layout::Unknown),
        1 => prop::collection::vec(extent, 0..4).prop_map(Layout::Extents),
        1 => (any::<u16>(), id(), number()).prop_map(|(disks, unit, base)| Layout::Striped { disks, unit, base }),
    ]
}

fn input() -> impl Strategy<Value = OwnedInput> {
    let file = || id().prop_map(FileId);
    let priority = || prop_oneof![4 => -2i32..3, 1 => any::<i32>()];
    let policy = prop::sample::select(PoolPolicy::all());
    let plain = prop_oneof![
        20 => (process(), block(), any::<bool>())
            .prop_map(|(process, block, stalled)| Input::Accessed { process, block, stalled }),
        8 => (block(), prop::option::of(process())).prop_map(|(block, by)| Input::Loaded { block, by }),
        2 => block().prop_map(|block| Input::FetchFailed { block }),
        3 => block().prop_map(|block| Input::Gone { block }),
        1 => block().prop_map(|block| Input::TakenAlong { block }),
        2 => block().prop_map(|block| Input::EvictRefused { block }),
        1 => process().prop_map(|process| Input::ProcessExited { process }),
        1 => (any::<u16>(), any::<u64>())
            .prop_map(|(disk, access)| Input::Served { disk: DiskId(disk), access: Nanos(access) }),
        1 => (any::<u16>(), any::<u32>())
            .prop_map(|(disk, batch)| Input::DiskBatch { disk: DiskId(disk), batch }),
        1 => (0u16..4, 0u32..20)
            .prop_map(|(disk, reach_blocks)| Input::DiskArm { disk: DiskId(disk), reach_blocks }),
        1 => (process(), any::<u64>())
            .prop_map(|(process, compute)| Input::Computed { process, compute: Nanos(compute) }),
        2 => Just(Input::TimePassed),
        1 => (file(), index()).prop_map(|(file, length_blocks)| Input::FileLength { file, length_blocks }),
        1 => file().prop_map(|file| Input::FileRemoved { file }),
        1 => file().prop_map(|file| Input::FetchesAllowed { file }),
        3 => any::<bool>().prop_map(|persistent| Input::ManagerAdded { persistent }),
        1 => manager().prop_map(|manager| Input::ManagerRemoved { manager }),
        3 => manager().prop_map(|manager| Input::ProcessAdded { manager }),
        1 => (0u32..30).prop_map(|cache_blocks| Input::CacheSize { cache_blocks }),
        1 => Just(Input::MemoryReleased),
        1 => (process(), id()).prop_map(|(process, list)| Input::ReaderAssigned { process, list }),
        1 => (process(), process()).prop_map(|(process, first)| Input::OneProcess { process, first }),
        1 => manager().prop_map(|manager| Input::Cancelled { manager }),
        1 => (manager(), any::<bool>()).prop_map(|(manager, open)| Input::ListsOpen { manager, open }),
        2 => (manager(), file(), priority())
            .prop_map(|(manager, file, priority)| Input::Priority { manager, file, priority }),
        2 => (manager(), priority(), policy)
            .prop_map(|(manager, priority, policy)| Input::Policy { manager, priority, policy }),
        2 => (manager(), file(), index(), index(), priority())
            .prop_map(|(manager, file, first, last, priority)|
                Input::TemporaryPriority { manager, file, first, last, priority }),
        2 => (manager(), file(), index(), index())
            .prop_map(|(manager, file, first, last)| Input::Flushed { manager, file, first, last }),
        1 => (manager(), prop_oneof![Just(4.9), Just(0.0), Just(-1.0), Just(f64::INFINITY)], id())
            .prop_map(|(manager, fetch_references, batch)|
                Input::Scheduled { manager, fetch_references, batch }),
    ];
    prop_oneof![
        60 => plain.prop_map(OwnedInput::Plain),
        4 => layout().prop_map(|layout| OwnedInput::FileAdded { layout }),
        5 => (manager(), id(), prop::collection::vec(block(), 0..40))
            .prop_map(|(manager, list, blocks)| OwnedInput::Disclosed { manager, list, blocks }),
    ]
}

fn inputs() -> impl Strategy<Value = Vec<(Nanos, OwnedInput)>> {
    let now = prop_oneof![6 => 0u64..2_000_000, 1 => any::<u64>()].prop_map(Nanos);
    // Most sequences begin with somebody who can do something.
    let begin = || {
        let plain = |input| (Nanos(0), OwnedInput::Plain(input));
        vec![
            plain(Input::ManagerAdded { persistent: false }),
            plain(Input::ProcessAdded { manager: ManagerId(0) }),
            (Nanos(0), OwnedInput::FileAdded { layout: Layout::Unknown }),
            (Nanos(0), OwnedInput::FileAdded { layout: Layout::Unknown }),
        ]
    };
    (any::<bool>(), prop::collection::vec((now, input()), 0..120)).prop_map(move |(begun, then)| {
        let mut all = if begun { begin() } else { Vec::new() };
        all.extend(then);
        all
    })
}

fn config() -> impl Strategy<Value = Config> {
    let allocations = [Allocation::LruSp, Allocation::LruS, Allocation::AllocLru, Allocation::GlobalLru];
    let revocation = Revocation { window: 7, revoke_above: 0.4, reinstate_below: 0.1 };
    let shape = (1u32..40, 1u32..20, 0u32..5, prop::option::of(1u32..50), 0u32..20, 1u16..4);
    (
        shape,
        prop::sample::select(vec![Residency::Exact, Residency::Advisory]),
        prop::sample::select(allocations.to_vec()),
        prop::sample::select(Prefetch::ALL.to_vec()),
        prop::sample::select(vec![Order::Fcfs, Order::Ascending]),
        prop::option::of(Just(revocation)),
        prop::option::of((1u64..1_000_000).prop_map(Nanos)),
        any::<bool>(),
    )
        .prop_map(|(shape, residency, allocation, prefetch, order, revocation, fetch_timeout, small)| {
            let (cache_blocks, batch, free_margin, horizon, readahead_blocks, disks) = shape;
            let mut config = Config {
                residency,
                allocation,
                prefetch,
                batch,
                free_margin,
                horizon,
                readahead_blocks,
                order,
                disks,
                revocation,
                fetch_timeout,
                processors: disks,
                driver: Nanos(u64::from(batch)),
                beside: if small { Beside::Guard } else { Beside::Nothing },
                ..Config::new(cache_blocks)
            };
            if small {
                config.limits.files = 3;
                config.limits.processes = 2;
                config.limits.managers = 3;
                config.limits.levels_per_manager = 2;
                config.limits.file_records_per_manager = 2;
                config.limits.disclosed_blocks = 20;
                config.limits.held_ahead = 1;
                config.limits.lists_per_manager = 2;
                config.limits.readers_per_manager = 2;
                config.limits.placeholders = 3;
            }
            config
        })
}

/// Every record of a log.
fn records(log: &[u8]) -> Result<Vec<Record>, LogError> {
    let mut reader = Reader::new(log)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(records)
}

fn written(config: &Config, inputs: &[(Nanos, OwnedInput)]) -> Vec<u8> {
    recorded(Vec::new(), config, "test", inputs).unwrap().0
}

/// Does what the engine asks for: evictions at once, fetches are noted.
fn obey(engine: &mut Engine, now: Nanos, asked: &mut Vec<Block>) {
    while let Some(action) = engine.poll_action() {
        match action {
            Action::Evict { block } => {
                engine.tell(now, Input::Gone { block });
            }
            Action::Fetch { block, .. } => asked.push(block),
            Action::CancelPrefetches { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_sequence_is_survived_and_the_books_stay_right(config in config(), inputs in inputs()) {
        let mut engine = Engine::new(config);
        let mut asked = Vec::new();
        for (now, input) in &inputs {
            engine.tell(*now, input.as_input());
            obey(&mut engine, *now, &mut asked);
            let counters = engine.counters();
            prop_assert!(counters.hits <= counters.references, "{:?} after {:?}", counters, input);
        }
        // At rest: nothing is on its way, and what was asked to go has gone. A block that fails is not asked for again
        // by itself, so this ends.
        let mut rounds = 0;
        while !asked.is_empty() {
            for block in std::mem::take(&mut asked) {
                engine.tell(Nanos(u64::MAX), Input::FetchFailed { block });
                obey(&mut engine, Nanos(u64::MAX), &mut asked);
            }
            rounds += 1;
            prop_assert!(rounds < 1000, "the engine asks without end");
        }
        let (used, cache) = (engine.used_blocks(), engine.config().cache_blocks);
        prop_assert!(used <= cache, "{} blocks of {} at rest", used, cache);
        let owned: u32 = (0..5).map(|manager| engine.owned_blocks(ManagerId(manager))).sum();
        prop_assert!(owned <= used, "{} owned blocks of {}", owned, used);
    }

    #[test]
    fn inputs_come_back_as_they_were(config in config(), inputs in inputs()) {
        let log = written(&config, &inputs);
        let mut reader = Reader::new(&log[..]).unwrap();
        prop_assert_eq!(&reader.header().config, &config);
        prop_assert_eq!(&reader.header().program_version, "test");
        let mut back = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            if let Record::Input { now, input } = record {
                back.push((now, input));
            }
        }
        prop_assert_eq!(back, inputs);
    }

    #[test]
    fn a_replay_gives_the_same_actions(config in config(), inputs in inputs()) {
        let (log, written) = recorded(Vec::new(), &config, "test", &inputs).unwrap();
        let outcome = replay(&mut Reader::new(&log[..]).unwrap(), None).unwrap();
        prop_assert!(outcome.checksum_matches, "{:?}", outcome.first_difference);
        prop_assert_eq!((outcome.inputs, outcome.actions, outcome.sum), (written.inputs, written.actions, written.sum));
        prop_assert_eq!((outcome.end, outcome.actions_left), (End::Complete, 0));
    }

    #[test]
    fn whatever_the_bytes_say_there_is_one_error(
        config in config(),
        inputs in inputs(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        garbage in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut log = written(&config, &inputs);
        let place = at.index(log.len());
        let same = log[place] == byte;
        log[place] = byte;
        // The compressor's checksum sees every change of a byte that matters.
        prop_assert!(records(&log).is_err() || same || place >= 10, "a changed beginning is taken");
        let _ = records(&garbage);
        // The same garbage where the records are, which no checksum protects.
        let empty = written(&config, &[]);
        let mut stream = empty[..10].to_vec();
        let mut contents = zstd::decode_all(&empty[10..]).unwrap();
        contents.truncate(contents.len() - 11);
        contents.extend_from_slice(&garbage);
        stream.extend_from_slice(&zstd::encode_all(&contents[..], 1).unwrap());
        let _ = records(&stream);
    }
}

/// Found by [`any_sequence_is_survived_and_the_books_stay_right`].
#[test]
fn what_the_kernel_loads_while_all_frames_are_on_their_way_makes_room_when_they_are_there() {
    let config = Config { prefetch: Prefetch::Bsd, residency: Residency::Advisory, ..Config::new(1) };
    let mut engine = Engine::new(config);
    let mut asked = Vec::new();
    let (process, file) = (ProcessId(0), FileId(0));
    let block = |index| Block::new(file, index);
    let inputs = [
        Input::ManagerAdded { persistent: false },
        Input::ProcessAdded { manager: ManagerId(0) },
        Input::FileAdded { layout: &Layout::Unknown },
        Input::Accessed { process, block: block(35), stalled: false },
        Input::Accessed { process, block: block(36), stalled: false },
        Input::Loaded { block: block(0), by: None },
        Input::Loaded { block: block(37), by: None },
    ];
    for input in inputs {
        engine.tell(Nanos(0), input);
        obey(&mut engine, Nanos(0), &mut asked);
    }
    assert_eq!((asked, engine.used_blocks()), (vec![block(37)], 1));
}

/// Two hundred references to 64 blocks, with a cache of 16.
fn workload(prefetch: Prefetch) -> (Config, Vec<(Nanos, OwnedInput)>) {
    let plain = |at: u64, input| (Nanos(at), OwnedInput::Plain(input));
    let file = FileId(0);
    let mut inputs = vec![
        plain(0, Input::ManagerAdded { persistent: false }),
        plain(0, Input::ProcessAdded { manager: ManagerId(0) }),
        (Nanos(0), OwnedInput::FileAdded { layout: Layout::Unknown }),
    ];
    let blocks: Vec<Block> = (0..200).map(|i| Block::new(file, i * 7 % 64)).collect();
    inputs.push((Nanos(0), OwnedInput::Disclosed { manager: ManagerId(0), list: 0, blocks: blocks.clone() }));
    for (i, &block) in (1..).zip(&blocks) {
        inputs.push(plain(i * 250_000, Input::Accessed { process: ProcessId(0), block, stalled: false }));
        inputs.push(plain(i * 250_000 + 9000, Input::Loaded { block, by: None }));
    }
    (Config { prefetch, ..Config::new(16) }, inputs)
}

#[test]
fn a_log_that_ends_anywhere_is_cut_short() {
    let (config, inputs) = workload(Prefetch::ControlledAggressive);
    let log = written(&config, &inputs);
    for end in 0..log.len() {
        match records(&log[..end]) {
            Err(LogError::CutShort { .. }) => {}
            Err(LogError::NotALog) if end == 0 => {}
            other => panic!("{end} of {} bytes: {other:?}", log.len()),
        }
    }
    assert!(records(&log).is_ok());
}

#[test]
fn other_versions_and_other_files_are_told_apart() {
    let (config, inputs) = workload(Prefetch::None);
    let mut log = written(&config, &inputs);
    log[8] += 1;
    assert!(matches!(
        records(&log),
        Err(LogError::OtherVersion { found }) if found == foretell_replay::VERSION + 1
    ));
    assert!(matches!(records(b"\x7fELF and more"), Err(LogError::NotALog)));
    assert!(matches!(records(b""), Err(LogError::NotALog)));
}

#[test]
fn an_access_takes_few_bytes() {
    let (config, inputs) = workload(Prefetch::None);
    let accesses: Vec<_> = inputs
        .into_iter()
        .filter(|(_, i)| !matches!(i, OwnedInput::Plain(Input::Loaded { .. }) | OwnedInput::Disclosed { .. }))
        .collect();
    let bytes = |inputs: &[(Nanos, OwnedInput)]| {
        let mut log = Log::new(Vec::new(), &config, "test", u64::MAX).unwrap();
        for (now, input) in inputs {
            log.input(*now, &input.as_input()).unwrap();
        }
        log.finish().unwrap().1.bytes
    };
    let each = (bytes(&accesses) - bytes(&accesses[..3])) as f64 / (accesses.len() - 3) as f64;
    assert!((3.0..=6.0).contains(&each), "{each} bytes an access");
}

#[test]
fn a_log_ends_at_its_limit() {
    let (config, inputs) = workload(Prefetch::ControlledAggressive);
    let mut log = Log::new(Vec::new(), &config, "test", 1000).unwrap();
    let mut engine = Engine::new(config);
    for (now, input) in &inputs {
        log.input(*now, &input.as_input()).unwrap();
        engine.tell(*now, input.as_input());
        while let Some(action) = engine.poll_action() {
            log.action(&action);
        }
    }
    let (log, written) = log.finish().unwrap();
    assert!(written.cut_at_limit && written.bytes <= 1000 + 64, "{written:?}");
    let outcome = replay(&mut Reader::new(&log[..]).unwrap(), None).unwrap();
    assert_eq!((outcome.end, outcome.inputs), (End::CutAtLimit, written.inputs));
    assert!(outcome.checksum_matches, "{outcome:?}");
    assert!(outcome.inputs > 10 && outcome.inputs < inputs.len() as u64);
}

#[test]
fn a_difference_is_known_to_the_input() {
    let (config, inputs) = workload(Prefetch::None);
    let mut log = Log::new(Vec::new(), &config, "test", u64::MAX).unwrap();
    let mut engine = Engine::new(config);
    for (at, (now, input)) in (1..).zip(&inputs) {
        log.input(*now, &input.as_input()).unwrap();
        engine.tell(*now, input.as_input());
        while let Some(action) = engine.poll_action() {
            match action {
                // A policy that asks for another block here.
                Action::Fetch { mut block, reason, manager } if at == 101 => {
                    block.index += 1;
                    log.action(&Action::Fetch { block, reason, manager });
                }
                action => log.action(&action),
            }
        }
    }
    let (log, _) = log.finish().unwrap();
    let outcome = replay(&mut Reader::new(&log[..]).unwrap(), None).unwrap();
    assert!(!outcome.checksum_matches);
    assert_eq!(outcome.first_difference.map(|d| d.input), Some(101));
    let before = replay(&mut Reader::new(&log[..]).unwrap(), Some(100)).unwrap();
    assert_eq!((before.end, before.checksum_matches, before.inputs), (End::Stopped, true, 100));
}

#[test]
fn a_writer_is_a_tap_and_its_file_appears_when_it_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.inputs");
    let partial = directory.path().join("x.inputs.partial");
    let (config, inputs) = workload(Prefetch::ControlledAggressive);
    let writer = Writer::create(&path, &config, "test", foretell_replay::DEFAULT_LIMIT_BYTES).unwrap();
    let mut engine = Engine::new(config);
    engine.set_tap(Some(Box::new(writer.clone())));
    // More than one stretch between two checks.
    for _ in 0..20 {
        for (now, input) in &inputs {
            engine.tell(*now, input.as_input());
            while engine.poll_action().is_some() {}
        }
    }
    // What a run that is killed here would leave.
    let left = std::fs::read(&partial).unwrap();
    let outcome = replay(&mut Reader::new(&left[..]).unwrap(), None).unwrap();
    assert!(outcome.end == End::CutShort && outcome.checksum_matches, "{outcome:?}");
    assert!(!path.exists());
    let written = writer.finish().unwrap();
    assert!(path.exists() && !partial.exists());
    assert!(matches!(writer.finish(), Err(LogError::Closed)));
    let log = std::fs::File::open(&path).unwrap();
    let outcome = replay(&mut Reader::new(log).unwrap(), None).unwrap();
    assert!(outcome.checksum_matches && outcome.end == End::Complete, "{outcome:?}");
    assert_eq!((outcome.inputs, outcome.sum), (written.inputs, written.sum));
    assert_eq!(outcome.counters, engine.counters());
}

#[test]
fn a_log_shrinks_to_what_its_counter_needs() {
    let (config, inputs) = workload(Prefetch::None);
    let log = written(&config, &inputs);
    let criterion: Criterion = "evictions>0".parse().unwrap();
    let shrunk = shrink_log(&mut Reader::new(&log[..]).unwrap(), criterion, 2000).unwrap().unwrap();
    // A manager, a process, a file, and one block more than the cache holds, loaded by somebody.
    assert!(shrunk.is_minimal && shrunk.inputs.len() <= 4 + 2 * 17, "{shrunk:?}");
    let small = written(&shrunk.config, &shrunk.inputs);
    let outcome = replay(&mut Reader::new(&small[..]).unwrap(), None).unwrap();
    assert!(outcome.checksum_matches && outcome.counters.evictions == 1, "{outcome:?}");
    let never: Criterion = "revocations>0".parse().unwrap();
    assert_eq!(shrink_log(&mut Reader::new(&log[..]).unwrap(), never, 2000).unwrap(), None);
}
