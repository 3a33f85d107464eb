//! The C interface of the engine library, `chdb.h` of chdb-core 26.7, made safe.
//!
//! Invariants that the `unsafe` code relies on:
//!
//! * A connection runs one statement at a time. [`Connection`] is `Send` but not `Sync` and every
//!   statement takes `&mut self`; an open [`InsertStream`] borrows its connection.
//! * Every handle the engine returns is owned by one Rust value, whose `Drop` frees it once.
//! * Buffers the engine returns are copied before their handle is freed.
//! * The library is never unloaded: its threads outlive any handle.
#![allow(unsafe_code, reason = "the boundary to the engine's C interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::exception::Exception;

type ConnectionHandle = *mut c_void;
type ResultHandle = *mut c_void;
type StreamHandle = *mut c_void;
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
    chdb_connect: fn(c_int, *mut *mut c_char) -> *mut ConnectionHandle;
    chdb_close_conn: fn(*mut ConnectionHandle);
    chdb_query_with_params_n: fn(ConnectionHandle, Text, usize, Text, usize, *const Text, *const usize, *const Text, *const usize, usize) -> ResultHandle;
    chdb_destroy_query_result: fn(ResultHandle);
    chdb_stream_insert_with_params_n: fn(ConnectionHandle, Text, usize, Text, usize, *const Text, *const usize, *const Text, *const usize, usize) -> StreamHandle;
    chdb_stream_append: fn(StreamHandle, *const c_void, usize) -> c_int;
    chdb_stream_done: fn(StreamHandle) -> ResultHandle;
    chdb_stream_cancel_insert: fn(StreamHandle);
    chdb_stream_insert_error: fn(StreamHandle) -> Text;
    chdb_destroy_insert_stream: fn(StreamHandle);
    chdb_result_buffer: fn(ResultHandle) -> *mut c_char;
    chdb_result_length: fn(ResultHandle) -> usize;
    chdb_result_error: fn(ResultHandle) -> Text;
    chdb_result_elapsed: fn(ResultHandle) -> f64;
    chdb_result_rows_read: fn(ResultHandle) -> u64;
    chdb_result_bytes_read: fn(ResultHandle) -> u64;
    chdb_result_storage_rows_read: fn(ResultHandle) -> u64;
    chdb_result_storage_bytes_read: fn(ResultHandle) -> u64;
    chdb_result_rows_written: fn(ResultHandle) -> u64;
    chdb_result_bytes_written: fn(ResultHandle) -> u64;
    chdb_classify_query_n: fn(ConnectionHandle, Text, usize, Text, usize, *mut Analysis) -> c_int;
    chdb_shutdown: fn() -> c_int;
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

/// The C struct `chdb_query_analysis_v1`.
#[repr(C)]
struct Analysis {
    struct_size: u32,
    statement_count: u32,
    flags: u32,
    query_class: u32,
}

/// Result of parsing a text with the engine's own parser.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Analyzed {
    /// Zero when it does not parse.
    pub(crate) statement_count: u32,
    /// SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS or CHECK: returns rows and changes nothing.
    pub(crate) reads_only: bool,
}

/// Figures of a statement for `X-ClickHouse-Summary`.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) read_rows: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_rows: u64,
    pub(crate) written_bytes: u64,
    pub(crate) result_rows: u64,
    pub(crate) result_bytes: u64,
    pub(crate) elapsed_ns: u64,
}

/// Output of a statement that has ended: the bytes returned in memory, and its figures.
#[derive(Debug)]
pub(crate) struct StatementOutput {
    pub(crate) data: Vec<u8>,
    pub(crate) summary: Summary,
}

/// Values for `{name:Type}` in a statement, bound by the engine and never written into the SQL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(pub(crate) Vec<(String, String)>);

/// Parallel arrays for `chdb.h` that point into the [`Parameters`] they were made from.
struct ParameterArrays {
    names: Vec<Text>,
    name_lengths: Vec<usize>,
    values: Vec<Text>,
    value_lengths: Vec<usize>,
}

impl ParameterArrays {
    fn new(parameters: &Parameters) -> Self {
        let list = &parameters.0;
        Self {
            names: list.iter().map(|(name, _)| name.as_ptr().cast()).collect(),
            name_lengths: list.iter().map(|(name, _)| name.len()).collect(),
            values: list
                .iter()
                .map(|(_, value)| value.as_ptr().cast())
                .collect(),
            value_lengths: list.iter().map(|(_, value)| value.len()).collect(),
        }
    }
}

/// The loaded library.
pub(crate) struct Api {
    symbols: Symbols,
}

// === impl Api ===

impl Api {
    /// Loads the library and keeps the engine from installing signal handlers: ours stay.
    pub(crate) fn load(path: &Path) -> Result<Arc<Self>, LoadError> {
        // SAFETY: loading runs the library's initialisers. The caller names the pinned engine,
        // which starts nothing before `chdb_connect`.
        let library = unsafe { libloading::Library::new(path) }.map_err(LoadError::Open)?;
        let symbols = Symbols::load(&library).map_err(LoadError::Symbol)?;
        // Its threads run until the process ends, so its code must stay.
        std::mem::forget(library);
        // SAFETY: no engine runs yet; the function only sets a flag.
        unsafe { (symbols.chdb_set_signal_handlers_enabled)(0) };
        Ok(Arc::new(Self { symbols }))
    }

    /// Opens a connection; the first one starts the engine. Returns `None` if refused; the engine
    /// wrote the reason to stderr.
    pub(crate) fn connect(self: &Arc<Self>, arguments: &[CString]) -> Option<Connection> {
        let mut pointers: Vec<*mut c_char> = arguments
            .iter()
            .map(|text| text.as_ptr().cast_mut())
            .collect();
        let count = c_int::try_from(pointers.len()).ok()?;
        // SAFETY: `pointers` holds `count` NUL-terminated texts that outlive the call; the engine
        // copies what it keeps and writes to none of them.
        let handle = unsafe { (self.symbols.chdb_connect)(count, pointers.as_mut_ptr()) };
        (!handle.is_null()).then(|| Connection {
            api: Arc::clone(self),
            handle,
        })
    }

    /// Stops the engine and joins its threads. Returns false while a connection is open.
    pub(crate) fn shutdown(&self) -> bool {
        // SAFETY: takes nothing; refuses by itself while connections are open.
        unsafe { (self.symbols.chdb_shutdown)() == 0 }
    }

    /// Takes a result's bytes and figures, or its error, and frees the handle.
    fn finish(&self, result: ResultHandle) -> Result<StatementOutput, Exception> {
        if result.is_null() {
            return Err(Exception::from_engine("the engine returned no result"));
        }
        let symbols = &self.symbols;
        // SAFETY: `result` is a live result handle that is freed exactly once, at the end of
        // this block; the error text and the buffer belong to it and are copied before that.
        unsafe {
            let error = (symbols.chdb_result_error)(result);
            let outcome = if error.is_null() {
                Ok(StatementOutput {
                    data: self.copy_data(result),
                    summary: self.summary(result),
                })
            } else {
                Err(Exception::from_engine(
                    &CStr::from_ptr(error).to_string_lossy(),
                ))
            };
            (symbols.chdb_destroy_query_result)(result);
            outcome
        }
    }

    /// # Safety
    /// `result` is a live result handle without an error.
    unsafe fn copy_data(&self, result: ResultHandle) -> Vec<u8> {
        // SAFETY: the engine promises `length` readable bytes at `buffer` while the handle lives.
        unsafe {
            let length = (self.symbols.chdb_result_length)(result);
            let buffer = (self.symbols.chdb_result_buffer)(result);
            if length == 0 || buffer.is_null() {
                return Vec::new();
            }
            std::slice::from_raw_parts(buffer.cast::<u8>(), length).to_vec()
        }
    }

    /// # Safety
    /// `result` is a live result handle.
    unsafe fn summary(&self, result: ResultHandle) -> Summary {
        let symbols = &self.symbols;
        // SAFETY: plain getters on a live handle.
        unsafe {
            let elapsed_seconds = (symbols.chdb_result_elapsed)(result);
            Summary {
                read_rows: (symbols.chdb_result_storage_rows_read)(result),
                read_bytes: (symbols.chdb_result_storage_bytes_read)(result),
                written_rows: (symbols.chdb_result_rows_written)(result),
                written_bytes: (symbols.chdb_result_bytes_written)(result),
                result_rows: (symbols.chdb_result_rows_read)(result),
                result_bytes: (symbols.chdb_result_bytes_read)(result),
                elapsed_ns: (elapsed_seconds * 1e9) as u64,
            }
        }
    }
}

/// A connection: a session of its own, with its settings, current database and temporary tables.
pub(crate) struct Connection {
    api: Arc<Api>,
    handle: *mut ConnectionHandle,
}

// SAFETY: the engine ties a connection to no thread; it attaches the calling thread for each call.
// `&mut self` on every statement keeps it to one thread at a time.
unsafe impl Send for Connection {}

// === impl Connection ===

impl Connection {
    /// Runs one statement to its end; returns any output that it does not send elsewhere.
    pub(crate) fn query(
        &mut self,
        sql: &[u8],
        format: &str,
        parameters: &Parameters,
    ) -> Result<StatementOutput, Exception> {
        let arrays = ParameterArrays::new(parameters);
        // SAFETY: all pointers are to live memory of the given lengths; the engine copies it.
        let result = unsafe {
            (self.api.symbols.chdb_query_with_params_n)(
                *self.handle,
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
                arrays.names.as_ptr(),
                arrays.name_lengths.as_ptr(),
                arrays.values.as_ptr(),
                arrays.value_lengths.as_ptr(),
                arrays.names.len(),
            )
        };
        self.api.finish(result)
    }

    /// Parses a text without running it.
    pub(crate) fn analyze(&mut self, sql: &[u8]) -> Analyzed {
        let mut analysis = Analysis {
            struct_size: size_of::<Analysis>() as u32,
            statement_count: 0,
            flags: 0,
            query_class: 4,
        };
        // SAFETY: `sql` is live for its length, the database may be null, `analysis` has its size.
        unsafe {
            (self.api.symbols.chdb_classify_query_n)(
                *self.handle,
                sql.as_ptr().cast(),
                sql.len(),
                ptr::null(),
                0,
                &raw mut analysis,
            )
        };
        Analyzed {
            statement_count: analysis.statement_count,
            reads_only: analysis.query_class == 0,
        }
    }

    /// Begins an INSERT whose rows are appended in chunks. `head` is the statement without its
    /// FORMAT clause.
    pub(crate) fn insert(
        &mut self,
        head: &[u8],
        format: &str,
        parameters: &Parameters,
    ) -> Result<InsertStream<'_>, Exception> {
        let arrays = ParameterArrays::new(parameters);
        // SAFETY: as in `query`.
        let handle = unsafe {
            (self.api.symbols.chdb_stream_insert_with_params_n)(
                *self.handle,
                head.as_ptr().cast(),
                head.len(),
                format.as_ptr().cast(),
                format.len(),
                arrays.names.as_ptr(),
                arrays.name_lengths.as_ptr(),
                arrays.values.as_ptr(),
                arrays.value_lengths.as_ptr(),
                arrays.names.len(),
            )
        };
        let stream = InsertStream {
            connection: self,
            handle,
        };
        match stream.error() {
            None => Ok(stream),
            Some(exception) => Err(exception),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: `handle` came from `chdb_connect`, is closed here only, and no stream borrows it.
        unsafe { (self.api.symbols.chdb_close_conn)(self.handle) };
    }
}

/// An INSERT in progress. Dropping it before [`InsertStream::finish`] cancels it: a block that the
/// engine has not yet received completely is not inserted.
pub(crate) struct InsertStream<'a> {
    connection: &'a mut Connection,
    handle: StreamHandle,
}

// === impl InsertStream ===

impl InsertStream<'_> {
    /// Gives the engine the next bytes; waits while its queue is full. Returns false if the insert
    /// failed; `finish` returns the reason.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: the stream is live and `bytes` readable for its length; the engine copies them.
        unsafe {
            (self.connection.api.symbols.chdb_stream_append)(
                self.handle,
                bytes.as_ptr().cast(),
                bytes.len(),
            ) == 0
        }
    }

    /// Ends the data and waits until the rows are in the table.
    pub(crate) fn finish(self) -> Result<StatementOutput, Exception> {
        // SAFETY: the stream is live; it stays a valid (finalised) handle for `drop`.
        let result = unsafe { (self.connection.api.symbols.chdb_stream_done)(self.handle) };
        self.connection.api.finish(result)
    }

    fn error(&self) -> Option<Exception> {
        // SAFETY: the stream is live; the text belongs to it and is copied.
        unsafe {
            let error = (self.connection.api.symbols.chdb_stream_insert_error)(self.handle);
            (!error.is_null())
                .then(|| Exception::from_engine(&CStr::from_ptr(error).to_string_lossy()))
        }
    }
}

impl Drop for InsertStream<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is destroyed here only. Cancelling a finished stream does nothing.
        unsafe {
            (self.connection.api.symbols.chdb_stream_cancel_insert)(self.handle);
            (self.connection.api.symbols.chdb_destroy_insert_stream)(self.handle);
        }
    }
}
