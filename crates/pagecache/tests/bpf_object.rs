//! The committed BPF objects are those that their sources give.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf");

/// The sections of an ELF object that decide what it does: code, constants, maps, types, the places that the
/// loader fills in, and the compiler.
fn sections(object: &Path) -> BTreeMap<String, Vec<u8>> {
    let bytes = std::fs::read(object).unwrap();
    let number = |at: usize, length: usize| -> usize {
        bytes[at..at + length].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
    };
    // The ELF header has the place, size and number of section headers, and which one holds the names.
    let (headers, header_bytes, count, names) = (number(40, 8), number(58, 2), number(60, 2), number(62, 2));
    let header = |index: usize| headers + index * header_bytes;
    let content = |index: usize| {
        let (offset, length) = (number(header(index) + 24, 8), number(header(index) + 32, 8));
        &bytes[offset..offset + length]
    };
    let name = |index: usize| {
        let name = &content(names)[number(header(index), 4)..];
        String::from_utf8(name.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
    };
    let decides = |name: &str| {
        [
            "tp_btf/",
            ".reltp_btf/",
            "fentry/",
            ".relfentry/",
            "fexit/",
            ".relfexit/",
            "raw_tp/",
            ".relraw_tp/",
            ".text",
            ".rel.text",
        ]
        .iter()
        .any(|start| name.starts_with(start))
            || [".rodata", ".maps", ".BTF", ".BTF.ext", "license", ".comment"].contains(&name)
    };
    (1..count)
        .map(|index| (name(index), index))
        .filter(|(name, _)| decides(name))
        .map(|(name, index)| (name, content(index).to_vec()))
        .collect()
}

#[test]
fn the_committed_objects_are_what_the_sources_give() {
    let test = "the_committed_objects_are_what_the_sources_give";
    let missing = ["clang", "llvm-strip", "llvm-objcopy"]
        .into_iter()
        .find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        println!("skipped: {test}: {tool} is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let built = Command::new(format!("{SOURCE}/build")).arg(directory.path()).output().unwrap();
    let says = String::from_utf8_lossy(&built.stderr);
    if says.contains("bpf/bpf_helpers.h' file not found") {
        println!("skipped: {test}: the headers of libbpf are not installed");
        return;
    }
    assert!(built.status.success(), "{says}");
    for (object, kind, programs) in [("observe.bpf.o", "tp_btf/", 10), ("identify.bpf.o", "raw_tp/", 2)] {
        let (ours, theirs) =
            (sections(&directory.path().join(object)), sections(Path::new(&format!("{SOURCE}/{object}"))));
        assert!(theirs.keys().filter(|name| name.starts_with(kind)).count() >= programs);
        if ours[".comment"] != theirs[".comment"] {
            let compiler =
                |of: &BTreeMap<String, Vec<u8>>| String::from_utf8_lossy(&of[".comment"]).into_owned();
            println!("skipped: {test}: {} here, {} built the object", compiler(&ours), compiler(&theirs));
            return;
        }
        for (name, content) in &theirs {
            assert_eq!(
                ours.get(name),
                Some(content),
                "{object}: {name} differs: run src/bpf/build and commit the object"
            );
        }
        assert_eq!(ours.len(), theirs.len());
    }
}

#[test]
fn the_objects_name_no_place_of_the_machine_that_built_them() {
    for name in ["observe.bpf.o", "identify.bpf.o"] {
        let object = std::fs::read(format!("{SOURCE}/{name}")).unwrap();
        for place in [env!("CARGO_MANIFEST_DIR"), "/home/", "/usr/include", "/root/"] {
            assert!(!object.windows(place.len()).any(|part| part == place.as_bytes()), "{name}: {place}");
        }
    }
}
