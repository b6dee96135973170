//! What a plane has done so far, gathered for a [`Report`].

use foretell_policy::belady_fetches;

use crate::options::Options;
use crate::plane::Plane;
use crate::report::{FileReport, Report};

impl Plane {
    /// What was done so far. Computing `belady_fetches` takes time and memory in proportion to the
    /// references: ask once, at the end.
    pub fn report(&mut self) -> Report {
        let Options { budget_bytes, block_bytes, .. } = self.steering.options;
        let cache_blocks = u32::try_from(budget_bytes / u64::from(block_bytes)).unwrap_or(u32::MAX);
        let optimum = match &mut self.steering.history {
            None => Err("the references were not kept".to_owned()),
            Some(history) => history.all().map(|references| belady_fetches(&references, cache_blocks)),
        };
        self.report_with(optimum)
    }

    fn report_with(&self, optimum: Result<u64, String>) -> Report {
        let Options { budget_bytes, block_bytes, .. } = self.steering.options;
        let (observer, steering) = (&self.observer, &self.steering);
        let processes = steering.sessions.processes().into_iter().map(|(pid, process)| {
            let session = steering.sessions.get(process.session);
            let wait_ns = observer.wait_ns(pid).unwrap_or(0);
            let bytes = observer.device_read_bytes(pid).unwrap_or(0);
            (process.id.0, steering.process_report(pid, process, session, wait_ns, bytes))
        });
        let files = steering.files.iter().map(|(id, file)| {
            let counts = steering.engine.file_counters(id);
            (file.serial, FileReport { path: file.path.clone(), counts })
        });
        Report {
            elapsed_s: self.first_session.map_or(0.0, |start| start.elapsed().as_secs_f64()),
            wait_s: observer.total_wait_ns() as f64 / 1e9,
            daemon_cpu_s: self.cpu_s(),
            budget_bytes,
            block_bytes,
            counts: steering.engine.counters(),
            lost_events: observer.lost_events(),
            device_read_bytes: self.device_read_bytes(),
            passed_bytes: steering.files.passed_bytes(),
            belady_fetches: optimum.as_ref().ok().copied(),
            belady_missing: optimum.err(),
            processes: steering.ledger.processes(processes.collect()),
            files: steering.ledger.files(files.collect()),
            left_out: steering.left_out.all(),
        }
    }

    /// Bytes read from devices for the observed processes and by our prefetches.
    pub(crate) fn device_read_bytes(&self) -> u64 {
        self.observer.total_device_read_bytes().saturating_sub(self.own_reads_at_start)
    }
}
