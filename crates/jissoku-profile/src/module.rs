//! What a program or library says about unwinding: sections of an ELF file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use gimli::{BaseAddresses, EhFrameHdr, EndianSlice, NativeEndian};
use object::Object as _;
use object::read::{ObjectSection as _, ObjectSegment as _, ReadCache, ReadRef};

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

/// Unwind information as gimli takes it.
#[derive(Debug)]
pub(crate) struct Tables<'data> {
    pub(crate) eh_frame: EndianSlice<'data, NativeEndian>,
    pub(crate) header: EhFrameHdr<EndianSlice<'data, NativeEndian>>,
    pub(crate) bases: BaseAddresses,
}

/// Offsets in the file that are mapped as code, at stated addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// From the page of its first byte to its last byte, in the file.
    offsets: Range<u64>,
    /// The address that the first of these is linked for.
    address: u64,
}

impl ModuleInfo {
    /// Reads a file; a file that is none of ELF has no information.
    pub(crate) fn read(path: &Path) -> Self {
        Self::try_read(path).unwrap_or_default()
    }

    fn try_read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        Some(Self::of_elf(&object::File::parse(&cache).ok()?))
    }

    /// The code that the kernel maps into every process (`vdso(7)`), as it is in this one.
    pub(crate) fn of_vdso() -> Self {
        let bytes = read_vdso().unwrap_or_default();
        object::File::parse(&*bytes).map(|elf| Self::of_elf(&elf)).unwrap_or_default()
    }

    fn of_elf<'data, R: ReadRef<'data>>(elf: &object::File<'data, R>) -> Self {
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
            // Mappings begin at whole pages, which may be before the segment.
            let page = segment.align().checked_next_power_of_two().unwrap_or(1);
            let before = offset & (page - 1);
            segment.permissions().executable().then(|| Segment {
                offsets: offset - before..offset.saturating_add(size),
                address: segment.address().wrapping_sub(before),
            })
        });
        Self {
            eh_frame: section(".eh_frame"),
            eh_frame_header: section(".eh_frame_hdr"),
            text: range(".text"),
            got: range(".got"),
            segments: segments.collect(),
        }
    }

    /// Whether there is anything to unwind by.
    pub(crate) fn can_unwind(&self) -> bool {
        self.eh_frame.is_some()
    }

    /// The address that the file states for the offset at which a mapping of code begins.
    ///
    /// Linkers that save space (lld, the default of Rust, and mold) let a segment begin within the
    /// page in which the one before ends, so that both contain this offset: the later one is meant.
    pub(crate) fn stated_address(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().rfind(|segment| segment.offsets.contains(&offset))?;
        Some(segment.address.wrapping_add(offset - segment.offsets.start))
    }

    /// The tables, if they can be searched by address.
    pub(crate) fn tables(&self) -> Option<Tables<'_>> {
        let (frames, header) = (self.eh_frame.as_ref()?, self.eh_frame_header.as_ref()?);
        let start = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
        Some(Tables {
            eh_frame: EndianSlice::new(&frames.data, NativeEndian),
            header: EhFrameHdr::new(&header.data, NativeEndian),
            bases: BaseAddresses::default()
                .set_eh_frame(frames.range.start)
                .set_eh_frame_hdr(header.range.start)
                .set_text(start(&self.text))
                .set_got(start(&self.got)),
        })
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

fn read_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut bytes = vec![0; usize::try_from(hex(end)?.checked_sub(hex(start)?)?).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, hex(start)?).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_can_be_unwound() {
        let info = ModuleInfo::read(&std::env::current_exe().expect("a program has a path"));
        assert!(info.can_unwind());
    }

    #[test]
    fn what_the_kernel_maps_can_be_unwound() {
        let Some(bytes) = read_vdso() else { return eprintln!("this kernel maps no code") };
        assert!(bytes.starts_with(b"\x7fELF"));
        let info = ModuleInfo::of_vdso();
        assert!(info.can_unwind());
        assert_eq!(info.stated_address(0), Some(0));
    }

    #[test]
    fn a_mapping_of_code_begins_in_the_page_where_the_segment_before_ends() {
        // A program linked by lld: its first segment is not code, and ends at 0x8649a4 of the file.
        let code = Segment { offsets: 0x86_4000..0x1d6_7be0, address: 0x86_5000 };
        let more = Segment { offsets: 0x1d6_7000..0x1d7_0000, address: 0x1d6_9000 };
        let info = ModuleInfo { segments: vec![code, more], ..ModuleInfo::default() };
        assert_eq!(info.stated_address(0x86_3000), None);
        assert_eq!(info.stated_address(0x86_4000), Some(0x86_5000));
        assert_eq!(info.stated_address(0x1d6_6000), Some(0x1d6_7000));
        assert_eq!(info.stated_address(0x1d6_7000), Some(0x1d6_9000));
        assert_eq!(info.stated_address(0x1d7_0000), None);
    }

    #[test]
    fn a_file_that_is_no_program_has_no_information() {
        let info = ModuleInfo::read(Path::new("/proc/self/cmdline"));
        assert!(!info.can_unwind());
        assert_eq!(info.stated_address(0), None);
    }
}
