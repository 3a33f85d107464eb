//! Sources of plugins, read in a process of their own: this program, started once for each source.
//!
//! The parser is C code that customers' bytes can make overflow its stack, take gigabytes or go on for
//! seconds. So whatever it does ends a child that has limits, no environment and no files, and is
//! answered with 400.
//!
//! | Module | Holds |
//! |---|---|
//! | `child` | the process: limits, then a source from standard input, JSON to standard output |
//! | `parent` | how it is started, waited for and killed |
//! | `turns` | how many there may be at a time |

mod child;
mod parent;
mod turns;

pub use child::{child, is_asked_for};
pub use parent::SourceProcesses;

/// The argument that makes this program the child. No command of the command line: it has to be
/// known before any setting is read.
const ARGUMENT: &str = "plugin-source";
/// The status with which the child says that the fault is not the source's (`EX_SOFTWARE` of
/// sysexits.h).
const EXIT_OWN_FAULT: u8 = 70;
