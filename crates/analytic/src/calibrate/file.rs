//! The device file of a calibration.

use std::fmt::Write;

use foretell_device::{Host, Model};

use super::{Calibration, Estimate};

/// The text of a device file that says what was found, with the uncertainties as comments. `name` is the
/// file's name for it, `description` what was measured and `source` how.
#[must_use]
pub fn device_file(calibration: &Calibration, name: &str, description: &str, source: &str) -> String {
    let Model::Measured(measured) = &calibration.device.model else { return String::new() };
    let mut out = String::new();
    let text = |value: &str| toml::Value::from(value).to_string();
    let _ = writeln!(out, "name = {}", text(name));
    let _ = writeln!(out, "description = {}", text(description));
    let _ = writeln!(out, "source = {}", text(source));
    for unverified in &calibration.device.unverified {
        let (field, reason) = (text(&unverified.field), text(&unverified.reason));
        let _ = write!(out, "\n[[unverified]]\nfield = {field}\nreason = {reason}\n");
    }
    let _ = writeln!(out, "\n[measured]\ncapacity_bytes = {}", measured.capacity_bytes);
    let _ = writeln!(out, "outstanding = {}", measured.outstanding);
    let _ = writeln!(
        out,
        "positioning_ms = {}  # +- {}",
        number(measured.positioning_ms),
        number(calibration.positioning_ms.error)
    );
    if let Some(near_ms) = measured.near_positioning_ms {
        let _ = writeln!(out, "near_positioning_ms = {}", number(near_ms));
    }
    let _ = writeln!(out, "busy_positioning_ms = {}", number(measured.busy_positioning_ms));
    out.push_str("service = [\n");
    for point in &measured.service {
        let percent = |estimates: &[(u64, Estimate)]| {
            let found = estimates.iter().find(|(bytes, _)| *bytes == point.bytes);
            found.map_or(0.0, |(_, e)| 100.0 * e.error / e.value)
        };
        let _ = writeln!(
            out,
            "    {{ bytes = {}, alone_ms = {}, busy_ms = {} }},  # +- {:.1}%, {:.1}%",
            point.bytes,
            number(point.alone_ms),
            number(point.busy_ms),
            percent(&calibration.alone_ms),
            percent(&calibration.busy_ms)
        );
    }
    out.push_str("]\n");
    for (key, cap) in [("operations", measured.operations), ("bytes", measured.bytes)] {
        if let Some(cap) = cap {
            let _ = writeln!(out, "{key} = {{ per_s = {}, burst = {} }}", cap.per_s, cap.burst);
        }
    }
    if let Some(host) = &calibration.device.host {
        let Host {
            read_us,
            copy_mb_per_s,
            fill_mb_per_s,
            submit_us,
            wait_us,
            direct_us,
            ahead_mb_per_s,
            max_request_bytes,
            processors,
        } = *host;
        let _ = write!(
            out,
            "\n[host]\nread_us = {}\ncopy_mb_per_s = {}\nfill_mb_per_s = {}\nsubmit_us = {}\nwait_us = {}\ndirect_us = {}\n\
             max_request_bytes = {max_request_bytes}\nprocessors = {processors}\n",
            number(read_us),
            number(copy_mb_per_s),
            number(fill_mb_per_s),
            number(submit_us),
            number(wait_us),
            number(direct_us),
        );
        if let Some(ahead_mb_per_s) = ahead_mb_per_s {
            let _ = writeln!(out, "ahead_mb_per_s = {}", number(ahead_mb_per_s));
        }
    }
    out
}

/// A number with the digits that mean something, as TOML wants it.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}
