//! Options that are one of several words.

use clap::ValueEnum;
use jissoku_load::ClockSource;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DriverChoice {
    Auto,
    Epoll,
    Uring,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum IdleChoice {
    Block,
    Spin,
    Hybrid,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ClockChoice {
    Tsc,
    Monotonic,
    Batch,
}

impl From<ClockChoice> for ClockSource {
    fn from(choice: ClockChoice) -> Self {
        match choice {
            ClockChoice::Tsc => Self::Best,
            ClockChoice::Monotonic => Self::Kernel,
            ClockChoice::Batch => Self::Batch,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SwitchChoice {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BusyChoice {
    Queue,
    Open,
    Drop,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum MessageChoice {
    Text,
    Binary,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum VerifyChoice {
    None,
    Length,
    All,
}
