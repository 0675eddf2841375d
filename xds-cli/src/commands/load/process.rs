//! CPU time and memory of the server's process (Linux).

use core::time::Duration;
use std::{fs, io};

/// CPU time and memory that a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// Resident memory in bytes.
    pub(super) memory: u64,
    /// Maximum of the resident memory in bytes.
    pub(super) peak_memory: u64,
}

impl Usage {
    /// Returns the usage since an earlier one. Memory is that of now.
    pub(super) const fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), ..self }
    }
}

/// Reads the usage of a process.
pub(super) fn usage(pid: u32) -> io::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse(&stat, &status, ticks_per_second())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cannot be read"))
}

#[cfg(target_os = "linux")]
fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[cfg(not(target_os = "linux"))]
const fn ticks_per_second() -> u64 {
    100
}

fn parse(stat: &str, status: &str, ticks_per_second: u64) -> Option<Usage> {
    /// Positions of the CPU time in user mode and in the kernel, behind the name of the program.
    const USER: usize = 11;

    // The name is in parentheses and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(USER).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(Usage {
        cpu: Duration::from_millis(ticks * 1_000 / ticks_per_second.max(1)),
        memory: kilobytes("VmRSS:")? * 1_024,
        peak_memory: kilobytes("VmHWM:")? * 1_024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_parsed_despite_a_strange_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 100 0 0";
        let status = "Name:\ta\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\n";
        let usage =
            Usage { cpu: Duration::from_secs(3), memory: 200 * 1_024, peak_memory: 300 * 1_024 };
        assert_eq!(parse(stat, status, 100), Some(usage));
        assert_eq!(parse("42 (a", status, 100), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn own_usage_is_read() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.memory > 0 && usage.peak_memory >= usage.memory);
    }
}
