//! What the operating system says of this process, read from `/proc` when it is asked for.

use std::fs;

/// Figures of this process; none where `/proc` does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    /// Bytes in memory.
    pub(super) resident_bytes: Option<f64>,
    /// Seconds of processor time, in user and kernel mode.
    pub(super) cpu_seconds: Option<f64>,
    /// Open descriptors.
    pub(super) open_fds: Option<f64>,
    /// Seconds since 1970 at which it was started.
    pub(super) start_seconds: Option<f64>,
}

impl Process {
    /// Blocks: for a few reads of `/proc`.
    pub(super) fn read() -> Process {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let field = |number| stat_field(&stat, number);
        let boot = fs::read_to_string("/proc/stat").ok();
        let boot = boot.as_deref().and_then(boot_seconds);
        let statm = fs::read_to_string("/proc/self/statm").ok();
        let pages = statm.and_then(|text| text.split(' ').nth(1)?.parse::<f64>().ok());
        Process {
            resident_bytes: pages.map(|pages| pages * rustix::param::page_size() as f64),
            cpu_seconds: field(14)
                .zip(field(15))
                .map(|(user, kernel)| (user + kernel) / ticks),
            // One of them is the look itself.
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|entries| entries.count().saturating_sub(1) as f64),
            start_seconds: boot
                .zip(field(22))
                .map(|(boot, start)| boot + start / ticks),
        }
    }
}

/// A field of `/proc/PID/stat`, counted from 1 as proc(5) does. The second one, the name in
/// parentheses, may hold anything, so counting begins behind its end.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_ascii_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

fn boot_seconds(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 90 0 0 0 250 50 0 0 20 0 9 0 123456 1 2";
        assert_eq!(stat_field(stat, 14), Some(250.0));
        assert_eq!(stat_field(stat, 15), Some(50.0));
        assert_eq!(stat_field(stat, 22), Some(123_456.0));
        assert_eq!(stat_field("", 14), None);
        assert_eq!(boot_seconds("cpu 1\nbtime 1700000000\n"), Some(1.7e9));
    }

    #[test]
    fn this_process_has_all_figures() {
        let process = Process::read();
        assert!(process.resident_bytes.unwrap() > 100_000.0);
        assert!(process.cpu_seconds.unwrap() >= 0.0);
        assert!(process.open_fds.unwrap() >= 3.0);
        let age = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
            - process.start_seconds.unwrap();
        assert!((-2.0..86_400.0).contains(&age), "{age} seconds old");
    }
}
