//! The C interface of the engine library, `chdb.h` of chdb-core 26.7, made safe.
//!
//! Invariants that the `unsafe` code relies on:
//!
//! * The arguments of a command line live until its call returns, and the engine does not write to
//!   them; it may reorder the array of pointers, which is its own.
//! * A result is never freed: the process ends after its reason was read.
//! * The library is never unloaded: its threads run until the process ends.
#![allow(unsafe_code, reason = "the boundary to the engine's C interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

type ResultHandle = *mut c_void;
type Text = *const c_char;

/// Declares the table of engine functions and its loader, so that each name is written once.
macro_rules! symbols {
    ($($name:ident: fn($($argument:ty),*) $(-> $output:ty)?;)*) => {
        struct Symbols { $($name: unsafe extern "C" fn($($argument),*) $(-> $output)?,)* }

        impl Symbols {
            fn load(library: &libloading::Library) -> Result<Self, MissingSymbol> {
                Ok(Self { $($name: {
                    // SAFETY: the types below are those of `chdb.h` in the pinned version.
                    *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                        .map_err(|_| MissingSymbol(stringify!($name)))?
                },)* })
            }
        }
    };
}

symbols! {
    chdb_set_signal_handlers_enabled: fn(c_int);
    chdb_query_cmdline: fn(c_int, *mut *mut c_char) -> ResultHandle;
    chdb_result_error: fn(ResultHandle) -> Text;
}

unsafe extern "C" {
    /// Ends the process without running destructors.
    fn _exit(status: c_int) -> !;
}

/// A function that the library lacks: it is another version.
#[derive(Debug)]
pub(crate) struct MissingSymbol(pub(crate) &'static str);

/// Reason a library could not be loaded.
#[derive(Debug)]
pub(crate) enum LoadError {
    Open(libloading::Error),
    Symbol(MissingSymbol),
}

/// The loaded library.
pub(crate) struct Api {
    symbols: Symbols,
}

// === impl Api ===

impl Api {
    /// Loads the library and keeps the engine from installing signal handlers: ours stay.
    pub(crate) fn load(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: loading runs the library's initialisers. The caller names the pinned engine,
        // which starts nothing before its command line runs.
        let library = unsafe { libloading::Library::new(path) }.map_err(LoadError::Open)?;
        let symbols = Symbols::load(&library).map_err(LoadError::Symbol)?;
        // Its threads run until the process ends, so its code must stay.
        std::mem::forget(library);
        // SAFETY: no engine runs yet; the function only sets a flag.
        unsafe { (symbols.chdb_set_signal_handlers_enabled)(0) };
        Ok(Self { symbols })
    }

    /// Runs the engine's command line to its end. Returns the engine's reason, if it gives one.
    pub(crate) fn run(&self, arguments: &[CString]) -> Option<String> {
        let mut pointers: Vec<*mut c_char> = arguments
            .iter()
            .map(|argument| argument.as_ptr().cast_mut())
            .collect();
        let count = c_int::try_from(pointers.len()).ok()?;
        pointers.push(ptr::null_mut());
        // SAFETY: `pointers` has `count` texts, each ended by a zero byte, and a null pointer after
        // them; all live until the call returns.
        let result = unsafe { (self.symbols.chdb_query_cmdline)(count, pointers.as_mut_ptr()) };
        if result.is_null() {
            return None;
        }
        // SAFETY: the result is the one that was returned, and is not freed.
        let reason = unsafe { (self.symbols.chdb_result_error)(result) };
        if reason.is_null() {
            return None;
        }
        // SAFETY: the text ends with a zero byte and lives as long as its result.
        let reason = unsafe { CStr::from_ptr(reason) };
        Some(reason.to_string_lossy().into_owned())
    }
}

/// Ends the process at once, with success. The library's destructors would run beside its threads;
/// what was acknowledged is on the disk.
pub(crate) fn exit_successfully() -> ! {
    // SAFETY: the function takes a number, and does not return.
    unsafe { _exit(0) }
}
