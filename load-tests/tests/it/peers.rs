//! The drivers of peers and of property columns, which are in Python: their own tests.

use std::path::Path;
use std::process::Command;

#[test]
fn the_drivers_in_python_pass_their_tests() {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches");
    for folder in ["peers/driver", "columns"] {
        let done = Command::new("python3")
            .args(["-B", "-m", "unittest", "discover", "--start-directory"])
            .arg(benches.join(folder))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{folder}: {errors}");
        assert!(!errors.contains("Ran 0 tests"), "{folder}: {errors}");
    }
}
