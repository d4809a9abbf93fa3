//! Memory of the process that it no longer needs.

use std::ops::Range;

use rustix::mm::{Advice, madvise};

/// Returns to the kernel what was freed (`malloc_trim(3)`). Without it the allocator keeps that, and
/// allocations of other sizes come on top.
pub fn release_free() {
    #[cfg(target_env = "gnu")]
    trim();
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn trim() {
    // SAFETY: it takes no pointer, frees nothing that is in use, and locks the allocator.
    let _was_any_released = unsafe { libc::malloc_trim(0) };
}

/// Releases the pages of files that are mapped to be read only, and shared (`madvise(2)`). They stay
/// mapped: what is read again comes from the page cache.
pub fn release_read_pages() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for range in maps.lines().filter_map(shared_for_reading) {
        release(&range);
    }
}

#[expect(unsafe_code, reason = "the address is that of a mapping")]
fn release(range: &Range<usize>) {
    let start = std::ptr::without_provenance_mut(range.start);
    // SAFETY: a page of a shared mapping that cannot be written has what the file has, before and after
    // (unlike one of a private mapping, which may have been written before it was protected). If another
    // thread has unmapped it meanwhile and has mapped memory there, that could be lost: callers map and
    // unmap in the thread that calls.
    let _advised = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
}

/// Where a line of `/proc/self/maps` (`proc_pid_maps(5)`) is of a file that is mapped so.
fn shared_for_reading(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    let is_shared = words.next()? == "r--s" && words.nth(3)?.starts_with('/');
    if is_shared { Some(hex(start)?..hex(end)?) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_mappings_of_files_for_reading_are_released() {
        let line =
            |protection: &str, path: &str| format!("1000-3000 {protection} 0000 08:01 7   {path}");
        assert_eq!(shared_for_reading(&line("r--s", "/lib/a b.so")), Some(0x1000..0x3000));
        for other in [line("r--p", "/lib/a.so"), line("rw-s", "/a"), line("r--s", "")] {
            assert_eq!(shared_for_reading(&other), None, "{other}");
        }
    }
}
