//! What a run has read of a file is compared by its content before the run changes it after a wait.

use std::{
    fs::{self, File},
    path::Path,
    time::SystemTime,
};

use serde_json::json;

use super::{answer, came_to, on, parked, put, setup, step};

/// Gives a file another text, or the same anew, and another time of modification or the same.
fn rewrite(path: &Path, text: &str, same_time: bool) {
    let modified = fs::metadata(path).and_then(|now| now.modified()).expect("a time");
    fs::write(path, text).expect("a file");
    let file = File::options().write(true).open(path).expect("the file");
    file.set_modified(if same_time { modified } else { SystemTime::now() }).expect("a time");
}

#[tokio::test]
async fn content_counts_and_not_the_time_where_it_was_read() {
    for (linger, killed) in [("0s", false), ("60s", false), ("60s", true)] {
        let setup = setup(true, linger);
        let files = setup.files();
        let large = "x".repeat((1 << 20) + 1);
        let names = ["forged", "same", "part", "looked", "own"];
        for name in names {
            fs::write(files.join(name), "theirs").unwrap();
        }
        fs::write(files.join("large"), &large).unwrap();
        let mut host = setup.start().await;
        let steps = json!([
            on("read", "forged"),
            on("read", "same"),
            on("size", "same"),
            on("size", "looked"),
            on("open-read", "part"),
            { "do": "take", "bytes": 2 },
            step("close"),
            on("open-read", "large"),
            { "do": "take", "bytes": 2 },
            step("close"),
            on("read", "own"),
            put("append", "own", ", mine"),
            step("ask"),
            put("append", "forged", "!"),
            put("append", "same", "!"),
            put("append", "part", "!"),
            put("append", "looked", "!"),
            put("append", "large", "!"),
            put("append", "own", "!"),
            on("read", "forged"),
            put("append", "forged", "!"),
        ]);
        let id = host.client().task("steps", json!({ "steps": steps })).await;
        host.client().status(&id, "input_required").await;
        if linger == "0s" {
            parked(&host, &id).await;
        }
        if killed {
            host.kill();
        }
        rewrite(&files.join("forged"), "others", true);
        rewrite(&files.join("same"), "theirs", false);
        rewrite(&files.join("part"), "thEirs", true);
        rewrite(&files.join("looked"), "theirs", false);
        rewrite(&files.join("large"), &large, false);
        rewrite(&files.join("own"), "theirs, mine", false);
        if killed {
            host = host.restart().await;
        }
        answer(&host.client(), &id).await;
        let task = host.client().status(&id, "completed").await;
        let busy = "error: ResourceBusy";
        assert_eq!(
            came_to(&task)[13..],
            [busy, "ok", busy, busy, busy, "ok", "others", "ok"].map(str::to_owned),
            "{linger} {killed}"
        );
        assert_eq!(fs::read_to_string(files.join("own")).unwrap(), "theirs, mine!");
    }
}
