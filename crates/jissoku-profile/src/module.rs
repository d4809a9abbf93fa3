//! What a program or library says about unwinding: sections of an ELF file.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::read::{ObjectSection as _, ObjectSegment as _, ReadCache};
use object::{Object as _, SegmentFlags};

/// Bytes of a section, shared by all processes that map the file.
pub(crate) type Bytes = Arc<[u8]>;

/// `.eh_frame` above this is left out: it would take more memory than a sampler should.
const SECTION_SIZE_MAX: u64 = 16 << 20;

/// Unwind information of a file, and where its segments are.
#[derive(Debug, Default)]
pub(crate) struct ModuleInfo {
    eh_frame: Option<Section>,
    eh_frame_header: Option<Section>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
struct Section {
    range: Range<u64>,
    data: Bytes,
}

/// Offsets in the file that are mapped at stated addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    offsets: Range<u64>,
    address: u64,
}

impl ModuleInfo {
    /// Reads a file; a file that is none of ELF has no information.
    pub(crate) fn read(path: &Path) -> Self {
        Self::try_read(path).unwrap_or_default()
    }

    fn try_read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = object::File::parse(&cache).ok()?;
        let range = |name: &str| {
            elf.section_by_name(name).map(|one| one.address()..one.address() + one.size())
        };
        let section = |name: &str| {
            let found = elf.section_by_name(name).filter(|one| one.size() <= SECTION_SIZE_MAX)?;
            let data = found.data().ok().filter(|data| !data.is_empty())?;
            Some(Section { range: range(name)?, data: data.into() })
        };
        let segments = elf.segments().filter_map(|segment| {
            let (offset, size) = segment.file_range();
            let SegmentFlags::Elf { .. } = segment.flags() else { return None };
            Some(Segment { offsets: offset..offset + size, address: segment.address() })
        });
        Some(Self {
            eh_frame: section(".eh_frame"),
            eh_frame_header: section(".eh_frame_hdr"),
            text: range(".text"),
            got: range(".got"),
            segments: segments.collect(),
        })
    }

    /// Whether there is anything to unwind by.
    pub(crate) fn can_unwind(&self) -> bool {
        self.eh_frame.is_some()
    }

    /// The address that the file states for one of its offsets.
    pub(crate) fn stated_address(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| {
            // Mappings begin at whole pages, which may be before the segment.
            (segment.offsets.start & !0xfff..segment.offsets.end).contains(&offset)
        })?;
        Some(segment.address.wrapping_sub(segment.offsets.start).wrapping_add(offset))
    }

    /// As framehop takes it.
    pub(crate) fn sections(&self) -> ExplicitModuleSectionInfo<Bytes> {
        let range = |section: &Option<Section>| section.as_ref().map(|one| one.range.clone());
        let data = |section: &Option<Section>| section.as_ref().map(|one| Arc::clone(&one.data));
        ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: data(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_header),
            eh_frame_hdr: data(&self.eh_frame_header),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_can_be_unwound() {
        let info = ModuleInfo::read(&std::env::current_exe().expect("a program has a path"));
        assert!(info.can_unwind());
        assert_eq!(info.stated_address(0), Some(0));
    }

    #[test]
    fn a_file_that_is_no_program_has_no_information() {
        let info = ModuleInfo::read(Path::new("/proc/self/cmdline"));
        assert!(!info.can_unwind());
        assert_eq!(info.stated_address(0), None);
    }
}
