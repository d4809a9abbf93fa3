//! The native stack of a thread whose code ends the process, and what that thread does: written to
//! standard error when it crashes, or when another thread says that it hangs.
//!
//! For code that is not ours, such as a shared object. An interpreter has its own (`faulthandler`).

mod activity;
#[cfg(target_env = "gnu")]
mod gnu;
#[cfg(target_env = "gnu")]
mod line;

pub use activity::Activity;
#[cfg(target_env = "gnu")]
pub use gnu::{abort_here, install};

/// Without a C library that can walk a stack, there is nothing to install.
///
/// # Errors
/// None.
#[cfg(not(target_env = "gnu"))]
pub fn install() -> std::io::Result<()> {
    Ok(())
}

/// Ends the process.
#[cfg(not(target_env = "gnu"))]
pub fn abort_here() -> ! {
    std::process::abort()
}
