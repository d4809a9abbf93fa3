//! Shared objects that are loaded while the process runs (`dlopen(3)`).

use std::ffi::{CStr, CString, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// A shared object. It stays loaded until the process ends: what it has registered or started may
/// refer to it for as long.
#[derive(Clone, Copy, Debug)]
pub struct Library(NonNull<c_void>);

impl Library {
    /// Loads the shared object at `path`, with all its symbols resolved and visible to it alone.
    ///
    /// # Errors
    /// `InvalidInput` with the sentence of the loader.
    ///
    /// # Safety
    /// Its initialisation code runs in this process and has to be sound.
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    pub unsafe fn load(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path ends with a zero; the caller answers for the code that is run.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(|| {
            let sentence = last_error().unwrap_or_else(|| "it cannot be loaded".to_owned());
            io::Error::new(io::ErrorKind::InvalidInput, sentence)
        })
    }

    /// The address of a symbol, if there is one.
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    #[must_use]
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is that of a loaded library, and the name ends with a zero.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

/// What the loader says about its last failure on this thread.
#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn last_error() -> Option<String> {
    // SAFETY: it needs nothing.
    let text = NonNull::new(unsafe { libc::dlerror() })?;
    // SAFETY: it is a string of this thread, valid until the next call of the loader.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the C library is loaded already")]
    fn symbols_of_a_library_are_found_by_name() {
        // SAFETY: its initialisation code has run already.
        let library = unsafe { Library::load(Path::new("libc.so.6")) };
        let library = library.expect("this process has loaded it");
        assert!(library.symbol(c"qsort").is_some());
        assert!(library.symbol(c"jsk_handle").is_none());
    }

    #[test]
    #[expect(unsafe_code, reason = "nothing is loaded")]
    fn the_loader_says_why_a_file_is_no_library() {
        // SAFETY: there is no such file, so no code of it.
        let refused = unsafe { Library::load(Path::new("/nowhere/at/all.so")) };
        let refused = refused.expect_err("there is no such file");
        assert!(refused.to_string().contains("/nowhere/at/all.so"), "{refused}");
    }
}
