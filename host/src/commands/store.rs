//! The database of a data folder, opened beside a server that may be running.

use std::{path::Path, sync::Arc};

use super::exit::Failure;
use crate::{
    config::Config,
    store::{self, SqliteStore, Store},
};

/// Opens the configured store. Makes no file: a folder without a database is refused,
/// so that a mistyped path does not look like a host without tasks.
///
/// # Errors
/// `data_folder_missing`, `store_…`.
pub(crate) async fn open(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    let data = &config.serve.data;
    if config.store.url.is_empty() && !has_database(data) {
        let text = format!(
            "{}: no data folder of a Layby host. Name the folder that `layby serve --data` uses with --data",
            data.display()
        );
        return Err(Failure::unreachable("data_folder_missing", text));
    }
    Ok(store::open(data, &config.store).await?)
}

fn has_database(data: &Path) -> bool {
    data.join(SqliteStore::FILE).is_file()
}

/// Runs a command's future on a small runtime of its own.
///
/// # Errors
/// Those of `command`; no runtime can be started.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(command);
    runtime.shutdown_background();
    ended
}
