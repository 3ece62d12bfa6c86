//! Where Elsa's own definitions are.

use std::path::PathBuf;

/// The folder of the definitions; none: it is not there. One that is named and not there is an error.
pub(crate) fn elsa_workflows() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("MAINSPRING_ELSA_WORKFLOWS") {
        let named = PathBuf::from(named);
        assert!(
            named.is_dir(),
            "MAINSPRING_ELSA_WORKFLOWS names no folder: {}",
            named.display()
        );
        return Some(named);
    }
    let home = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folders = ["../shared/elsa/workflows", "../../shared/elsa/workflows"];
    folders
        .iter()
        .map(|folder| home.join(folder))
        .find(|folder| folder.is_dir())
}
