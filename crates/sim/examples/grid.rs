use foretell_sim::*;
use std::num::NonZeroU32;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let w: foretell_trace::Workload = args[1].parse().expect("workload");
    let disks: Vec<u16> = args[2].split(',').map(|d| d.parse().expect("n")).collect();
    let cache = w.published().map_or(1280, |p| p.cache_blocks);
    let input = Input::read(
        w.open(std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)),
        NonZeroU32::new(8192).expect("8192"),
    )
    .expect("trace");
    let dev = foretell_device::catalogue::find("hp97560").expect("device");
    let batch = match args.get(4).map(String::as_str) {
        Some("fitted") => Batch::Fitted,
        Some("paper") | None => Batch::Paper,
        Some(n) => Batch::Fixed(n.parse().expect("n")),
    };
    for name in args[3].split(',') {
        for &d in &disks {
            let mut cell = Cell::new(name.parse().expect("policy"), d, "hp97560", dev.clone(), cache);
            cell.batch = batch;
            cell.horizon = args.get(5).and_then(|h| h.parse().ok());
            cell.reverse = std::env::var("REV").ok().map(|r| {
                let (f, b) = r.split_once(',').unwrap();
                Reverse { fetch_references: f.parse().unwrap(), batch: b.parse().unwrap() }
            });
            let t = std::time::Instant::now();
            match simulate(&cell, &input) {
                Ok(o) => println!(
                    "{name:22} d={d:2} b={:3} fetches {:7} wasted {:5} late {:6} elapsed {:8.2} compute {:7.2} driver {:7.2} stall {:7.2} fetch {:5.2}ms util {:.2} F={:?} opt {:?} [{:.0} ms]",
                    o.batch,
                    o.fetches,
                    o.wasted_fetches,
                    o.late_fetches,
                    o.elapsed_s,
                    o.compute_s,
                    o.driver_s,
                    o.stall_s,
                    o.mean_fetch_ms,
                    o.utilization,
                    o.reverse,
                    o.demand_opt_fetches,
                    t.elapsed().as_secs_f64() * 1e3
                ),
                Err(e) => println!("{name} {d}: {e}"),
            }
        }
    }
}
