//! What a report's figures were measured on.

use jissoku_os::machine::Machine;
use serde::Serialize;

/// The machine, in a report.
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
        let Machine { kernel, cpu, clocksource, governor, mitigations } = Machine::ours();
        Self { kernel, cpu, clocksource, governor, mitigations }
    }
}
