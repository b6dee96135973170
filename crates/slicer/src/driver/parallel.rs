//! Work on several units of a program at a time: the compiler and its preprocessor, once for each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Most that is done at a time for one link. A build that links several programs at a time has as many for each.
const MOST_AT_A_TIME: usize = 4;

/// What `work` gives for each number below `count`, in their order. This thread works as well: there may be no other to be had.
pub(super) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_A_TIME).min(count);
    let next = AtomicUsize::new(0);
    let take = || {
        let numbers =
            std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < count));
        numbers.map(|number| (number, work(number))).collect::<Vec<_>>()
    };
    let mut done = thread::scope(|scope| {
        let begin = |_| thread::Builder::new().spawn_scoped(scope, take).ok();
        let running: Vec<_> = (1..workers).filter_map(begin).collect();
        let mut done = take();
        for worker in running {
            done.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_stand_in_the_order_of_their_numbers() {
        for count in [0, 1, 2, 100] {
            assert_eq!(in_parallel(count, |n| n * n), (0..count).map(|n| n * n).collect::<Vec<_>>());
        }
    }
}
