//! The pictures and pages of `foretell model predict` and `advise`.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::path::Path;

use harness::browser::rendered;
use harness::{Ended, foretell};

const WORKLOAD: &str = "sequential,bytes=64M,streams=2,think_us=200";

fn drawn(action: &str, device: &str, workload: &str, flag: &str, path: &Path) -> Ended {
    foretell(["model", action, "--device", device, "--workload", workload, flag, path.to_str().unwrap()])
}

fn ok(ended: Ended) -> Ended {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended
}

#[test]
fn a_plot_is_an_svg_or_a_png_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (svg, png) = (directory.path().join("a.svg"), directory.path().join("a.png"));
    ok(drawn("predict", "disk7200", WORKLOAD, "--plot", &svg));
    let text = std::fs::read_to_string(&svg).unwrap();
    for wanted in ["<svg", "Why it takes less", "positioning saved", "read_ahead_kb", "streams", "now"] {
        assert!(text.contains(wanted), "{wanted}");
    }
    for unwanted in ["NaN", "inf"] {
        assert!(!text.contains(unwanted), "{unwanted}");
    }
    let ended = drawn("advise", "nvme", "random,bytes=16M,request=4K", "--plot", &png);
    if ended.stderr.contains("a PNG needs a font") {
        println!("skipped: a_plot_is_an_svg_or_a_png_by_its_name: no font is installed");
        return;
    }
    let bytes = std::fs::read(&png).map_err(|e| format!("{e}: {}", ended.stderr)).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 40_000, "{} bytes", bytes.len());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn nothing_is_drawn_where_it_cannot_be() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |flag: &str, path: &Path, says: &str| {
        let ended = drawn("predict", "nvme", WORKLOAD, flag, path);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
        assert_eq!(ended.stdout, "", "checked before anything is said");
    };
    refused("--plot", &directory.path().join("a.gif"), "no format '.gif'; give .svg or .png");
    refused("--plot", &directory.path().join("a"), "no extension; give .svg or .png");
    refused("--plot", Path::new("/no/such/a.svg"), "there is no directory /no/such");
    refused("--html", directory.path(), "is a directory; name a file");
    refused("--html", Path::new("/proc/a.html"), "/proc/a.html: cannot write there");
}

fn page(directory: &Path) -> String {
    let file = directory.join("page.html");
    ok(drawn("advise", "disk7200", WORKLOAD, "--html", &file));
    std::fs::read_to_string(file).unwrap()
}

/// The page loads nothing and needs no script.
#[test]
fn the_page_is_self_contained() {
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path());
    for wanted in ["<svg", "What to set", "read_ahead_kb", "disk7200", "Why it takes less", "advised"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    for unwanted in ["<script", "https://", "@import", "url(", "javascript:", "NaN", "inf\""] {
        assert!(!page.contains(unwanted), "{unwanted}");
    }
    assert!(page.matches("<figure>").count() >= 4);
    // The colours follow the reader's scheme.
    assert!(!page.contains("\"#C4513F\"") && page.contains("\"var(--stall)\""));
}

/// A headless browser says nothing against the page and draws it.
#[test]
fn a_browser_renders_the_page() {
    let directory = tempfile::tempdir().unwrap();
    page(directory.path());
    let Some((dom, drawn_bytes)) = rendered("a_browser_renders_the_page", directory.path(), "page.html")
    else {
        return;
    };
    assert!(dom.matches("<polyline").count() >= 3, "the document has no curves: {} bytes", dom.len());
    // An empty page of this size compresses to a few thousand bytes.
    assert!(drawn_bytes > 40_000, "{drawn_bytes} bytes of picture");
}
