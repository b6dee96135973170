//! A file read in order under Linux's readahead: how the windows follow each other in time.
//!
//! The first page of a window carries a marker (the first window has it behind what was asked for:
//! [`crate::readahead`]). Who reads a page with a marker asks for the next window and only then waits for its own
//! data (`filemap_get_pages` of mm/filemap.c: readahead first, then `filemap_update_page`). So while a program waits for
//! window k, window k+1 is in flight, too. With t_k the instant at which the program comes to window k, h the
//! processor's time for a window, s its part that asks for the next one, and D the device's:
//!
//! ```text
//! t_k+1 = max(t_k + s, t_k-1 + s + D) + h - s
//! ```
//!
//! which settles at a period of `max(h, (h + D) / 2)`, and at D where the device takes one request at a time. The
//! recurrence is followed for [`EXACT_WINDOWS`] windows; what comes later repeats their period.

use crate::readahead::Windows;

/// Windows of the steady size that are followed one by one. The period has settled after two, and half of
/// them are enough to take it from when a window takes several requests.
const EXACT_WINDOWS: u64 = 64;

/// The time of a stream, in ms, that reads `request_bytes` at a time and spends `use_ms_per_byte` on what is there.
///
/// `ask` is told the present and the bytes of a window. It moves the present on by what asking takes, and says
/// which pieces of the window are there when, in their order.
pub(crate) fn follow(
    windows: &Windows,
    request_bytes: u64,
    use_ms_per_byte: f64,
    mut ask: impl FnMut(&mut f64, u64) -> Vec<(u64, f64)>,
) -> f64 {
    let exact = windows.steady.min(EXACT_WINDOWS);
    let head = windows.head_bytes.iter().copied();
    let steady = (0..exact).map(|_| windows.steady_bytes);
    let last = (windows.last_bytes > 0).then_some(windows.last_bytes);
    let sizes: Vec<u64> = head.chain(steady).chain(last).collect();
    let Some(&first) = sizes.first() else { return 0.0 };
    let mut now_ms = 0.0;
    let mut coming = ask(&mut now_ms, first);
    let mut began_ms = Vec::with_capacity(sizes.len());
    for k in 0..sizes.len() {
        began_ms.push(now_ms);
        let mut next = None;
        let mut ask_next =
            |now_ms: &mut f64| sizes.get(k + 1).map(|&bytes| ask(now_ms, bytes)).unwrap_or_default();
        // The first window's marker lies behind the first read.
        let mut until_marker = if k == 0 { request_bytes } else { 0 };
        for (piece, arrival_ms) in std::mem::take(&mut coming) {
            let mut left = piece;
            if next.is_none() && until_marker < left {
                if until_marker > 0 {
                    now_ms = now_ms.max(arrival_ms) + until_marker as f64 * use_ms_per_byte;
                    left -= until_marker;
                }
                until_marker = 0;
                next = Some(ask_next(&mut now_ms));
            }
            until_marker = until_marker.saturating_sub(left);
            now_ms = now_ms.max(arrival_ms) + left as f64 * use_ms_per_byte;
        }
        // A window that ends at its marker is followed by a read that asks for the next one.
        coming = next.unwrap_or_else(|| ask_next(&mut now_ms));
    }
    let beyond = windows.steady - exact;
    if beyond > 0 {
        let steady = &began_ms[windows.head_bytes.len()..][..exact as usize];
        // An even number of them: where the device takes two windows at a time, every other one waits.
        let steps = steady.len() / 4 * 2;
        let last = steady.len() - 1;
        now_ms += beyond as f64 * (steady[last] - steady[last - steps]) / steps as f64;
    }
    now_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 windows of 8 bytes, `use_ms` each, at a device that takes 2 ms a window, `channels` at a time.
    fn ten_windows_ms(use_ms: f64, channels: usize) -> f64 {
        let mut free_ms = vec![0.0_f64; channels];
        follow(&Windows::uniform(80, 8), 8, use_ms / 8.0, |now_ms, bytes| {
            free_ms.sort_by(f64::total_cmp);
            free_ms[0] = free_ms[0].max(*now_ms) + 2.0;
            vec![(bytes, free_ms[0])]
        })
    }

    #[test]
    fn two_windows_are_in_flight_where_the_device_takes_them() {
        // Window 0 from 0 to 2. Window 1 is asked for at 2 and waited for, and so is window 2: both are there at 4,
        // the next two at 6, and so on.
        assert_eq!(ten_windows_ms(0.0, 2), 12.0);
        assert_eq!(ten_windows_ms(0.0, 1), 20.0);
        // With 1 ms of computation one waits for 2 ms and reads two: (2 + 1) / 2 a window.
        assert_eq!(ten_windows_ms(1.0, 2), 2.0 + 1.0 + 4.0 * 3.0 + 2.0 + 1.0);
        // Computation that takes longer hides all but the first wait of each kind.
        assert_eq!(ten_windows_ms(5.0, 2), 2.0 + 2.0 + 50.0);
    }
}
