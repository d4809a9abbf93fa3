//! `jissoku floor`.

/// To be written.
#[derive(Debug, clap::Args)]
pub(crate) struct Floor {}

impl Floor {
    pub(crate) fn run(self) -> u8 {
        let Self {} = self;
        1
    }
}
