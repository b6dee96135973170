//! File systems of a test's own: on loop devices, and overlays on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something mounted, until drop.
#[derive(Debug)]
pub struct Mount {
    /// Where.
    pub at: PathBuf,
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Also when its test has failed. Lazily: what a failed test left open must not keep it.
        let done = Command::new("umount").arg("--lazy").arg(&self.at).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Runs a command; what it said on its error output if it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let says = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {}", says.trim())) }
}

/// A file system of its own in a file of `directory`, made by `mkfs.KIND`.
///
/// # Errors
/// What is not there, in words.
///
/// # Panics
/// When `directory` cannot be written.
pub fn disk(directory: &Path, kind: &str) -> Result<Mount, String> {
    let (image, at) = (directory.join(format!("{kind}.image")), directory.join(kind));
    let made = fs::File::create(&image).and_then(|image| image.set_len(400 << 20));
    made.and_then(|()| fs::create_dir(&at)).expect("room for a file system");
    run(Command::new(format!("mkfs.{kind}")).arg(&image))?;
    run(Command::new("mount").args(["-o", "loop"]).args([&image, &at]))?;
    Ok(Mount { at })
}

/// A subvolume of a btrfs.
///
/// # Errors
/// What is not there, in words.
pub fn subvolume(of: &Mount, name: &str) -> Result<PathBuf, String> {
    let path = of.at.join(name);
    run(Command::new("btrfs").args(["subvolume", "create"]).arg(&path))?;
    Ok(path)
}

/// An overlay, merged at `directory/merged`, and its layers.
#[derive(Debug)]
pub struct Overlay {
    /// What is only read.
    pub lower: PathBuf,
    /// What is written.
    pub upper: PathBuf,
    /// What programs see.
    pub merged: Mount,
}

/// An overlay of directories made below `directory`; `options` are those of mount besides the layers.
///
/// # Errors
/// What is not there, in words.
///
/// # Panics
/// When `directory` cannot be written.
pub fn overlay(directory: &Path, options: &str) -> Result<Overlay, String> {
    let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| directory.join(name));
    for layer in [&lower, &upper, &work, &merged] {
        // The lower one may be there already, with files in it.
        fs::create_dir_all(layer).expect("room for a layer");
    }
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}{options}",
        lower.display(),
        upper.display(),
        work.display()
    );
    run(Command::new("mount").args(["-t", "overlay", "foretell-test", "-o", &layers]).arg(&merged))?;
    Ok(Overlay { lower, upper, merged: Mount { at: merged } })
}

/// The same directory once more.
///
/// # Errors
/// What is not there, in words.
///
/// # Panics
/// When there is no room for it.
pub fn bind(directory: &Path, at: &Path) -> Result<Mount, String> {
    fs::create_dir(at).expect("room for a directory");
    run(Command::new("mount").arg("--bind").args([directory, at]))?;
    Ok(Mount { at: at.to_owned() })
}
