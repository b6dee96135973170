//! Several programs started together, with the service beside them or without: all of them, and the service,
//! are what the memory cgroup of one run holds.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process, setrlimit, waitid,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reader::BLOCK_BYTES;

/// How long the service may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is run together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Together {
    pub(crate) service: Option<Service>,
    pub(crate) programs: Vec<Program>,
    /// Where the [`Ran`] is written.
    pub(crate) report: PathBuf,
}

/// `foretell daemon` and its arguments.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) foretell: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// A program, and where its standard output goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) command: Vec<OsString>,
    pub(crate) output: PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// From the start of the programs, when the service is up, to the end of the last.
    pub(crate) elapsed_s: f64,
    /// Of each program.
    pub(crate) programs_s: Vec<f64>,
    /// Blocks that each program has read from devices itself; what the service fetched for it is not among them.
    pub(crate) programs_blocks: Vec<f64>,
    /// Processor time of the service.
    pub(crate) service_cpu_s: f64,
    /// What the service says at the end, as JSON; `null` without one.
    pub(crate) status: Value,
}

/// Runs what the file describes and reports.
pub(crate) fn run(description: &Path) -> Result<()> {
    let text = std::fs::read_to_string(description)
        .with_context(|| format!("cannot read {}", description.display()))?;
    let together: Together = serde_json::from_str(&text)?;
    allow_many_files().context("cannot allow many open files")?;
    let service = together.service.as_ref().map(start_service).transpose()?;
    let ran = run_programs(&together, service.as_ref());
    if let Some(service) = service {
        end_service(service)?;
    }
    std::fs::write(&together.report, serde_json::to_string(&ran?)?)
        .with_context(|| format!("cannot write {}", together.report.display()))
}

/// As many open files as the system allows, for the programs too: the sort has one for each of its runs.
fn allow_many_files() -> std::io::Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?)
}

fn run_programs(together: &Together, service: Option<&Child>) -> Result<Ran> {
    let socket = together.service.as_ref().map(|service| service.socket.as_path());
    let started = Instant::now();
    let mut running = Vec::new();
    for program in &together.programs {
        let [name, arguments @ ..] = program.command.as_slice() else { bail!("no command") };
        let output = File::create(&program.output)
            .with_context(|| format!("cannot write {}", program.output.display()))?;
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null()).stdout(output);
        // Without a service nobody answers there.
        command.env("FORETELL_SOCKET", socket.unwrap_or(Path::new("/nonexistent")));
        running.push(command.spawn().with_context(|| format!("cannot start {}", program.name))?);
    }
    let mut programs_s = vec![0.0; running.len()];
    let mut programs_blocks = vec![0.0; running.len()];
    let mut left = running.len();
    while left > 0 {
        // Polled, as each program's own end counts and any may be the first.
        std::thread::sleep(Duration::from_millis(2));
        for (at, (program, child)) in together.programs.iter().zip(&mut running).enumerate() {
            if programs_s[at] > 0.0 || !has_ended(child)? {
                continue;
            }
            programs_s[at] = started.elapsed().as_secs_f64();
            // Of a process that has ended and was not waited for yet the counts can still be read.
            programs_blocks[at] = read_bytes(child.id()) / BLOCK_BYTES as f64;
            let status = child.wait()?;
            ensure!(status.success(), "{} ended with {status}", program.name);
            left -= 1;
        }
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    let service_cpu_s = service.map_or(0.0, |child| cpu_s(child.id()));
    let status = together.service.as_ref().map_or(Ok(Value::Null), ask_service)?;
    Ok(Ran { elapsed_s, programs_s, programs_blocks, service_cpu_s, status })
}

fn start_service(service: &Service) -> Result<Child> {
    let mut child = Command::new(&service.foretell)
        .arg("daemon")
        .arg("--socket")
        .arg(&service.socket)
        .args(&service.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the service")?;
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(&service.socket).is_err() {
        if let Some(status) = child.try_wait()? {
            bail!("the service ended with {status}");
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            bail!("the service does not answer at {}", service.socket.display());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(child)
}

/// What `foretell status` says.
fn ask_service(service: &Service) -> Result<Value> {
    let mut command = Command::new(&service.foretell);
    let output = command.args(["status", "--json", "--socket"]).arg(&service.socket).output()?;
    ensure!(output.status.success(), "foretell status: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn end_service(mut service: Child) -> Result<()> {
    let pid = Pid::from_raw(service.id().cast_signed()).context("the service has no number")?;
    kill_process(pid, Signal::TERM).context("cannot end the service")?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match service.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("the service ended with {status}"),
            None if Instant::now() > deadline => {
                let _ = service.kill();
                bail!("the service does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Has a child ended? It is not waited for.
fn has_ended(child: &Child) -> Result<bool> {
    let pid = Pid::from_raw(child.id().cast_signed()).context("a child has no number")?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Bytes that a process has had read from devices (proc_pid_io(5)), by its own reads and for them.
fn read_bytes(pid: u32) -> f64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0.0)
}

/// Processor time of a process so far: fields 14 and 15 of proc_pid_stat(5), in ticks of 10 ms.
fn cpu_s(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        rest.split_ascii_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_together_and_each_is_timed() {
        let directory = tempfile::tempdir().unwrap();
        let program = |name: &str, script: &str| Program {
            name: name.to_owned(),
            command: ["sh", "-c", script].map(Into::into).to_vec(),
            output: directory.path().join(name),
        };
        let together = Together {
            service: None,
            programs: vec![program("long", "sleep 0.2; echo a"), program("short", "echo b")],
            report: directory.path().join("report"),
        };
        let description = directory.path().join("together");
        std::fs::write(&description, serde_json::to_string(&together).unwrap()).unwrap();
        run(&description).unwrap();
        let ran: Ran = serde_json::from_slice(&std::fs::read(&together.report).unwrap()).unwrap();
        assert!(ran.programs_s[0] >= 0.2 && ran.elapsed_s >= ran.programs_s[0]);
        assert_eq!(std::fs::read_to_string(directory.path().join("short")).unwrap(), "b\n");

        let failing = Together { programs: vec![program("bad", "exit 3")], ..together };
        std::fs::write(&description, serde_json::to_string(&failing).unwrap()).unwrap();
        assert!(run(&description).unwrap_err().to_string().contains("bad ended with"));
    }
}
