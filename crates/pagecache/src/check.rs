//! Options that a plane can be opened with.
use crate::error::OpenError;
use crate::kernel;
use crate::observe::MANAGED_FILES;
use crate::options::Options;

/// Largest block.
const BLOCK_BYTES: u32 = 1 << 20;

/// Files under control: with fewer, none of them could be ignored or without a user.
const FILES: std::ops::RangeInclusive<u32> = 64..=MANAGED_FILES;

/// Is every option within its range?
///
/// # Errors
/// Which one is not, and what it may be.
pub(crate) fn options(options: &Options) -> Result<(), OpenError> {
    let page_bytes = u32::try_from(kernel::page_bytes()).unwrap_or(u32::MAX);
    let block_bytes = options.block_bytes;
    if !block_bytes.is_power_of_two() || !(page_bytes..=BLOCK_BYTES).contains(&block_bytes) {
        return Err(OpenError::BlockSize { block_bytes, page_bytes });
    }
    let out_of_range = |option, value: String, range| Err(OpenError::OutOfRange { option, value, range });
    if !(1..=4096).contains(&options.batch) {
        return out_of_range("batch", options.batch.to_string(), "from 1 to 4096");
    }
    if !options.ring_bytes.is_power_of_two() || u64::from(options.ring_bytes) < kernel::page_bytes() {
        return out_of_range("ring_bytes", options.ring_bytes.to_string(), "a power of two from a page on");
    }
    if !FILES.contains(&options.files) {
        return out_of_range("files", options.files.to_string(), "from 64 to 262144");
    }
    if !(1..=64).contains(&options.prefetch_threads) {
        return out_of_range("prefetch_threads", options.prefetch_threads.to_string(), "from 1 to 64");
    }
    if !(0.0..=0.95).contains(&options.realtime_share) {
        return out_of_range("realtime_share", options.realtime_share.to_string(), "from 0 to 0.95");
    }
    if !options.prefetch.is_live() {
        let range = "an algorithm that the plane runs";
        return out_of_range("prefetch", options.prefetch.to_string(), range);
    }
    let budget_bytes = options.budget_bytes;
    let least_bytes = u64::from(options.batch) * u64::from(block_bytes);
    if budget_bytes < least_bytes {
        return Err(OpenError::BudgetTooSmall { budget_bytes, least_bytes });
    }
    let memory = rustix::system::sysinfo();
    let memory_bytes = u64::from(memory.mem_unit) * memory.totalram as u64;
    // Blocks are counted in 32 bits, one number of which means none.
    let most_bytes = memory_bytes.min((u64::from(u32::MAX) - 1) * u64::from(block_bytes));
    if budget_bytes > most_bytes {
        return Err(OpenError::BudgetTooLarge { budget_bytes, most_bytes });
    }
    Ok(())
}
