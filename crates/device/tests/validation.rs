//! Validation traces: reading, replay, and the demerit figure.

#![allow(clippy::unwrap_used)] // a test's own helpers

use foretell_device::validation::{BufferAction, Hits, Records, ValidationError, demerit_ns, replay};
use foretell_device::{Device, DeviceEvent, DeviceParameters, Discipline, Model, Request, catalogue};

fn error_of(text: &str) -> ValidationError {
    Records::new(text.as_bytes()).find_map(Result::err).unwrap()
}

#[test]
fn a_line_has_six_fields() {
    let text = "R Miss 1423566 16 18235.25 3034\n\n# note\nW Hit 8 2 0 0\r\nR Doub 1 1 1 1\nR Trip 1 1 1 1";
    let records: Vec<_> = Records::new(text.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(records.len(), 4);
    let first = records[0];
    assert_eq!((first.line, first.write, first.action), (1, false, BufferAction::Miss));
    assert_eq!((first.sector, first.sectors), (1_423_566, 16));
    assert_eq!((first.service_ns, first.think_ns), (18_235_250, 3_034_000));
    assert_eq!((records[1].line, records[1].write, records[1].action), (4, true, BufferAction::Hit));
}

#[test]
fn a_wrong_line_is_named() {
    for (line, what) in [
        ("R Miss 1 16 18235.0", "5 fields"),
        ("X Miss 1 16 1.0 1.0", "\"X\" is neither"),
        ("R Maybe 1 16 1.0 1.0", "\"Maybe\" is none"),
        ("R Miss -1 16 1.0 1.0", "\"-1\" is no sector"),
        ("R Miss 1 0 1.0 1.0", "\"0\" is no number of sectors"),
        ("R Miss 1 16 NaN 1.0", "\"NaN\" is no time"),
        ("R Miss 1 16 1.0 -1.0", "\"-1.0\" is no time"),
        ("R Miss 1 16 1.0 1e99", "\"1e99\" is no time"),
    ] {
        let message = error_of(&format!("R Hit 0 1 1 1\n{line}\n")).to_string();
        assert!(message.starts_with("line 2: ") && message.contains(what), "{message}");
    }
    assert!(error_of(&"R".repeat(10_000)).to_string().contains("longer than"));
}

#[test]
fn reading_stops_at_the_first_error() {
    let mut records = Records::new("R Hit 0 1 1 1\nbad\nR Hit 0 1 1 1\n".as_bytes());
    assert!(records.next().unwrap().is_ok());
    assert!(records.next().unwrap().is_err());
    assert!(records.next().is_none());
}

#[test]
fn the_demerit_is_the_distance_of_the_curves() {
    assert_eq!(demerit_ns(&[10, 20, 30], &[10, 20, 30]), 0.0);
    assert_eq!(demerit_ns(&[10, 20, 30], &[15, 25, 35]), 5.0);
    // Ranks: 0 and 3, 4 and 8: root of (9 + 16) / 2.
    assert!((demerit_ns(&[0, 4], &[3, 8]) - 12.5f64.sqrt()).abs() < 1e-12);
    // One time against four: a constant 10 against 8, 9, 11, 12.
    assert!((demerit_ns(&[10], &[8, 9, 11, 12]) - 2.5f64.sqrt()).abs() < 1e-12);
    assert!((demerit_ns(&[8, 9, 11, 12], &[10]) - 2.5f64.sqrt()).abs() < 1e-12);
    assert!(demerit_ns(&[], &[1]).is_nan());
}

#[test]
fn a_replay_compares_with_the_measured_times() {
    let mut device = Device::new(&DeviceParameters::uniform(10.0, 1 << 30), Discipline::Fcfs);
    let text = "R Miss 0 16 8000 500\nR Hit 16 16 12000 500\nW Miss 0 16 10000 0\n";
    let comparison = replay(&mut device, Records::new(text.as_bytes())).unwrap();
    assert_eq!((comparison.requests, comparison.writes), (3, 1));
    assert_eq!((comparison.measured_mean_ns, comparison.modelled_mean_ns), (10e6, 10e6));
    // 8, 10 and 12 ms against 10 ms: root of 8/3.
    assert!((comparison.demerit_ns - 1e6 * (8.0f64 / 3.0).sqrt()).abs() < 1.0);
    assert!((comparison.demerit() - (8.0f64 / 3.0).sqrt() / 10.0).abs() < 1e-9);
    assert_eq!(comparison.hits, Some(Hits { measured: 1, modelled: 0, agreeing: 1 }));
    let unknown = replay(
        &mut device,
        Records::new(
            "R Hit 0 16 8000 500
"
            .as_bytes(),
        ),
    )
    .unwrap();
    assert_eq!(unknown.hits, None);
}

#[test]
fn the_model_validates_against_itself() {
    let parameters = catalogue::find("hp97560").unwrap();
    let mut text = String::new();
    let mut disk = foretell_device::Mechanism::new(parameters.disk().unwrap());
    let mut now_ns = 0;
    for i in 0..500u64 {
        let sector = if i % 3 == 0 { i * 5_003 } else { (i - i % 3) * 5_003 + i % 3 * 16 };
        let service = disk.service(now_ns, &foretell_device::Request::read(i, sector, 16));
        let (us, think_us) = ((service.finished_ns - now_ns) as f64 / 1e3, i % 7 * 1000);
        let action = if service.from_cache { "Hit" } else { "Miss" };
        text += &format!("R {action} {sector} 16 {us} {think_us}\n");
        now_ns = service.finished_ns + think_us * 1000;
    }
    let mut device = Device::new(&parameters, Discipline::Fcfs);
    let comparison = replay(&mut device, Records::new(text.as_bytes())).unwrap();
    let hits = comparison.hits.unwrap();
    assert_eq!((comparison.demerit_ns, hits.agreeing), (0.0, 500));
    assert!(hits.measured > 100);
}

/// A drive that reports writes at once: replaying what it did, a model without its write cache is far off, as it was for
/// the measured Cheetah (see `validation/devices/st34501w.toml`).
#[test]
fn without_its_write_cache_a_drive_that_reports_at_once_is_not_explained() {
    let with = catalogue::find("st34501w/fitted").unwrap();
    let mut without = with.clone();
    if let Model::Disk(disk) = &mut without.model {
        disk.cache.write_fence_bytes = 0;
    }
    let mut drive = Device::new(&with, Discipline::Fcfs);
    let mut trace = String::new();
    let mut now = 0;
    for i in 0..300u64 {
        let sector = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 << 4;
        let mut request = Request::read(i, sector % 1_000_000 / 16 * 16, 16);
        request.write = i % 3 == 0;
        drive.submit(now, request).unwrap();
        let done = std::iter::from_fn(|| {
            let at = drive.next_event_ns()?;
            drive.advance(at);
            Some(std::iter::from_fn(|| drive.poll()).collect::<Vec<_>>())
        });
        let completed = done.flatten().find_map(|event| match event {
            DeviceEvent::Completed(done) if done.id == i => Some(done.finished_ns),
            _ => None,
        });
        let service_us = (completed.unwrap() - now) as f64 / 1e3;
        let kind = if request.write { "W" } else { "R" };
        trace += &format!("{kind} Miss {} 16 {service_us:.2} 20000\n", request.sector);
        now = completed.unwrap() + 20_000_000;
    }
    let demerit = |parameters: &DeviceParameters| {
        let mut device = Device::new(parameters, Discipline::Fcfs);
        replay(&mut device, Records::new(trace.as_bytes())).unwrap().demerit()
    };
    let (with, without) = (demerit(&with), demerit(&without));
    assert!(with < 0.15, "{with}");
    assert!(without > 2.0 * with && without > 0.3, "{without} against {with}");
}

#[test]
fn a_request_behind_the_device_and_an_empty_trace_are_errors() {
    let mut device = Device::new(&DeviceParameters::uniform(10.0, 1 << 20), Discipline::Fcfs);
    let error = replay(&mut device, Records::new("R Hit 0 1 1 1\nR Miss 99999999 16 1 1\n".as_bytes()));
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("line 2: ") && message.contains("2048 sectors"), "{message}");
    assert!(matches!(replay(&mut device, Records::new("\n\n".as_bytes())), Err(ValidationError::Empty)));
}
