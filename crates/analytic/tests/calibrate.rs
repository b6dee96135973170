//! What a calibration makes of devices that are known: the device models, in simulated time.

#![allow(clippy::unwrap_used)] // a test's own helpers

use foretell_analytic::calibrate::{
    Calibration, HostFacts, HostPath, HostSample, Kind, Probe, Sample, Timing, device_file, fit, plan,
};
use foretell_analytic::predict::predict;
use foretell_analytic::workload::{Pattern, Prefetching, Workload};
use foretell_device::{
    Cap, Device, DeviceEvent, DeviceParameters, Discipline, MeasuredParameters, Model, Request, ServicePoint,
    VolumeParameters, catalogue,
};

/// Files of a calibration lie at the start of the device.
const SPAN_BYTES: u64 = 1 << 30;

/// Runs a probe with its depth always in flight.
fn sample(device: &mut Device, now_ns: &mut u64, probe: Probe) -> Sample {
    const SECTOR_BYTES: u64 = 512;
    // A rest, as before real probes.
    *now_ns += 300_000_000;
    let began_ns = *now_ns;
    let mut starts = Vec::new();
    let mut timings = Vec::new();
    let mut next = 0;
    while (timings.len() as u64) < probe.most_requests && (*now_ns - began_ns) as f64 / 1e6 < probe.most_ms {
        while next - (timings.len() as u64) < u64::from(probe.depth) {
            let sector = probe.offset(next, SPAN_BYTES) / SECTOR_BYTES;
            device.submit(*now_ns, Request::read(next, sector, (probe.bytes / SECTOR_BYTES) as u32)).unwrap();
            starts.push(*now_ns);
            next += 1;
        }
        // The first look starts what was submitted.
        *now_ns = device.next_event_ns().unwrap();
        device.advance(*now_ns);
        while let Some(event) = device.poll() {
            if let DeviceEvent::Completed(done) = event {
                let ms = |ns: u64| (ns - began_ns) as f64 / 1e6;
                let start_ms = ms(starts[done.id as usize]);
                timings.push(Timing { start_ms, done_ms: ms(done.finished_ns) });
            }
        }
    }
    // Nothing is left for the next probe.
    while let Some(ns) = device.next_event_ns() {
        *now_ns = ns;
        device.advance(ns);
        while device.poll().is_some() {}
    }
    Sample { probe, timings }
}

fn calibrate(parameters: &DeviceParameters) -> Calibration {
    let mut device = Device::new(parameters, Discipline::Cscan);
    let mut now_ns = 0;
    let samples: Vec<Sample> =
        plan(SPAN_BYTES).into_iter().map(|probe| sample(&mut device, &mut now_ns, probe)).collect();
    let capacity_bytes = parameters.capacity_sectors() * u64::from(parameters.sector_bytes());
    fit(&samples, &[], None, capacity_bytes).unwrap()
}

fn measured(calibration: &Calibration) -> &MeasuredParameters {
    match &calibration.device.model {
        Model::Measured(measured) => measured,
        other => panic!("{other:?}"),
    }
}

fn near(found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= share * expected, "{found} instead of {expected}");
}

#[test]
fn a_volume_comes_out_with_its_caps_and_bursts() {
    let volume = |operations_per_s, mb_per_s, operations_burst, bytes_burst| DeviceParameters {
        model: Model::Volume(VolumeParameters {
            capacity_bytes: 1 << 36,
            outstanding: 64,
            latency_ms: 0.5,
            operations_per_s,
            operations_burst,
            peak_operations_per_s: None,
            mb_per_s,
            bytes_burst,
        }),
        ..DeviceParameters::uniform(1.0, 4096)
    };
    // 1000 operations a second are fewer than one request at a time could make.
    let found = calibrate(&volume(1000, 1e6, 200, 0));
    assert_eq!(found.kind, Kind::CappedVolume);
    let Cap { per_s, burst } = measured(&found).operations.unwrap();
    near(per_s as f64, 1000.0, 0.02);
    near(burst as f64, 200.0, 0.2);
    assert_eq!(measured(&found).bytes, None);
    near(measured(&found).alone_ms(4096.0), 0.5, 0.02);

    let found = calibrate(&volume(10_000_000, 20.0, 0, 2_000_000));
    let Cap { per_s, burst } = measured(&found).bytes.unwrap();
    near(per_s as f64, 20e6, 0.02);
    near(burst as f64, 2e6, 0.3);
    assert_eq!(measured(&found).operations, None);
}

#[test]
fn tokens_in_portions_are_a_cap_all_the_same() {
    // The kernel's throttling gives 5 MB each 100 ms; a request takes 20 us and 1 ms a 2 MB besides.
    const PORTION_BYTES: u64 = 5_000_000;
    const PORTION_MS: f64 = 100.0;
    let throttled = |probe: Probe| {
        let alone_ms = 0.02 + probe.bytes as f64 / 2e6;
        let (mut timings, mut now_ms) = (Vec::<Timing>::new(), 0.0_f64);
        for index in 0..probe.most_requests {
            let released_ms = ((index + 1) * probe.bytes / PORTION_BYTES) as f64 * PORTION_MS;
            now_ms = now_ms.max(released_ms) + alone_ms / f64::from(probe.depth.min(2));
            let before = (index as usize).checked_sub(probe.depth as usize);
            let start_ms = before.map_or(0.0, |at| timings[at].done_ms);
            timings.push(Timing { start_ms, done_ms: now_ms });
            if now_ms > probe.most_ms {
                break;
            }
        }
        Sample { probe, timings }
    };
    let samples: Vec<Sample> = plan(128 << 20).into_iter().map(throttled).collect();
    let found = fit(&samples, &[], None, 1 << 36).unwrap();
    assert_eq!(found.kind, Kind::CappedVolume);
    near(measured(&found).bytes.unwrap().per_s as f64, 50e6, 0.05);
    assert_eq!(measured(&found).operations, None);
    near(measured(&found).alone_ms(4096.0), 0.022, 0.1);
}

#[test]
fn an_ssd_is_told_from_a_disk() {
    let ssd = calibrate(&catalogue::find("nvme").unwrap());
    assert_eq!(ssd.kind, Kind::Ssd);
    assert!(ssd.misfits.is_empty(), "{:?}", ssd.misfits);
    near(measured(&ssd).alone_ms(4096.0), 0.080, 0.01);
    near(ssd.bytes_per_s.value, 3.5e9, 0.01);

    let disk = calibrate(&catalogue::find("disk7200").unwrap());
    assert_eq!(disk.kind, Kind::Disk);
    // 8.33 ms a revolution.
    near(disk.revolution_ms.unwrap(), 8.33, 0.15);
    assert!(measured(&disk).near_positioning_ms.unwrap() < measured(&disk).positioning_ms);
}

#[test]
fn a_calibrated_device_predicts_the_one_that_it_comes_from() {
    for name in ["nvme", "disk7200"] {
        let original = catalogue::find(name).unwrap();
        let found = calibrate(&original).device;
        for (pattern, request_bytes) in [
            (Pattern::Sequential, 128 << 10),
            (Pattern::Sequential, 8 << 10),
            (Pattern::Random, 8 << 10),
            (Pattern::Random, 128 << 10),
        ] {
            let workload = Workload {
                pattern,
                request_bytes,
                span_bytes: SPAN_BYTES,
                prefetching: Prefetching::Off,
                ..Workload::sequential(64 << 20)
            };
            let (of_original, of_found) =
                (predict(&original, &workload).unwrap().time_ms, predict(&found, &workload).unwrap().time_ms);
            assert!(
                (of_found / of_original - 1.0).abs() < 0.10,
                "{name} {pattern:?} {request_bytes}: {of_found} instead of {of_original}"
            );
        }
    }
}

#[test]
fn what_no_table_can_say_is_reported() {
    // Two requests at a time take ten times as long as one.
    let original = DeviceParameters {
        model: Model::Measured(MeasuredParameters {
            capacity_bytes: 1 << 36,
            outstanding: 32,
            positioning_ms: 0.0,
            near_positioning_ms: None,
            busy_positioning_ms: 0.0,
            service: vec![ServicePoint { bytes: 4096, alone_ms: 0.1, busy_ms: 0.1 }],
            operations: None,
            bytes: None,
        }),
        ..DeviceParameters::uniform(1.0, 4096)
    };
    let mut device = Device::new(&original, Discipline::Fcfs);
    let mut now_ns = 0;
    let mut samples: Vec<Sample> =
        plan(SPAN_BYTES).into_iter().map(|probe| sample(&mut device, &mut now_ns, probe)).collect();
    for sample in &mut samples {
        if sample.probe.depth == 2 {
            for timing in &mut sample.timings {
                timing.done_ms *= 10.0;
            }
        }
    }
    let found = fit(&samples, &[], None, 1 << 36).unwrap();
    assert_eq!(found.misfits.len(), 1);
    assert!(found.misfits[0].to_string().contains("64 KiB, 2 in flight"), "{}", found.misfits[0]);
}

#[test]
fn the_file_reads_back_as_the_same_device() {
    let host_samples = [
        (HostPath::Present, 4096, 0.5),
        (HostPath::Present, 131_072, 12.0),
        (HostPath::ReadAhead, 131_072, 24.0),
        (HostPath::Elapsed, 131_072, 40.0),
        (HostPath::Missing, 4096, 12.0),
        (HostPath::Asked, 4096, 4.0),
        (HostPath::Direct, 4096, 9.0),
    ]
    .map(|(path, bytes, time_us)| HostSample { path, bytes, time_us });
    let mut device = Device::new(&catalogue::find("nvme").unwrap(), Discipline::Fcfs);
    let mut now_ns = 0;
    let samples: Vec<Sample> =
        plan(SPAN_BYTES).into_iter().map(|probe| sample(&mut device, &mut now_ns, probe)).collect();
    let facts = HostFacts { max_request_bytes: 1 << 20, processors: 2 };
    let found = fit(&samples, &host_samples, Some(facts), 1 << 40).unwrap();
    let text = device_file(&found, "mine", "a \"quoted\" name", "measured");
    let read = DeviceParameters::parse(&text).unwrap();
    assert_eq!((read.name.as_str(), read.description.as_str()), ("mine", "a \"quoted\" name"));
    let host = read.host.unwrap();
    near(host.copy_mb_per_s, (131_072.0 - 4096.0) / 11.5, 1e-6);
    near(host.ahead_mb_per_s.unwrap(), 131_072.0 / 40.0, 1e-6);
    near(host.wait_us, 12.0 - 0.5 - 4.0, 0.05);
    let workload = Workload::sequential(64 << 20);
    let (written, before) =
        (predict(&read, &workload).unwrap().time_ms, predict(&found.device, &workload).unwrap().time_ms);
    // Six digits are written.
    near(written, before, 1e-3);
}

#[test]
fn too_few_requests_are_no_device() {
    let error = fit(&[], &[], None, 1 << 30).unwrap_err().to_string();
    assert!(error.starts_with("only 0 sizes of sequential requests were timed"), "{error}");
}
