//! Taking the disk away.
