//! The helper process of the tests, see [`foretell_slowdisk::helper_main`].

use std::process::ExitCode;

fn main() -> ExitCode {
    foretell_slowdisk::helper_main()
}
