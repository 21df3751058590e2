//! The functions that replace SQLite's own. Each passes its arguments on unchanged, and adds its
//! return address, which shows which SQLite the caller is bound to.
#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::panic::catch_unwind;

use crate::host::{Host, base_of};
use crate::register;

/// `SQLITE_OK` of `sqlite3.h`.
pub(crate) const OK: c_int = 0;
/// `SQLITE_ERROR` of `sqlite3.h`.
const ERROR: c_int = 1;

/// Up to four arguments in registers, according to the calling conventions of both processors.
type Arguments = [usize; 4];
type Function = unsafe extern "C" fn(usize, usize, usize, usize) -> c_int;

/// A replacement for a SQLite function, and its action.
macro_rules! hook {
    ($name:ident, $inner:ident, $order:expr) => {
        /// Replaces the SQLite function of this name.
        ///
        /// # Safety
        /// The contract is that of SQLite's function.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("mov r8, [rsp]", "jmp {inner}", inner = sym $inner);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("mov x4, x30", "b {inner}", inner = sym $inner);
        }

        unsafe extern "C" fn $inner(
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            caller: *const c_void,
        ) -> c_int {
            let name = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
            // SAFETY: the caller passes the arguments of SQLite's function of this name.
            unsafe { pass(name, [a, b, c, d], caller, $order) }
        }
    };
}

hook!(sqlite3_initialize, initialize, Order::After);
hook!(sqlite3_open, open, Order::Before);
hook!(sqlite3_open16, open16, Order::Before);
hook!(sqlite3_open_v2, open_v2, Order::Before);
hook!(sqlite3_shutdown, shutdown, Order::Never);

/// Time of the extension's registration: opening needs it, and it needs an initialized library.
#[derive(Clone, Copy)]
enum Order {
    Before,
    After,
    /// The library forgets the registration.
    Never,
}

/// Calls the function `name` of the SQLite that `caller` is bound to.
unsafe fn pass(name: &CStr, arguments: Arguments, caller: *const c_void, order: Order) -> c_int {
    let found = catch_unwind(|| {
        let (host, function) = Host::of(caller, name)?;
        match order {
            Order::Before => register::once(&host),
            Order::Never => register::forget(&host),
            Order::After => {}
        }
        let from_outside = host.base != base_of(caller);
        Some((host, function, from_outside))
    });
    let Ok(Some((host, function, from_outside))) = found else { return ERROR };
    // SAFETY: the function has the name that the caller used, and takes at most four arguments of
    // one register each.
    let code = unsafe {
        let function = std::mem::transmute::<*mut c_void, Function>(function.as_ptr());
        function(arguments[0], arguments[1], arguments[2], arguments[3])
    };
    // A library that calls this itself may be in the middle of its initialization.
    if let (Order::After, OK, true) = (order, code, from_outside) {
        // A failed registration is reported there.
        let _told = catch_unwind(|| register::once(&host));
    }
    code
}
