//! Compiled code that hosts share, so that a test compiles nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use crate::{
    Host, Setup, guests,
    host::{SETTLED, all_settled},
    setup::put,
};

/// A data folder with the compiled code of all guests: a test copies it and compiles nothing.
pub(crate) static WARM: LazyLock<PathBuf> = LazyLock::new(|| {
    let warm = guests::target().join("tmp/warm");
    let mut setup = Setup::new().cold();
    for name in ["probe", "chameleon", "echo", "conformance", "tidy", "library"] {
        put(&setup.plugins(), name, &guests::component(name), "");
    }
    setup = setup.config("[catalog]\ncompile-jobs = 2");
    if warm.join("keys").exists() {
        copy(&warm, &setup.data());
    }
    let data = setup.data();
    let host = Host::spawn(Arc::new(setup));
    let ready = format!("{}/ready", host.base());
    // A thread, because whoever comes first is inside a runtime already.
    let waited = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(all_settled(&ready, 6, SETTLED));
    });
    waited.join().expect("the guests compile");
    let kept = keep(&data, &warm);
    drop(host);
    kept
});

/// Copies compiled code to `folder`; the folder that has it now.
pub(crate) fn keep(data: &Path, folder: &Path) -> PathBuf {
    let fresh = folder.with_extension(std::process::id().to_string());
    copy(data, &fresh);
    // Another test process may do the same at this moment: either's cache is good.
    let _ = fs::remove_dir_all(folder);
    match fs::rename(&fresh, folder) {
        Ok(()) => folder.to_owned(),
        Err(_) => fresh,
    }
}

/// Copies compiled code and its key, and nothing else of a data folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    let make =
        |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path).expect("a folder");
    for folder in ["compiled", "keys"] {
        make(&to.join(folder));
        for entry in fs::read_dir(from.join(folder)).expect("the cache can be listed") {
            let path = entry.expect("the cache can be listed").path();
            let name = path.file_name().expect("a file has a name");
            if folder == "compiled" || name == "compile.key" {
                fs::copy(&path, to.join(folder).join(name)).expect("the cache can be copied");
            }
        }
    }
}
