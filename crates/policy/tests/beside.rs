//! The machine beside and its guard as an engine tells them: who is heard, and who is suspended.
#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Beside, Block, Config, DiskId, Engine, FileId, Input, Layout, ManagerId, Nanos, Prefetch, ProcessId,
};

const MS: u64 = 1_000_000;

struct Run {
    engine: Engine,
    file: FileId,
    now: u64,
}

impl Run {
    fn new(beside: Beside) -> Run {
        let config = Config { beside, prefetch: Prefetch::Informed, processors: 2, ..Config::new(1000) };
        let mut engine = Engine::new(config);
        let file = engine.add_file(Layout::Unknown).unwrap();
        engine.set_file_length(file, 10_000);
        let mut run = Run { engine, file, now: 0 };
        run.serve(0);
        run
    }

    fn join(&mut self) -> (ManagerId, ProcessId) {
        let manager = self.engine.add_manager(true).unwrap();
        (manager, self.engine.add_process(manager))
    }

    /// The disk takes 10 ms for every block.
    fn serve(&mut self, index: u32) {
        let now = Nanos(self.now);
        self.engine.tell(now, Input::Served { disk: DiskId(0), access: Nanos(10 * MS) });
        self.engine.tell(now, Input::Loaded { block: Block::new(self.file, index), by: None });
    }

    /// A process computes for a ms and reads a block, which it has after so many ms.
    fn read(&mut self, process: ProcessId, index: u32, ms: u64) {
        self.now += MS;
        self.read_now(process, index, MS);
        self.now += ms * MS;
        self.serve(index);
    }

    /// A process that has computed for so long reads a block.
    fn read_now(&mut self, process: ProcessId, index: u32, compute: u64) {
        self.engine.tell(Nanos(self.now), Input::Computed { process, compute: Nanos(compute) });
        self.engine.access(Nanos(self.now), process, Block::new(self.file, index));
        while self.engine.poll_action().is_some() {}
    }

    fn exit(&mut self, process: ProcessId) {
        self.engine.tell(Nanos(self.now), Input::ProcessExited { process });
    }
}

#[test]
fn a_process_that_has_ended_is_heard_no_more() {
    let mut run = Run::new(Beside::Counterfactual);
    let (_, first) = run.join();
    let (_, second) = run.join();
    run.read(first, 100, 10);
    run.exit(first);
    // What was seen late of it must not hold the other one up for good.
    run.engine.tell(Nanos(run.now), Input::Computed { process: first, compute: Nanos(MS) });
    run.read(first, 300, 10);
    for i in 0..50 {
        run.read(second, 1000 + 7 * i, 10);
    }
    run.exit(second);
    let report = run.engine.counterfactual().unwrap();
    assert_eq!(report.waits, 51, "the first one's wait, and those of the second one");
}

#[test]
fn computing_under_a_second_number_is_the_same_process() {
    let elapsed = |as_second: bool| {
        let mut run = Run::new(Beside::Counterfactual);
        let (_, first) = run.join();
        let (_, second) = run.join();
        run.engine.tell(Nanos(0), Input::OneProcess { process: second, first });
        for i in 0..10 {
            run.read(if as_second && i % 2 == 1 { second } else { first }, 7 * i, 10);
        }
        run.exit(second);
        run.exit(first);
        run.engine.counterfactual().unwrap()
    };
    assert_eq!(elapsed(true), elapsed(false));
}

#[test]
fn who_comes_while_another_one_loses_is_suspended_as_well() {
    let mut run = Run::new(Beside::Guard);
    let (first, reader) = run.join();
    let (_, neighbour) = run.join();
    let list: Vec<Block> = (0..400).map(|i| Block::new(run.file, 7 * i)).collect();
    run.engine.disclose(Nanos(0), first, &list);
    run.read(neighbour, 9000, 10);
    run.exit(neighbour);
    let (second, neighbour) = run.join();
    run.read(neighbour, 9500, 10);
    // Each read takes 90 ms longer than the plain kernel's, though the list is right.
    let mut last = 0;
    while !run.engine.is_suspended(second) {
        run.read(reader, 7 * last, 100);
        // The neighbour computes meanwhile, and loses nothing.
        run.read_now(neighbour, 9500, 101 * MS);
        last += 1;
        assert!(last < 100, "the neighbour is suspended");
    }
    assert!(!run.engine.is_suspended(first), "its lists are right");
    let (third, newcomer) = run.join();
    run.read(newcomer, 9700, 10);
    assert!(run.engine.is_suspended(third));
}
