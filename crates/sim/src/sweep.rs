//! Many cells at once: as many threads as there are cores, results in the order of the cells.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does `work` for every task on `jobs` threads and gives the results in the order of the tasks. Tasks are
/// begun in order; `done` is called as each one ends, on the thread that did it.
pub fn in_parallel<T: Sync, O: Send>(
    tasks: &[T],
    jobs: usize,
    work: impl Fn(&T) -> O + Sync,
    done: impl Fn(&O) + Sync,
) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<O>>> = Mutex::new(tasks.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                while let Some((i, task)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(i).map(|task| (i, task))
                } {
                    let result = work(task);
                    done(&result);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_is_first() {
        let tasks: Vec<u64> = (0..50).collect();
        for jobs in [0, 1, 7, 100] {
            let results = in_parallel(&tasks, jobs, |t| t * t, |_| {});
            assert_eq!(results, tasks.iter().map(|t| t * t).collect::<Vec<_>>());
        }
        assert_eq!(in_parallel(&[], 4, |t: &u8| *t, |_| {}), Vec::<u8>::new());
    }
}
