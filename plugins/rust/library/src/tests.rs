use std::{fs, path::PathBuf};

use layby_plugin::{
    testing::Host,
    types::{Content, PromptMessage, ResourceContents},
};

use super::*;

/// A library of its own for each test.
fn library(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("layby-library-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("birds/.hidden")).unwrap();
    fs::write(root.join("birds/owl.txt"), "The owl hunts at night.\n\nOwls turn their heads.\n").unwrap();
    fs::write(root.join("birds/.hidden/x.txt"), "owl owl owl").unwrap();
    fs::write(root.join("night.md"), "# Night\n\nThe night is dark.\nStars come out at night.\n").unwrap();
    fs::write(root.join("picture"), b"\x89PNG\0\0").unwrap();
    fs::write(root.join("latin"), b"caf\xe9").unwrap();
    root
}

fn built(root: &Path, host: &Host) -> Result<(Index, Indexed)> {
    host.run(|call| index::build(root, walk::walk(root, "", call)?, call))
}

fn find(root: &Path, index: &Index, query: &str) -> Found {
    let args = Query { query: query.to_owned(), limit: 5 };
    Host::new().run(|call| search(root, index, &args, false, call)).unwrap()
}

#[test]
fn finds_file_and_line_and_ranks_the_rarer_word_higher() {
    let root = library("rank");
    let host = Host::new();
    let (index, indexed) = built(&root, &host).unwrap();
    assert_eq!((indexed.files, indexed.passages, indexed.skipped), (2, 4, 2));
    assert_eq!(indexed.skipped_for, ["latin: not UTF-8", "picture: not text"]);
    assert_eq!(host.progress().len(), 4);
    let found = find(&root, &index, "OWL night?");
    assert_eq!(found.matches, 3);
    let best = &found.passages[0];
    assert_eq!((best.file.as_str(), best.line, best.changed), ("birds/owl.txt", 1, false));
    assert_eq!(best.text, "The owl hunts at night.");
    assert_eq!(find(&root, &index, "stars").passages[0].line, 3);
    assert!(find(&root, &index, "absent a !").passages.is_empty());
}

#[test]
fn an_index_comes_back_from_its_file() {
    let root = library("file");
    let (index, _) = built(&root, &Host::new()).unwrap();
    let file = root.join("library.idx");
    assert_eq!(index::load(&file).unwrap(), None);
    assert_eq!(index::load(&root.join("no/such/folder/library.idx")).unwrap(), None);
    Host::new().run(|call| index::save(&index, &file, call)).unwrap();
    assert_eq!(index::load(&file).unwrap().unwrap(), index);
    assert_eq!(index::coded(&index).unwrap(), index);
}

#[test]
fn a_damaged_index_is_an_error_wherever_it_ends() {
    let root = library("damaged");
    let (index, _) = built(&root, &Host::new()).unwrap();
    let file = root.join("library.idx");
    Host::new().run(|call| index::save(&index, &file, call)).unwrap();
    let whole = fs::read(&file).unwrap();
    for end in 0..whole.len() {
        fs::write(&file, &whole[..end]).unwrap();
        assert!(matches!(index::load(&file), Err(Error::Failed(_))), "cut at {end}");
    }
}

#[test]
fn a_changed_file_is_said_to_be_changed() {
    let root = library("changed");
    let (index, _) = built(&root, &Host::new()).unwrap();
    fs::write(root.join("birds/owl.txt"), "short").unwrap();
    let found = find(&root, &index, "heads");
    assert!(found.passages[0].changed);
    assert_eq!(found.passages[0].text, "");
}

#[test]
fn a_cancel_stops_the_indexing() {
    let root = library("cancel");
    assert!(matches!(built(&root, &Host::new().cancel_after(3)), Err(Error::Cancelled)));
    let out = Host::new().run(|call| walk::walk(&root, "../elsewhere", call).map(|_| ()));
    assert!(matches!(out, Err(Error::Failed(_))));
}

#[test]
fn a_document_is_read_as_what_it_is() {
    let root = library("read");
    let owl = documents::read(&root, "birds/owl.txt").unwrap();
    assert_eq!(
        (owl.uri.as_str(), owl.mime_type.as_deref()),
        ("library:///birds/owl.txt", Some("text/plain"))
    );
    assert!(matches!(owl.contents, ResourceContents::Text(text) if text.starts_with("The owl hunts")));
    let night = documents::read(&root, "night.md").unwrap();
    assert_eq!(night.mime_type.as_deref(), Some("text/markdown"));
    let latin = documents::read(&root, "latin").unwrap();
    assert!(matches!(latin.contents, ResourceContents::Blob(bytes) if bytes == b"caf\xe9"));
    assert_eq!(documents::uri("a b/\u{fc}.txt"), "library:///a%20b/%C3%BC.txt");
}

#[test]
fn what_is_missing_hidden_or_outside_is_not_found() {
    let root = library("outside");
    fs::write(root.join("../layby-outside.txt"), "outside").unwrap();
    for path in [
        "none.txt",
        "night.md/x",
        "birds",
        "birds/.hidden/x.txt",
        "../layby-outside.txt",
        "birds/../night.md",
        "./night.md",
        "/night.md",
        "birds//owl.txt",
        "birds/owl.txt/",
        "",
    ] {
        assert!(matches!(documents::read(&root, path), Err(Error::NotFound)), "{path}");
    }
}

#[test]
fn a_large_document_is_refused_with_its_size() {
    let root = library("large");
    fs::File::create(root.join("large.txt")).unwrap().set_len((8 << 20) + 1).unwrap();
    let refused = documents::read(&root, "large.txt");
    assert!(matches!(refused, Err(Error::Protocol(e)) if e.message.contains("8388609")));
}

#[test]
fn paths_are_completed_folder_by_folder() {
    let root = library("complete");
    let complete = |value: &str| documents::complete(&root, value).unwrap();
    assert_eq!(complete(""), ["birds/", "latin", "night.md", "picture"]);
    assert_eq!(complete("N"), ["night.md"]);
    assert_eq!(complete("birds/"), ["birds/owl.txt"]);
    assert!(complete("birds/.").is_empty());
    assert!(complete("../").is_empty());
    assert!(complete("none/x").is_empty());
}

#[test]
fn a_question_comes_with_its_passages() {
    let root = library("ask");
    let (index, _) = built(&root, &Host::new()).unwrap();
    let got = |question: &str| {
        let args = Question { question: question.to_owned(), passages: Some(2) };
        Host::new().run(|call| ask(&root, &index, args, false, call)).unwrap()
    };
    let found = got("Owl, night?");
    assert_eq!(found.description, "2 passages of 3 that fit");
    let [first, _, last] = found.messages.as_slice() else { panic!("{found:?}") };
    assert!(matches!(&first.content, Content::Embedded(of) if of.uri == "library:///birds/owl.txt#line=1"));
    let text = |message: &PromptMessage| match &message.content {
        Content::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert!(text(last).ends_with("Owl, night?"));
    let nothing = got("Quux?");
    assert_eq!(nothing.messages.len(), 1);
    assert!(text(&nothing.messages[0]).contains("nothing on this question"));
}
