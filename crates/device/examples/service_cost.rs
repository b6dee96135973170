//! What computing one request costs, in ns: `cargo run --release -p foretell-device --example service_cost`.
//!
//! Each line is the fastest of five rounds, so that a busy machine does not show.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use foretell_device::{Device, DeviceEvent, Discipline, Mechanism, Request, catalogue};

const REQUESTS: u64 = 500_000;
const ROUNDS: usize = 5;

fn report(what: &str, mut round: impl FnMut() -> u64) {
    let mut best_ns = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        black_box(round());
        best_ns = best_ns.min(begun.elapsed().as_nanos() as f64 / REQUESTS as f64);
    }
    println!("{what:<44} {best_ns:>8.1} ns a request");
}

/// A permutation of the blocks that looks random and costs next to nothing.
fn scattered(i: u64, blocks: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks
}

fn through_mechanism(disk: &Mechanism, block_of: impl Fn(u64) -> u64) -> u64 {
    let mut disk = disk.clone();
    (0..REQUESTS)
        .fold(0, |now_ns, i| disk.service(now_ns, &Request::read(i, block_of(i) * 16, 16)).finished_ns)
}

fn through_queue(device: &Device, depth: u64, block_of: impl Fn(u64) -> u64) -> u64 {
    let mut device = device.clone();
    let (mut submitted, mut now_ns) = (0, 0);
    loop {
        while device.queued() < depth as usize && submitted < REQUESTS {
            if device.submit(now_ns, Request::read(submitted, block_of(submitted) * 16, 16)).is_err() {
                return now_ns;
            }
            submitted += 1;
        }
        let Some(next_ns) = device.next_event_ns() else { return now_ns };
        now_ns = next_ns;
        device.advance(now_ns);
        while let Some(event) = device.poll() {
            if let DeviceEvent::Completed(done) = event {
                black_box(done.finished_ns);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for name in ["hp97560", "st34501w", "disk7200"] {
        let parameters = catalogue::find(name)?;
        let Some(disk) = parameters.disk() else { continue };
        let disk = Mechanism::new(disk);
        let blocks = disk.capacity_sectors() / 16;
        report(&format!("{name}, mechanism, sequential"), || through_mechanism(&disk, |i| i % blocks));
        report(&format!("{name}, mechanism, random"), || through_mechanism(&disk, |i| scattered(i, blocks)));
    }
    let parameters = catalogue::find("hp97560")?;
    let blocks = parameters.capacity_sectors() / 16;
    for discipline in Discipline::ALL {
        let device = Device::new(&parameters, discipline);
        for depth in [1, 16, 200] {
            let what = format!("hp97560, {}, random, queue of {depth}", discipline.name());
            report(&what, || through_queue(&device, depth, |i| scattered(i, blocks)));
        }
    }
    for name in ["uniform", "nvme", "cloud-volume", "object-store"] {
        let device = Device::new(&catalogue::find(name)?, Discipline::Fcfs);
        report(&format!("{name}, queue of 16"), || through_queue(&device, 16, |i| i % 10_000));
    }
    Ok(())
}
