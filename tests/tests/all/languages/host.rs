//! One host for all cases of a language, with its two plugins under each policy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    sync::{Arc, LazyLock, Weak},
};

use layby_tests::{Host, Setup, guests};
use tokio::sync::Mutex;

use super::cases::{TABLE, plugin_of};

/// Rows of the tables that are large enough to be promoted, and of the one that is never read to its end.
const LARGE: usize = 20_000;
const HUGE: usize = 10_000_000;

/// The hosts that tests hold at this moment. Tests come in the order of their names, so a language's mostly
/// share one; a host that nobody holds any more is killed.
static HOSTS: LazyLock<Mutex<BTreeMap<String, Weak<Host>>>> = LazyLock::new(Mutex::default);

/// The host of a language.
pub(super) async fn of(language: &str) -> Arc<Host> {
    // Held while it starts: the others want the same one, or one that needs as much of the machine.
    let mut hosts = HOSTS.lock().await;
    if let Some(host) = hosts.get(language).and_then(Weak::upgrade) {
        return host;
    }
    let host = Arc::new(start_all(language).await);
    hosts.insert(language.to_owned(), Arc::downgrade(&host));
    host
}

/// Starts a host with plugins of a language. Other hosts of the language had those compiled, or it is done here for
/// them.
pub(crate) async fn start(language: &str, setup: Setup) -> Host {
    // One at a time, so that a component is not compiled twice at once.
    static TURN: Mutex<()> = Mutex::const_new(());
    let _turn = TURN.lock().await;
    // The compiled forms of the last time, which are found by the component's digest.
    let cache = guests::target().join("tmp/languages").join(language);
    // One after another, so that a component is compiled once for all of its policies.
    let host = setup.cache(&cache).config("[catalog]\ncompile-jobs = 1").start().await;
    host.keep_cache(&cache);
    host
}

async fn start_all(language: &str) -> Host {
    let setup = Setup::new().arg("--log").arg("info");
    make_tables(&setup.root().join("tables"));
    let pairs: BTreeSet<_> =
        TABLE.cases.iter().map(|case| (plugin_of(&case.tool), case.policy.as_str())).collect();
    let setup = pairs.into_iter().fold(setup, |setup, (plugin, policy)| {
        let name = format!("{language}/{plugin}");
        let text = &TABLE.policies[policy];
        setup.file(
            &format!("{policy}-{plugin}"),
            &guests::component(&name),
            &format!("{}\n{}", text, guests::policy(&name)),
        )
    });
    let host = start(language, setup).await;
    let served = host.client().tools().await;
    assert!(!served.is_empty(), "{language}: nothing is served; log:\n{}", host.log());
    host
}

/// What the folder `/tables` has: the files of `tests/languages/tables`, and larger ones.
fn make_tables(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/languages/tables");
    for entry in fs::read_dir(small).expect("the small tables are there") {
        let entry = entry.expect("the small tables can be listed");
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("a table can be copied");
    }
    let mut large = "id,team,share\n".to_owned();
    let mut clubs = "team,half\n".to_owned();
    for n in 1..=LARGE {
        // Writing to a string cannot fail.
        let _ = writeln!(large, "{n},team{},{}", n % 7, n as f64 / 4.0);
        let _ = writeln!(clubs, "team{},{:.1}", n % 7, (n % 2) as f64 / 2.0);
    }
    let medium = (1..=2500).fold("n\n".to_owned(), |text, n| text + &n.to_string() + "\n");
    let chunk: String = (0..1000).map(|n| format!("{n},ab\n")).collect();
    let huge = "n,word\n".to_owned() + &chunk.repeat(HUGE / 1000);
    let late = large.clone() + "1,2\n";
    for (name, text) in
        [("large", large), ("clubs", clubs), ("late", late), ("medium", medium), ("huge", huge)]
    {
        fs::write(folder.join(name).with_extension("csv"), text).expect("a table can be written");
    }
}
