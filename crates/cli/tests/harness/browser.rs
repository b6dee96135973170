//! A headless browser that looks at a page.

use std::path::Path;
use std::process::Command;

use super::Ended;

/// Where a browser may be.
const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// The document of the page as the browser has it, and the bytes of a picture of it; `None` without a browser.
/// Fails on anything that the browser says against the page. The names are of files in `directory`.
pub fn rendered(test: &str, directory: &Path, page: &str) -> Option<(String, u64)> {
    let Some(browser) = BROWSERS.iter().find(|b| Path::new(b).exists()) else {
        println!("skipped: {test}: chromium is not installed");
        return None;
    };
    let profile = tempfile::tempdir().unwrap();
    let picture = directory.join("page.png");
    let url = format!("file://{}", directory.join(page).display());
    let run = |what: &[&str]| {
        let ended: Ended = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--enable-logging=stderr", "--v=0", "--window-size=1280,1400"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(what)
            .arg(&url)
            .output()
            .unwrap()
            .into();
        assert!(!ended.stderr.contains("CONSOLE"), "{}", ended.stderr);
        ended
    };
    let document = run(&["--dump-dom"]).stdout;
    run(&[&format!("--screenshot={}", picture.display())]);
    Some((document, std::fs::metadata(&picture).unwrap().len()))
}
