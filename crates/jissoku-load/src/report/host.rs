//! The machine of a measurement.

use jissoku_os::host_info::HostInfo;
use serde::Serialize;

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the machine")]
pub struct Host {
    pub kernel: String,
    pub cpu: String,
    pub clocksource: String,
    pub governor: String,
    pub mitigations: Vec<String>,
}

impl Host {
    pub(crate) fn ours() -> Self {
        let HostInfo { kernel, cpu, clocksource, governor, mitigations } = HostInfo::current();
        Self { kernel, cpu, clocksource, governor, mitigations }
    }
}
