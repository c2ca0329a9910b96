//! What the kernel tells of a process: memory, wake-ups, time on a processor, bytes written, syncs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

/// A field of `/proc/PID/FILE` such as `VmRSS:` in its first number.
fn field(file: &str, name: &str) -> Option<u64> {
    let line = file.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

/// Resident memory in MiB, and the part of it that is not a file's.
pub fn memory(pid: u32) -> (f64, f64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status of the daemon");
    let mib = |name| field(&status, name).map_or(f64::NAN, |kib| kib as f64 / 1024.0);
    (mib("VmRSS:"), mib("RssAnon:"))
}

/// Threads of the process.
pub fn threads(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status of the daemon");
    field(&status, "Threads:").map_or(f64::NAN, |count| count as f64)
}

/// Times that a thread was put on a processor, and nanoseconds there, over all threads.
fn activity(pid: u32) -> (u64, u64) {
    let mut sum = (0, 0);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads of the daemon");
    for task in tasks.flatten() {
        // A thread may end between the two looks.
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        sum.0 += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        sum.0 += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        let spent = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        sum.1 += spent
            .split(' ')
            .next()
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0);
    }
    sum
}

/// Wake-ups a second and share of one processor in percent, over `window`.
pub fn idle(pid: u32, window: Duration) -> (f64, f64) {
    let (wakes, spent) = activity(pid);
    let start = Instant::now();
    thread::sleep(window);
    let seconds = start.elapsed().as_secs_f64();
    let (wakes_after, spent_after) = activity(pid);
    let per_second = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    (
        per_second(wakes, wakes_after),
        per_second(spent, spent_after) / 1e9 * 100.0,
    )
}

/// Processor time that the process has used, of threads that have ended too; to ten milliseconds.
pub fn processor(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold anything; the fields behind its bracket begin with the third (proc(5)).
    let rest = stat.rsplit(')').next().unwrap_or("");
    let ticks = |field: usize| -> u64 {
        let text = rest.split_whitespace().nth(field - 3).unwrap_or("");
        text.parse().unwrap_or(0)
    };
    let hertz = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis((ticks(14) + ticks(15)) * 1000 / hertz)
}

/// Processor time of the threads that live now, summed by the first word of their names.
pub fn by_thread(pid: u32) -> std::collections::BTreeMap<String, Duration> {
    let mut sums = std::collections::BTreeMap::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads of the daemon");
    for task in tasks.flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let name = name.trim().split(':').next().unwrap_or("").to_owned();
        let spent = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let spent = spent.split(' ').next().and_then(|text| text.parse().ok());
        *sums.entry(name).or_default() += Duration::from_nanos(spent.unwrap_or(0));
    }
    sums
}

/// Bytes that the process has had written to disk.
pub fn written(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    field(&io, "write_bytes:").unwrap_or(0)
}

/// Syncs of the process while `work` runs, counted by strace; `None` where there is none.
pub fn syncs(pid: u32, folder: &Path, work: impl FnOnce()) -> Option<u64> {
    let out = folder.join("syncs");
    let mut tracer = Command::new("strace")
        .args(["-f", "-q", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&out)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !traced(pid) {
        if tracer.try_wait().ok()?.is_some() || Instant::now() > deadline {
            let _ = tracer.kill();
            let _ = tracer.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    work();
    // On SIGINT it lets go of the process and writes what it has.
    if let Some(tracer) = i32::try_from(tracer.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(tracer, Signal::INT);
    }
    let _ = tracer.wait();
    let text = fs::read_to_string(out).ok()?;
    Some(
        text.lines()
            .filter(|line| line.contains("sync(") || line.contains("sync resumed"))
            .filter(|line| line.contains(" = "))
            .count() as u64,
    )
}

/// Whether every thread of the process has a tracer.
fn traced(pid: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    tasks.flatten().all(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        field(&status, "TracerPid:").unwrap_or(0) > 0
    })
}
