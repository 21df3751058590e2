//! The SQLite library that a caller is bound to. A process may have several: one of the system,
//! others within modules. Each caller's own is asked, as the loader would have bound it.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use libc::{Dl_info, RTLD_LAZY, RTLD_NEXT, RTLD_NOLOAD};

/// A SQLite library.
pub(crate) struct Host {
    /// Where its symbols are looked up.
    scope: *mut c_void,
    /// Where it lies in memory.
    pub(crate) base: usize,
}

impl Host {
    /// The library whose function `name` a caller at this address means, and that function. `None`
    /// where no library has it.
    pub(crate) fn of(caller: *const c_void, name: &CStr) -> Option<(Self, NonNull<c_void>)> {
        let own = base_of(Self::of as *const c_void);
        let opened = object_of(caller).map_or(ptr::null_mut(), |(path, _)| {
            // SAFETY: the name of a loaded object; nothing is loaded anew.
            unsafe { libc::dlopen(path, RTLD_LAZY | RTLD_NOLOAD) }
        });
        // A caller's object and those that it needs; else, as for the program itself, all that the
        // loader has behind this library.
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

    /// Its function of that name.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        symbol(self.scope, name)
    }
}

/// A symbol in a scope.
pub(crate) fn symbol(scope: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a scope that the loader gave, and a name that ends with a zero.
    NonNull::new(unsafe { libc::dlsym(scope, name.as_ptr()) })
}

/// The place of the object that an address lies in, or none.
pub(crate) fn base_of(address: *const c_void) -> usize {
    object_of(address).map_or(0, |(_, base)| base)
}

/// The file name and the place of the object that an address lies in.
pub(crate) fn object_of(address: *const c_void) -> Option<(*const libc::c_char, usize)> {
    let mut info = MaybeUninit::<Dl_info>::zeroed();
    // SAFETY: any address may be asked for; the answer is written to `info`, which all zeros fill.
    let info = unsafe {
        let known = libc::dladdr(address, info.as_mut_ptr()) != 0;
        known.then(|| info.assume_init())?
    };
    Some((info.dli_fname, info.dli_fbase as usize))
}
