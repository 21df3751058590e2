//! The SQLite library that a caller is bound to. A process may have several: the system's, and
//! others within modules. Each caller's own library is used, as the loader would have bound it.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use libc::{Dl_info, RTLD_LAZY, RTLD_NEXT, RTLD_NOLOAD};

/// A SQLite library.
pub(crate) struct Host {
    /// The scope for its symbols.
    scope: *mut c_void,
    /// Its address in memory.
    pub(crate) base: usize,
}

impl Host {
    /// Returns the library whose function `name` a caller at this address uses, and that function.
    /// `None` if no library has it.
    pub(crate) fn of(caller: *const c_void, name: &CStr) -> Option<(Self, NonNull<c_void>)> {
        let own = base_of(Self::of as *const c_void);
        let opened = object_of(caller).map_or(ptr::null_mut(), |(path, _)| {
            // SAFETY: the name of a loaded object; nothing is loaded again.
            unsafe { libc::dlopen(path, RTLD_LAZY | RTLD_NOLOAD) }
        });
        // A caller's object and its dependencies; otherwise, as for the program itself, everything
        // that the loader has after this library.
        let scopes = [opened, RTLD_NEXT].into_iter().filter(|scope| !scope.is_null());
        let found = scopes.into_iter().find_map(|scope| {
            let function = symbol(scope, name)?;
            let base = base_of(function.as_ptr());
            (base != own).then_some((Self { scope, base }, function))
        });
        // The library stays loaded: its caller is running.
        if !opened.is_null() {
            // SAFETY: opened above, once.
            unsafe { libc::dlclose(opened) };
        }
        found
    }

    /// Returns its function of that name.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        symbol(self.scope, name)
    }
}

/// Looks up a symbol in a scope.
pub(crate) fn symbol(scope: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a scope from the loader, and a NUL-terminated name.
    NonNull::new(unsafe { libc::dlsym(scope, name.as_ptr()) })
}

/// Returns the base of the object that contains an address, or 0.
pub(crate) fn base_of(address: *const c_void) -> usize {
    object_of(address).map_or(0, |(_, base)| base)
}

/// Returns the file name and the base of the object that contains an address.
pub(crate) fn object_of(address: *const c_void) -> Option<(*const libc::c_char, usize)> {
    let mut info = MaybeUninit::<Dl_info>::zeroed();
    // SAFETY: any address is allowed; the result is written to `info`, for which all zeros are
    // valid.
    let info = unsafe {
        let known = libc::dladdr(address, info.as_mut_ptr()) != 0;
        known.then(|| info.assume_init())?
    };
    Some((info.dli_fname, info.dli_fbase as usize))
}
