//! What a start finds.

use millrace_log::testing::MemoryFs;

#[test]
fn placeholder_is_replaced() {
    let _ = MemoryFs::new();
}
