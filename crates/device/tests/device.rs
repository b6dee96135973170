//! Devices as an event queue sees them.

#![allow(clippy::unwrap_used)] // a test's own helpers

use foretell_device::{
    Completion, Device, DeviceEvent, DeviceParameters, Discipline, Mechanism, Model, Options, Request,
    SubmitError, catalogue,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const TIB: u64 = 1 << 40;

/// Steps the device until it is idle: starts as (id, ns) and completions, in order.
fn run(device: &mut Device) -> (Vec<(u64, u64)>, Vec<Completion>) {
    let (mut starts, mut completions) = (Vec::new(), Vec::new());
    while let Some(now_ns) = device.next_event_ns() {
        device.advance(now_ns);
        while let Some(event) = device.poll() {
            match event {
                DeviceEvent::Started(start) => starts.push((start.id, start.started_ns)),
                DeviceEvent::Completed(completion) => completions.push(completion),
            }
        }
    }
    (starts, completions)
}

fn submit_all(device: &mut Device, now_ns: u64, requests: impl IntoIterator<Item = (u64, u64)>) {
    for (id, sector) in requests {
        device.submit(now_ns, Request::read(id, sector, 16)).unwrap();
    }
}

#[test]
fn a_uniform_device_serves_one_request_in_f() {
    let mut device = Device::new(&DeviceParameters::uniform(10.0, TIB), Discipline::Fcfs);
    submit_all(&mut device, 3 * MS, [(1, 0), (2, 16)]);
    assert_eq!((device.queued(), device.in_service()), (2, 0));
    let (starts, completions) = run(&mut device);
    assert_eq!(starts, [(1, 3 * MS), (2, 13 * MS)]);
    let times: Vec<_> = completions.iter().map(|c| (c.arrived_ns, c.finished_ns, c.response_ns())).collect();
    assert_eq!(times, [(3 * MS, 13 * MS, 10 * MS), (3 * MS, 23 * MS, 20 * MS)]);
    assert!(device.is_idle());
}

#[test]
fn what_is_submitted_at_one_instant_is_scheduled_together() {
    let parameters = DeviceParameters::uniform(10.0, TIB);
    let mut together = Device::new(&parameters, Discipline::Cscan);
    submit_all(&mut together, 0, [(1, 500), (2, 100)]);
    assert_eq!(run(&mut together).0, [(2, 0), (1, 10 * MS)]);

    let mut apart = Device::new(&parameters, Discipline::Cscan);
    submit_all(&mut apart, 0, [(1, 500)]);
    apart.advance(0);
    submit_all(&mut apart, 0, [(2, 100)]);
    assert_eq!(run(&mut apart).0, [(1, 0), (2, 10 * MS)]);
}

#[test]
fn a_late_caller_gets_the_instants_of_the_device() {
    let mut device = Device::new(&DeviceParameters::uniform(10.0, TIB), Discipline::Fcfs);
    submit_all(&mut device, 0, [(1, 0), (2, 0)]);
    // Nobody looked for 15 ms: request 2 started at 10 ms all the same.
    submit_all(&mut device, 15 * MS, [(3, 0)]);
    assert_eq!(run(&mut device).0, [(1, 0), (2, 10 * MS), (3, 20 * MS)]);
}

#[test]
fn busy_time_counts_service_and_not_gaps() {
    let mut device = Device::new(&DeviceParameters::uniform(10.0, TIB), Discipline::Fcfs);
    submit_all(&mut device, 0, [(1, 0)]);
    device.advance(4 * MS);
    assert_eq!(device.busy_ns(4 * MS), 4 * MS);
    run(&mut device);
    submit_all(&mut device, 30 * MS, [(2, 0)]);
    run(&mut device);
    assert_eq!(device.busy_ns(100 * MS), 20 * MS);
}

#[test]
fn a_queued_request_can_be_cancelled_and_a_started_one_not() {
    let mut device = Device::new(&DeviceParameters::uniform(10.0, TIB), Discipline::Fcfs);
    submit_all(&mut device, 0, [(1, 0), (2, 0), (3, 0)]);
    device.advance(0);
    assert!(!device.cancel(1));
    assert!(device.cancel(2));
    assert_eq!(device.queue().map(|q| q.request.id).collect::<Vec<_>>(), [3]);
    assert_eq!(run(&mut device).1.len(), 2);
}

#[test]
fn bad_requests_are_refused() {
    let parameters = DeviceParameters::uniform(10.0, 16 * 512);
    let options = Options { discipline: Discipline::Fcfs, queue_limit: 1, ..Options::default() };
    let mut device = Device::with_options(&parameters, options);
    let refused = device.submit(0, Request::read(7, 8, 16));
    assert_eq!(refused, Err(SubmitError::BeyondEnd { sector: 8, end: 24, capacity_sectors: 16 }));
    assert!(device.submit(0, Request::read(7, u64::MAX, 16)).is_err());
    assert_eq!(device.submit(0, Request::read(7, 0, 0)), Err(SubmitError::Empty { id: 7 }));
    assert_eq!(device.submit(0, Request::read(7, 0, 16)), Ok(()));
    assert_eq!(device.submit(0, Request::read(8, 0, 16)), Err(SubmitError::QueueFull { limit: 1 }));
    assert_eq!(run(&mut device).1.len(), 1);
}

#[test]
fn an_ssd_serves_a_request_on_each_channel() {
    let mut parameters = catalogue::find("nvme").unwrap();
    let Model::Ssd(ssd) = &mut parameters.model else { panic!("nvme is an SSD") };
    (ssd.channels, ssd.read_latency_ms, ssd.channel_mb_per_s) = (2, 0.1, 1000.0);
    (ssd.operations_per_s, ssd.total_mb_per_s) = (1_000_000, 1e6);
    let mut device = Device::new(&parameters, Discipline::Fcfs);
    submit_all(&mut device, 0, [(1, 0), (2, 16), (3, 32)]);
    // 100 us and 8192 bytes at 1000 MB/s: 108.192 us.
    assert_eq!(run(&mut device).0, [(1, 0), (2, 0), (3, 108_192)]);
}

#[test]
fn an_ssd_does_no_more_operations_and_bytes_than_it_can() {
    let mut parameters = catalogue::find("nvme").unwrap();
    let Model::Ssd(ssd) = &mut parameters.model else { panic!("nvme is an SSD") };
    ssd.operations_per_s = 10_000;
    let mut device = Device::new(&parameters, Discipline::Fcfs);
    submit_all(&mut device, 0, (0..1000).map(|i| (i, 0)));
    assert_eq!(run(&mut device).1.last().unwrap().finished_ns, 100 * MS);

    let Model::Ssd(ssd) = &mut parameters.model else { panic!("nvme is an SSD") };
    (ssd.operations_per_s, ssd.total_mb_per_s) = (1_000_000, 81.92);
    let mut device = Device::new(&parameters, Discipline::Fcfs);
    submit_all(&mut device, 0, (0..1000).map(|i| (i, 0)));
    assert_eq!(run(&mut device).1.last().unwrap().finished_ns, 100 * MS);
}

#[test]
fn a_volume_is_limited_by_its_operations_after_the_burst() {
    let mut device = Device::new(&catalogue::find("cloud-volume").unwrap(), Discipline::Fcfs);
    submit_all(&mut device, 0, (0..3300).map(|i| (i, 0)));
    // 300 from the burst and 3000 a second: the last has its tokens after 1 s, and takes 0.7 ms.
    let last_ns = run(&mut device).1.last().unwrap().finished_ns;
    assert!(last_ns.abs_diff(1_000_700_000) < MS, "{last_ns}");
}

#[test]
fn burst_credits_last_as_long_as_they_last() {
    let mut parameters = catalogue::find("cloud-volume-burst").unwrap();
    let Model::Volume(volume) = &mut parameters.model else { panic!("a volume") };
    // 2700 credits last 1 s at 3000 a second, because 300 flow in; then 300 a second.
    volume.operations_burst = 2700;
    let mut device = Device::new(&parameters, Discipline::Fcfs);
    submit_all(&mut device, 0, (0..3300).map(|i| (i, 0)));
    let (_, completions) = run(&mut device);
    assert!(completions[2999].finished_ns.abs_diff(1_000_700_000) < 4 * MS);
    assert!(completions[3299].finished_ns.abs_diff(2_000_700_000) < 4 * MS);
}

#[test]
fn first_bytes_are_lognormal_and_follow_the_seed() {
    let parameters = catalogue::find("object-store").unwrap();
    let times = |seed| {
        let mut device = Device::with_options(&parameters, Options { seed, ..Options::default() });
        submit_all(&mut device, 0, (0..20_000).map(|i| (i, 0)));
        let (_, mut completions) = run(&mut device);
        completions.sort_by_key(|c| c.id);
        completions.iter().map(Completion::service_ns).collect::<Vec<_>>()
    };
    let first = times(1);
    assert_eq!(first, times(1));
    assert_ne!(first, times(2));
    let mut sorted = first;
    sorted.sort_unstable();
    let at = |share: f64| sorted[(share * 20_000.0) as usize] as f64 / 1e6;
    // Median 30 ms and 0.1 ms for 8 KiB at 80 MB/s; e^0.5 is one deviation up.
    assert!((at(0.5) - 30.1).abs() < 0.7, "{}", at(0.5));
    assert!((at(0.841) - (30.0 * 0.5f64.exp() + 0.1)).abs() < 1.5, "{}", at(0.841));
}

#[test]
fn a_disk_keeps_several_streams_apart() {
    let parameters = catalogue::find("st34501w").unwrap();
    // Streams of 8 KiB blocks far apart, in turn; the share of reads that the cache serves.
    let share = |streams: u64| {
        let mut disk = Mechanism::new(parameters.disk().unwrap());
        let (mut now_ns, mut hits) = (0, 0);
        for i in 0..600 {
            let sector = i % streams * 1_000_000 + i / streams * 16;
            let service = disk.service(now_ns, &Request::read(i, sector, 16));
            now_ns = service.finished_ns;
            hits += u32::from(service.from_cache);
        }
        f64::from(hits) / 600.0
    };
    assert!(share(1) > 0.95, "{}", share(1));
    assert_eq!(share(4), 0.0, "a fourth stream and three segments");
}

#[test]
fn a_left_segment_serves_what_it_holds_and_the_rest_is_read() {
    let parameters = catalogue::find("st34501w").unwrap();
    let mut disk = Mechanism::new(parameters.disk().unwrap());
    let first = disk.service(0, &Request::read(0, 0, 16));
    // 20 ms later all 282 sectors past the request are there; then the heads leave.
    let away = disk.service(first.finished_ns + 20 * MS, &Request::read(0, 4_000_000, 16));
    let held = disk.service(away.finished_ns, &Request::read(0, 100, 16));
    let bus_ns = 16 * 512 * 1000 * 10 / 93; // 9.3 MB/s
    assert!(held.from_cache);
    assert!((held.finished_ns - away.finished_ns).abs_diff(1_200_000 + bus_ns) <= 1);
    let half = disk.service(held.finished_ns, &Request::read(0, 290, 16));
    assert!(half.from_cache);
    assert!(half.finished_ns - held.finished_ns > 2_500_000, "the rest takes a seek and rotation");
}

proptest! {
    /// Whatever is asked of whichever device, everything completes once, never before it started, no more
    /// at a time than there are places, in order of time, and the same again.
    #[test]
    fn everything_completes_once(
        which in 0..catalogue::BUILT_IN.len(),
        discipline in 0..6usize,
        requests in prop::collection::vec((0..30_000_000u64, 0..600_000u64, 1..300u32, any::<bool>()), 1..60),
    ) {
        let parameters = catalogue::find(catalogue::BUILT_IN[which].name).unwrap();
        let drive = || {
            let mut device = Device::new(&parameters, Discipline::ALL[discipline]);
            let mut now_ns = 0;
            for (id, &(pause_ns, sector, sectors, write)) in requests.iter().enumerate() {
                now_ns += pause_ns;
                let request = Request { write, ..Request::read(id as u64, sector, sectors) };
                device.submit(now_ns, request).unwrap();
            }
            (run(&mut device), device.slots())
        };
        let ((starts, completions), slots) = drive();
        let mut ids: Vec<u64> = completions.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..requests.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(starts.len(), requests.len());
        prop_assert!(completions.is_sorted_by_key(|c| c.finished_ns));
        for c in &completions {
            prop_assert!(c.arrived_ns <= c.started_ns && c.started_ns < c.finished_ns);
            let beside = completions.iter().filter(|o| o.started_ns <= c.started_ns && c.started_ns < o.finished_ns);
            prop_assert!(beside.count() <= slots);
        }
        prop_assert_eq!(drive().0, (starts, completions));
    }
}
