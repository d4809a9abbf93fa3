//! Information about the host of a measurement; unknown values are empty.

use std::fs;

/// The host: kernel, CPU, clock source, frequency governor and mitigations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInfo {
    /// Release of the kernel (`uname(2)`).
    pub kernel: String,
    /// The model of its first processor.
    pub cpu: String,
    /// Clock source of the kernel.
    pub clocksource: String,
    /// Frequency governor of the first CPU.
    pub governor: String,
    /// CPU vulnerabilities that the kernel mitigates, by name.
    pub mitigations: Vec<String>,
}

impl HostInfo {
    /// The current host.
    pub fn current() -> Self {
        let system = "/sys/devices/system";
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: model(&line("/proc/cpuinfo")),
            clocksource: line(&format!("{system}/clocksource/clocksource0/current_clocksource")),
            governor: line(&format!("{system}/cpu/cpu0/cpufreq/scaling_governor")),
            mitigations: mitigations(&format!("{system}/cpu/vulnerabilities")),
        }
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn model(text: &str) -> String {
    let names = text.lines().filter_map(|line| line.split_once(':'));
    let mut models = names.filter(|(name, _)| name.trim() == "model name");
    models.next().map(|(_, model)| model.trim().to_owned()).unwrap_or_default()
}

fn mitigations(folder: &str) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let worked_around = files.filter(|file| {
        fs::read_to_string(file.path()).is_ok_and(|text| text.starts_with("Mitigation"))
    });
    let mut names: Vec<String> =
        worked_around.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2: GHz\nmodel name\t: Another\n";
        assert_eq!(model(text), "Some CPU @ 2: GHz");
        assert_eq!(model(""), "");
    }

    #[test]
    fn every_machine_has_a_kernel() {
        let host_info = HostInfo::current();
        assert!(host_info.kernel.starts_with(|sign: char| sign.is_ascii_digit()), "{host_info:?}");
        assert!(mitigations("/nowhere/at/all").is_empty());
    }
}
