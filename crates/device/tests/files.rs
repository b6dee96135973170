//! Device files: the built-in ones, and what is said about wrong ones.

#![allow(clippy::unwrap_used)] // a test's own helpers

use foretell_device::{
    CatalogueError, DeviceParameters, Mechanism, Model, ParameterError, Request, catalogue,
};

fn text(name: &str) -> &'static str {
    catalogue::BUILT_IN.iter().find(|b| b.name == name).unwrap().text
}

/// The error of a built-in file in which `from` is replaced by `to`.
fn broken(name: &str, from: &str, to: &str) -> ParameterError {
    assert!(text(name).contains(from), "{from}");
    DeviceParameters::parse(&text(name).replacen(from, to, 1)).unwrap_err()
}

fn value_error(name: &str, from: &str, to: &str) -> (String, Option<usize>, String) {
    match broken(name, from, to) {
        ParameterError::Value { field, line, problem } => (field, line, problem),
        other => panic!("{other}"),
    }
}

fn line_with(name: &str, what: &str) -> usize {
    text(name).lines().position(|l| l.contains(what)).unwrap() + 1
}

#[test]
fn every_built_in_file_is_complete() {
    for built_in in catalogue::BUILT_IN {
        let device = DeviceParameters::parse(built_in.text).unwrap();
        assert_eq!(device.name, built_in.name);
        assert!(!device.description.is_empty() && !device.source.is_empty());
        assert!(device.unverified.iter().all(|u| !u.field.is_empty() && !u.reason.is_empty()));
        assert!(device.capacity_sectors() > 600_000, "{}", built_in.name);
    }
}

#[test]
fn drives_have_their_published_averages() {
    let close = |a: f64, b: f64, within: f64| assert!((a - b).abs() <= within, "{a} {b}");
    let disk = |name: &str| catalogue::find(name).unwrap().disk().unwrap().clone();
    let bytes = |name: &str| catalogue::find(name).unwrap().capacity_sectors() as f64 * 512.0;
    // Cao, Felten and Li 1994: 10.5 ms, 5.54 ms, 1.05 GB and 16 ms, 8.3 ms, 665 MB.
    close(disk("rz26").mean_seek_ms(), 10.5, 0.15);
    close(disk("rz26").mean_rotation_ms(), 5.54, 0.06);
    close(bytes("rz26"), 1.05e9, 0.01e9);
    close(disk("rz56").mean_seek_ms(), 16.0, 0.05);
    close(disk("rz56").mean_rotation_ms(), 8.3, 0.05);
    close(bytes("rz56"), 665e6, 13e6);
    // Shriver et al. 1999: 2.990 ms; the measured curve's mean of 7.96 ms and 0.636 ms to the next cylinder.
    close(disk("st34501w").mean_rotation_ms(), 2.990, 0.001);
    close(disk("st34501w/fitted").mean_seek_ms(), 7.96, 0.15);
    // DiskSim: 8,887,200 sectors; the model counts the spares too.
    close(bytes("st34501w"), 8_887_200.0 * 512.0, 0.007 * 4.55e9);
    close(disk("st34501w/fitted").seek.at_ms(1), 0.636, 0.0);
    close(disk("st34501w/fitted").seek.at_ms(6580), 16.1, 0.1);
    close(disk("st34501w").seek.at_ms(1), 0.175, 1e-9);
    close(disk("ibm0661").geometry.revolution_ns() as f64 / 1e6, 13.9, 0.001);
    close(disk("disk7200").mean_seek_ms(), 8.5, 0.05);
    close(bytes("disk7200"), 1e12, 0.02e12);
}

#[test]
fn zones_differ_in_rate() {
    let parameters = catalogue::find("disk7200").unwrap();
    let disk = parameters.disk().unwrap();
    let rate = |zone| disk.geometry.sequential_bytes_per_s(zone, &disk.seek);
    // 200 MB/s off one track, a tenth of it lost to skew.
    assert!((rate(0).unwrap() / 1e6 - 181.0).abs() < 2.0, "{:?}", rate(0));
    assert!(rate(3).unwrap() < rate(0).unwrap() * 0.6);
    assert_eq!(rate(4), None);
}

#[test]
fn a_sequential_pass_over_every_disk_is_served_from_readahead() {
    for name in ["hp97560", "rz26", "rz56", "st34501w", "st34501w/fitted", "ibm0661", "disk7200"] {
        let parameters = catalogue::find(name).unwrap();
        let mut disk = Mechanism::new(parameters.disk().unwrap());
        let mut now_ns = 0;
        for block in 0..5_000 {
            let service = disk.service(now_ns, &Request::read(block, block * 16, 16));
            assert!(service.from_cache || block == 0, "{name}, block {block}");
            now_ns = service.finished_ns;
        }
    }
}

#[test]
fn the_pass_and_what_it_has_reached_agree_on_every_disk() {
    for name in ["rz26", "rz56", "st34501w", "st34501w/fitted", "ibm0661", "disk7200"] {
        let parameters = catalogue::find(name).unwrap();
        let disk = parameters.disk().unwrap();
        let tracks = foretell_device::Tracks::new(&disk.geometry, &disk.seek);
        let mut before_ns = 0;
        for sector in (0..tracks.sectors() - 1).step_by((tracks.sectors() / 9973) as usize) {
            let place = tracks.place(sector);
            let (start_ns, end_ns) = (tracks.pass_start_ns(&place), tracks.pass_end_ns(&place));
            assert!(before_ns <= start_ns && start_ns < end_ns, "{name}, {sector}");
            assert_eq!(tracks.reached(end_ns), sector + 1, "{name}");
            before_ns = end_ns;
        }
    }
}

#[test]
fn wrong_names_get_the_nearest() {
    let error = catalogue::find("hp97650").unwrap_err();
    assert_eq!(error.to_string(), "no device \"hp97650\": did you mean \"hp97560\"?");
    let error = catalogue::find("st34501w/fited").unwrap_err();
    assert!(error.to_string().ends_with("did you mean \"st34501w/fitted\"?"), "{error}");
    let Err(CatalogueError::Unknown { nearest: None, .. }) = catalogue::find("floppy") else { panic!() };
    assert!(catalogue::find("floppy").unwrap_err().to_string().contains("object-store"));
    assert!(catalogue::find("hp97560/").is_err() && catalogue::find("").is_err());
}

#[test]
fn impossible_numbers_are_named_with_field_and_line() {
    let (field, line, problem) = value_error("hp97560", "rpm = 4002", "rpm = 0");
    assert_eq!((field.as_str(), line), ("disk.geometry.rpm", Some(line_with("hp97560", "rpm = 4002"))));
    assert!(problem.contains("0 is not between 60"), "{problem}");
    for (from, to) in [
        ("rpm = 4002", "rpm = nan"),
        ("rpm = 4002", "rpm = inf"),
        ("rpm = 4002", "rpm = -1.0"),
        ("heads = 19", "heads = 0"),
        ("heads = 19", "heads = 2"),
        ("cylinders = 1962", "cylinders = 100"),
        ("sector_bytes = 512", "sector_bytes = 0"),
        ("track_skew = 8", "track_skew = 73"),
        ("sectors_per_track = 72", "sectors_per_track = 0"),
        ("first_cylinder = 654", "first_cylinder = 600"),
        ("head_switch_ms = 1.6", "head_switch_ms = nan"),
        ("read_miss_ms = 2.2", "read_miss_ms = -2.2"),
        ("bus_mb_per_s = 10.0", "bus_mb_per_s = 0.0"),
        ("segments = 1", "segments = 0"),
        ("segment_bytes = 131_072", "segment_bytes = 0"),
        ("constant_ms = 3.24", "constant_ms = nan"),
        ("constant_ms = 3.24", "constant_ms = -3.24"),
        ("linear_ms = 0.008", "linear_ms = -0.008"),
        ("constant_ms = 8.00", "constant_ms = 1.00"),
    ] {
        let (field, line, problem) = value_error("hp97560", from, to);
        assert!(line.is_some(), "{field}: {problem}");
    }
    let (field, line, _) = value_error("hp97560", "last_cylinder = 1952", "last_cylinder = 2952");
    assert_eq!(field, "disk.geometry.zones[2].last_cylinder");
    assert_eq!(line, Some(line_with("hp97560", "last_cylinder = 1952")));
    let (field, ..) = value_error("cloud-volume", "operations_per_s = 3000", "operations_per_s = 0");
    assert_eq!(field, "volume.operations_per_s");
    let (field, ..) = value_error("object-store", "first_byte_sigma = 0.5", "first_byte_sigma = -0.5");
    assert_eq!(field, "object_store.first_byte_sigma");
    let (field, ..) = value_error("nvme", "channels = 64", "channels = 0");
    assert_eq!(field, "ssd.channels");
}

#[test]
fn a_disk_beyond_the_clock_is_refused() {
    let huge = text("disk7200").replace("heads = 4", "heads = 256").replace("rpm = 7200", "rpm = 60");
    assert!(matches!(DeviceParameters::parse(&huge), Err(ParameterError::Value { .. })));
}

#[test]
fn files_that_are_none_say_where() {
    let ParameterError::Syntax { line, message } = broken("hp97560", "rpm = 4002", "rmp = 4002") else {
        panic!()
    };
    assert_eq!(line, line_with("hp97560", "rpm = 4002"));
    assert!(message.contains("rmp"), "{message}");
    let ParameterError::Syntax { line, .. } = broken("hp97560", "heads = 19", "heads = -19") else {
        panic!()
    };
    assert_eq!(line, line_with("hp97560", "heads = 19"));
    assert!(matches!(DeviceParameters::parse("not toml"), Err(ParameterError::Syntax { line: 1, .. })));
    assert!(matches!(DeviceParameters::parse(""), Err(ParameterError::Syntax { .. })));
    let both = format!("{}\n[uniform]\nservice_ms = 1.0\ncapacity_bytes = 4096\n", text("nvme"));
    assert_eq!(DeviceParameters::parse(&both), Err(ParameterError::Tables { found: 2 }));
}

#[test]
fn a_key_with_a_line_break_leaves_the_error_in_one_line() {
    let one_line = |error: ParameterError| {
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
    };
    one_line(broken("nvme", "[ssd]", "[ssd]\n\"new\\nline\" = 1"));
    let variant = "[seek_variants.\"new\\nline\"]\nsource = \"none\"\nseek.short = { constant_ms = -1.0 }";
    one_line(broken("hp97560", "[disk.seek]", &format!("{variant}\n[disk.seek]")));
}

#[test]
fn a_user_can_add_a_drive_without_code() {
    let text = r#"
        name = "mine"
        description = "a small disk"
        source = "measured"
        [disk.geometry]
        sector_bytes = 512
        cylinders = 10
        heads = 2
        rpm = 6000
        head_switch_ms = 1.0
        [[disk.geometry.zones]]
        first_cylinder = 0
        last_cylinder = 0
        last_head = 0
        sectors_per_track = 10
        track_skew = 1
        cylinder_skew = 2
        [[disk.geometry.zones]]
        first_cylinder = 0
        first_head = 1
        last_cylinder = 9
        sectors_per_track = 20
        track_skew = 2
        cylinder_skew = 4
        [disk.seek]
        short = { constant_ms = 1.5 }
        [disk.controller]
        read_miss_ms = 0
        read_hit_ms = 0
        write_ms = 0
        overlaps_arm = false
        bus_mb_per_s = 100
        [disk.cache]
        segments = 1
        segment_bytes = 5120
        readahead_bytes = 5120
    "#;
    let device = DeviceParameters::parse(text).unwrap();
    assert!(matches!(device.model, Model::Disk(_)));
    assert_eq!(device.capacity_sectors(), 10 + 19 * 20);
    let mut disk = Mechanism::new(device.disk().unwrap());
    // The whole of head 0's track: a revolution of 10 ms from angle 0. Then head 1's first two sectors of
    // 0.5 ms: 4 sectors of cylinder skew, 2 ms, hide the switch of 1 ms.
    assert_eq!(disk.service(0, &Request::read(0, 0, 10)).finished_ns, 10_000_000);
    assert_eq!(disk.service(10_000_000, &Request::read(0, 10, 2)).finished_ns, 13_000_000);
}
