//! A service and users around it, each a process of its own: copies of the program that measures them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use foretell_pagecache::Options;
use foretelld::{Configuration, Confinement, Limits, Service};

/// The users `nobody` and, by a number that is nobody's, somebody else.
#[allow(dead_code)]
pub(crate) const STRANGER: u32 = 65_534;
pub(crate) const HONEST: u32 = 65_533;

/// Where they meet.
pub(crate) struct Actors {
    program: PathBuf,
    /// Anybody may look into it, and root may write.
    pub(crate) directory: tempfile::TempDir,
}

impl Actors {
    /// A directory on a disk, and this program in it. Says why not where page caches cannot be observed.
    pub(crate) fn new() -> Result<Actors, String> {
        if let Some(why) = foretell_pagecache::doctor::missing_for_run() {
            return Err(why);
        }
        let directory = tempfile::Builder::new().prefix("foretell-actors").tempdir_in("/var/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        // Where it was built nobody else may look, perhaps.
        let program = directory.path().join("actor");
        std::fs::copy("/proc/self/exe", &program).unwrap();
        Ok(Actors { program, directory })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s.sock")
    }

    /// A directory of a user's.
    #[allow(dead_code)]
    pub(crate) fn directory_of(&self, user: u32) -> PathBuf {
        let path = self.directory.path().join(user.to_string());
        std::fs::create_dir_all(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
        path
    }

    /// This program, where every user can start it.
    #[allow(dead_code)]
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Starts a user's process with these words.
    pub(crate) fn start(&self, words: &[&str], user: Option<u32>, input: Stdio, output: Stdio) -> Child {
        let mut command = Command::new(&self.program);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        // A stranger that has been put out says so at length.
        let errors = if user.is_some() { Stdio::null() } else { Stdio::inherit() };
        command.args(words).stdin(input).stdout(output).stderr(errors).spawn().unwrap()
    }

    /// Starts a service with a budget, and waits until it serves.
    pub(crate) fn service(&self, blocks: u64) -> Child {
        let (path, blocks) = (self.socket().display().to_string(), blocks.to_string());
        let mut service = self.start(&["as-service", &path, &blocks], None, Stdio::null(), Stdio::piped());
        let mut line = [0; 8];
        std::io::Read::read_exact(service.stdout.as_mut().unwrap(), &mut line).unwrap();
        service
    }
}

/// Tells a service to end, if it has not, and waits for it.
pub(crate) fn end(mut service: Child) -> ExitStatus {
    if service.try_wait().unwrap().is_none() {
        let pid = rustix::process::Pid::from_child(&service);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
    service.wait().unwrap()
}

/// What the process of a service does.
pub(crate) fn serve(socket: &Path, blocks: u64, block_bytes: u64) {
    let service = Service::open(Configuration {
        socket: socket.to_owned(),
        options: Options::new(blocks * block_bytes),
        limits: Limits::default(),
        confinement: Confinement::Errors,
    })
    .unwrap();
    service.stop().on_signals().unwrap();
    println!("serving");
    // Without its broker it ends, and whoever measures may have killed that.
    if let Err(error) = service.run() {
        println!("{error}");
        std::process::exit(1);
    }
}
