//! Parses sources of plugins in a child process: this program, started once for each source.
//!
//! The parser is C code that customers' bytes can make overflow its stack, take gigabytes or go on
//! for seconds. Its failure ends only a child that has limits, no environment and no files, and is
//! answered with 400.
//!
//! | Module | Holds |
//! |---|---|
//! | `child` | the process: limits, then a source from standard input, JSON to standard output |
//! | `parent` | starts the process, waits for it and kills it |
//! | `limiter` | limits of concurrent processes |

mod child;
mod limiter;
mod parent;

pub use child::{child, is_asked_for};
pub use parent::SourceProcesses;

/// Argument that makes this program the child. It is no command of the command line, as it has to
/// be recognised before any setting is read.
const ARGUMENT: &str = "plugin-source";
/// Exit status of a child whose failure is not the source's fault (`EX_SOFTWARE` of sysexits.h).
const EXIT_OWN_FAULT: u8 = 70;
