//! The service time of a request: pure arithmetic, no clock and no I/O.
//!
//! A device has `channels` servers. A request takes `latency + seek + bytes / channel rate`, the seek
//! only when it does not begin where the last request on that channel ended. It goes to the channel on
//! which it would end first, the lowest-numbered one on a tie; with one channel or without seeks that is
//! the channel that is free first, and with seeks a stream stays on the channel whose head it has as long
//! as waiting there is shorter than a seek elsewhere. Requests are taken in the order of arrival: what
//! order they arrive in is the kernel's elevator's affair.
//!
//! A shared path (bus, network) of `total_bytes_per_s` paces all channels: transfers occupy it one after
//! the other, so a request ends when both its channel and the path have done their part, and its channel
//! is taken until then.
//!
//! Every completion is computed from the arrival times alone. A server that sleeps until the computed
//! moment therefore adds no error from one request to the next while its queue is not empty.

use crate::options::Timing;

/// When, where and how a request is served; times in nanoseconds on the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The channel that serves it.
    pub channel: usize,
    /// When the channel begins: the arrival, or later if the channel was taken.
    pub start_ns: u64,
    /// When the request is complete.
    pub done_ns: u64,
    /// Whether a seek was charged (a seek of zero length is charged too, and counted).
    pub sought: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    free_at_ns: u64,
    /// Where the next request must begin to need no seek.
    head: Option<u64>,
}

/// The state of a device's channels.
#[derive(Debug, Clone)]
pub struct Model {
    timing: Timing,
    channels: Vec<Channel>,
    path_free_at_ns: u64,
}

impl Model {
    /// An idle device whose heads are nowhere: the first request of each channel seeks.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        let channels = vec![Channel::default(); timing.channels.max(1) as usize];
        Self { timing, channels, path_free_at_ns: 0 }
    }

    /// Takes a request of `length` bytes at `offset` that arrives at `now_ns`, and says when it will be
    /// complete. `now_ns` must not decrease from call to call.
    pub fn admit(&mut self, now_ns: u64, offset: u64, length: u64) -> Service {
        let timing = self.timing;
        let transfer_ns = transfer_ns(length, timing.channel_bytes_per_s);
        let (channel, start_ns, sought, channel_done_ns) = self
            .channels
            .iter()
            .enumerate()
            .map(|(index, channel)| {
                let start_ns = channel.free_at_ns.max(now_ns);
                let sought = channel.head != Some(offset);
                let seek_ns = if sought { timing.seek_ns } else { 0 };
                let done_ns = start_ns + timing.latency_ns + seek_ns + transfer_ns;
                (index, start_ns, sought, done_ns)
            })
            .min_by_key(|&(index, _, _, done_ns)| (done_ns, index))
            .unwrap_or((0, now_ns, true, now_ns));
        let mut done_ns = channel_done_ns;
        if let Some(rate) = timing.total_bytes_per_s {
            self.path_free_at_ns = self.path_free_at_ns.max(start_ns) + self::transfer_ns(length, rate);
            done_ns = done_ns.max(self.path_free_at_ns);
        }
        self.channels[channel] = Channel { free_at_ns: done_ns, head: Some(offset + length) };
        Service { channel, start_ns, done_ns, sought }
    }
}

/// Nanoseconds to move `length` bytes at `bytes_per_s`, rounded up so that no transfer is free.
fn transfer_ns(length: u64, bytes_per_s: u64) -> u64 {
    let ns = (u128::from(length) * 1_000_000_000).div_ceil(u128::from(bytes_per_s.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const BLOCK: u64 = 8192;

    #[test]
    fn a_random_read_of_8_kib_on_the_8_ms_disk_takes_8_08_ms() {
        let mut disk = Model::new(Timing::disk_8ms());
        let service = disk.admit(0, 40 * BLOCK, BLOCK);
        // 8 ms of seek and 8192 B at 100 MB/s = 81.92 us.
        assert_eq!(service, Service { channel: 0, start_ns: 0, done_ns: 8 * MS + 81_920, sought: true });
    }

    #[test]
    fn a_request_that_continues_the_last_one_does_not_seek() {
        let mut disk = Model::new(Timing::disk_8ms());
        let first = disk.admit(0, 0, BLOCK);
        let second = disk.admit(first.done_ns, BLOCK, BLOCK);
        assert!(!second.sought);
        assert_eq!(second.done_ns - second.start_ns, 81_920);
        // One block further on is a seek again, and so is going back.
        assert!(disk.admit(second.done_ns, 3 * BLOCK, BLOCK).sought);
        assert!(disk.admit(second.done_ns, 0, BLOCK).sought);
    }

    #[test]
    fn requests_on_one_channel_wait_for_each_other() {
        let mut disk = Model::new(Timing::disk_8ms());
        let first = disk.admit(5, 0, BLOCK);
        let second = disk.admit(6, 100 * BLOCK, BLOCK);
        assert_eq!(second.start_ns, first.done_ns);
        assert_eq!(second.done_ns, 5 + 2 * (8 * MS + 81_920));
    }

    #[test]
    fn eight_random_reads_on_the_cloud_volume_end_together_after_1_04_ms() {
        let mut volume = Model::new(Timing::cloud_1ms());
        let done: Vec<_> = (0..8).map(|i| volume.admit(0, i * 1000 * BLOCK, BLOCK)).collect();
        // 1 ms and 8192 B at 200 MB/s = 40.96 us; the path moves all eight in 262 us meanwhile.
        assert!(done.iter().all(|service| service.done_ns == MS + 40_960));
        let channels: Vec<_> = done.iter().map(|service| service.channel).collect();
        assert_eq!(channels, [0, 1, 2, 3, 4, 5, 6, 7]);
        // The ninth waits for the first that is free.
        let ninth = volume.admit(0, 0, BLOCK);
        assert_eq!((ninth.channel, ninth.start_ns), (0, MS + 40_960));
    }

    #[test]
    fn the_shared_path_paces_large_requests_of_all_channels() {
        let mut volume = Model::new(Timing::cloud_1ms());
        let length = 1_000_000;
        let done: Vec<_> = (0..8).map(|i| volume.admit(0, i * length, length).done_ns).collect();
        // One alone: 1 ms + 5 ms at 200 MB/s. Together: 4 ms each on the path, one after the other.
        let paced = [6, 8, 12, 16, 20, 24, 28, 32].map(|ms| ms * MS);
        assert_eq!(done, paced);
    }

    #[test]
    fn a_stream_stays_on_its_channel_while_waiting_is_shorter_than_a_seek() {
        let timing = Timing { channels: 2, ..Timing::disk_8ms() };
        let mut disk = Model::new(timing);
        let first = disk.admit(0, 0, BLOCK);
        // Staying means to wait 8.08 ms, longer than the 8 ms of a seek: a request that comes at once
        // goes to the other channel,
        assert_eq!(disk.admit(0, BLOCK, BLOCK).channel, 1);
        // and one that arrives when the first is done continues it.
        let next = disk.admit(first.done_ns, BLOCK, BLOCK);
        assert_eq!((next.channel, next.sought), (0, false));
    }

    proptest! {
        #[test]
        fn never_earlier_than_alone_and_never_more_than_the_channels_at_once(
            requests in proptest::collection::vec((0u64..2_000_000, 0u64..64, 1u64..256), 1..60),
            channels in 1u32..5,
            total in proptest::option::of(1_000_000u64..1_000_000_000),
        ) {
            let timing = Timing {
                latency_ns: 100_000,
                seek_ns: 3_000_000,
                channels,
                channel_bytes_per_s: 150_000_000,
                total_bytes_per_s: total,
            };
            let mut model = Model::new(timing);
            let mut now_ns = 0;
            let mut served: Vec<Service> = Vec::new();
            let mut bytes = 0;
            for (gap_ns, block, blocks) in requests {
                now_ns += gap_ns;
                let length = blocks * 4096;
                bytes += length;
                let service = model.admit(now_ns, block * 4096, length);
                let alone_ns = 100_000
                    + if service.sought { 3_000_000 } else { 0 }
                    + transfer_ns(length, timing.channel_bytes_per_s);
                prop_assert!(service.start_ns >= now_ns);
                prop_assert!(service.done_ns >= service.start_ns + alone_ns);
                let overlapping = served.iter().filter(|other| {
                    other.start_ns <= service.start_ns && service.start_ns < other.done_ns
                });
                prop_assert!(overlapping.count() < channels as usize);
                served.push(service);
            }
            if let Some(rate) = total {
                let last_ns = served.iter().map(|service| service.done_ns).max().unwrap_or(0);
                prop_assert!(last_ns >= transfer_ns(bytes, rate));
            }
        }
    }
}
