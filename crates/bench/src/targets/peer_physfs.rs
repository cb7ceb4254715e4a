//! The `peer:physfs-` targets: the C library PhysicsFS over a directory and over a zip.
//!
//! The library has one search path for the whole process, so only one [`PhysFs`] exists at a
//! time. Symbolic links are permitted, as they are everywhere else here; forbidding them, its
//! default, costs it a further system call for each component of a path.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::contestant::{Contestant, Listing};

#[repr(C)]
struct Stat {
    size: i64,
    modified: i64,
    created: i64,
    accessed: i64,
    kind: c_int,
    read_only: c_int,
}

const REGULAR: c_int = 0;
const CONTINUE: c_int = 1;
const FAILED: c_int = -1;

type Visit = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int;

#[link(name = "physfs")]
unsafe extern "C" {
    fn PHYSFS_init(program: *const c_char) -> c_int;
    fn PHYSFS_deinit() -> c_int;
    fn PHYSFS_permitSymbolicLinks(allow: c_int);
    fn PHYSFS_mount(what: *const c_char, at: *const c_char, append: c_int) -> c_int;
    fn PHYSFS_exists(name: *const c_char) -> c_int;
    fn PHYSFS_openRead(name: *const c_char) -> *mut c_void;
    fn PHYSFS_close(file: *mut c_void) -> c_int;
    fn PHYSFS_seek(file: *mut c_void, position: u64) -> c_int;
    fn PHYSFS_readBytes(file: *mut c_void, buffer: *mut c_void, len: u64) -> i64;
    fn PHYSFS_stat(name: *const c_char, stat: *mut Stat) -> c_int;
    fn PHYSFS_enumerate(dir: *const c_char, visit: Visit, data: *mut c_void) -> c_int;
    fn PHYSFS_getLastErrorCode() -> c_int;
    fn PHYSFS_getErrorByCode(code: c_int) -> *const c_char;
}

static IN_USE: Mutex<()> = Mutex::new(());

/// The library, set up with one directory or zip.
pub(crate) struct PhysFs {
    // Held as long as the library is set up.
    _alone: MutexGuard<'static, ()>,
}

impl PhysFs {
    pub(crate) fn new(mounted: &Path) -> io::Result<Self> {
        let alone = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let mounted = super::c_string(mounted);
        // SAFETY: the lock makes this the only user; a null program name is allowed where
        // there is a /proc.
        answer(unsafe { PHYSFS_init(ptr::null()) })?;
        // From here on, dropping it takes the library down.
        let physfs = PhysFs { _alone: alone };
        // SAFETY: the library is set up.
        unsafe { PHYSFS_permitSymbolicLinks(1) };
        // SAFETY: the library is set up, and the arguments are C strings that live during the
        // call; null is the root.
        answer(unsafe { PHYSFS_mount(mounted.as_ptr(), ptr::null(), 1) })?;
        Ok(physfs)
    }
}

impl Drop for PhysFs {
    fn drop(&mut self) {
        // SAFETY: the library is set up and nobody else uses it; readers do not outlive the
        // workloads, which borrow this value.
        unsafe { PHYSFS_deinit() };
    }
}

fn last_error() -> io::Error {
    // SAFETY: the code is one that the library just gave; its texts are static C strings.
    let text = unsafe {
        let text = PHYSFS_getErrorByCode(PHYSFS_getLastErrorCode());
        if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }
    };
    io::Error::other(text.to_string_lossy().into_owned())
}

fn answer(code: c_int) -> io::Result<()> {
    if code == 0 { Err(last_error()) } else { Ok(()) }
}

fn stat(name: &CStr) -> io::Result<Stat> {
    let mut stat = Stat { size: 0, modified: 0, created: 0, accessed: 0, kind: 0, read_only: 0 };
    // SAFETY: the name is a C string and the record has the layout that the library fills.
    answer(unsafe { PHYSFS_stat(name.as_ptr(), &mut stat) })?;
    Ok(stat)
}

/// An open file, owned by this value alone.
pub(crate) struct Reader(NonNull<c_void>);

impl Reader {
    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        // SAFETY: the file is open as long as `self` lives, and `buf` has room for what is
        // asked for.
        let count =
            unsafe { PHYSFS_readBytes(self.0.as_ptr(), buf.as_mut_ptr().cast(), buf.len() as u64) };
        match count {
            -1 => Err(last_error()),
            count if count as u64 == buf.len() as u64 => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: the file is open until here, and nobody uses it again.
        unsafe { PHYSFS_close(self.0.as_ptr()) };
    }
}

impl Contestant for PhysFs {
    type Name = CString;
    type Reader = Reader;

    fn name(&self, path: &str) -> CString {
        super::c_string(Path::new(path))
    }

    fn open(&self, name: &CString) -> io::Result<Reader> {
        // SAFETY: the library is set up, and the name is a C string.
        let file = unsafe { PHYSFS_openRead(name.as_ptr()) };
        NonNull::new(file).map(Reader).ok_or_else(last_error)
    }

    fn read_next(reader: &mut Reader, buf: &mut [u8], _: u64) -> io::Result<()> {
        reader.read_exact(buf)
    }

    fn read_at(reader: &mut Reader, buf: &mut [u8], offset: u64) -> io::Result<()> {
        // SAFETY: the file is open as long as `reader` lives.
        answer(unsafe { PHYSFS_seek(reader.0.as_ptr(), offset) })?;
        reader.read_exact(buf)
    }

    fn stat(&self, name: &CString) -> io::Result<u64> {
        Ok(stat(name)?.size as u64)
    }

    fn exists(&self, name: &CString) -> io::Result<bool> {
        // SAFETY: the library is set up, and the name is a C string.
        Ok(unsafe { PHYSFS_exists(name.as_ptr()) } != 0)
    }

    fn list(&self, name: &CString) -> io::Result<Listing> {
        let mut visited = Visited { listing: Listing::default(), path: Vec::new() };
        // SAFETY: the library is set up, the name is a C string, and `visit` gets back the
        // pointer to `visited`, which nobody else uses during the call.
        answer(unsafe {
            PHYSFS_enumerate(name.as_ptr(), visit, ptr::from_mut(&mut visited).cast())
        })?;
        Ok(visited.listing)
    }
}

struct Visited {
    listing: Listing,
    path: Vec<u8>,
}

/// Takes one name; its type is a question of its own in this library.
unsafe extern "C" fn visit(data: *mut c_void, dir: *const c_char, name: *const c_char) -> c_int {
    // SAFETY: `data` is the `Visited` that `list` lent, and the names are C strings that live
    // during this call.
    let (visited, dir, name) =
        unsafe { (&mut *data.cast::<Visited>(), CStr::from_ptr(dir), CStr::from_ptr(name)) };
    visited.path.clear();
    visited.path.extend_from_slice(dir.to_bytes());
    visited.path.push(b'/');
    visited.path.extend_from_slice(name.to_bytes_with_nul());
    let Ok(path) = CStr::from_bytes_with_nul(&visited.path) else { return FAILED };
    match stat(path) {
        Ok(stat) => {
            visited.listing.add(stat.kind == REGULAR, name.to_bytes());
            CONTINUE
        }
        Err(_) => FAILED,
    }
}
