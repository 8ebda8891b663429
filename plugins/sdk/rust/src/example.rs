//! The example of `docs/authors.md`: a plugin with more than tools.

// example
use layby_plugin::{prelude::*, starting_with};

const NOTES: [(&str, &str); 2] = [("milk", "Buy milk."), ("moon", "Look at the moon.")];

/// A note by its name.
#[derive(Deserialize, JsonSchema)]
struct Name {
    /// The note's name.
    name: String,
}

/// One note.
#[template(uri_template = "notes:///{name}")]
fn note(of: Name) -> Result<&'static str> {
    let found = NOTES.iter().find(|(name, _)| *name == of.name);
    Ok(found.ok_or(Error::NotFound)?.1)
}

/// The names of all notes.
#[resource(uri = "notes:///")]
fn names() -> Result<Json<Vec<&'static str>>> {
    Ok(Json(NOTES.iter().map(|(name, _)| *name).collect()))
}

/// Has a note put into better words.
#[prompt]
fn improve(of: Name) -> Result<String> {
    Ok(format!("Put this note into better words: {}", note(of)?))
}

#[complete(prompt = improve, argument = "name")]
fn improve_name(value: &str) -> Result<Vec<String>> {
    Ok(starting_with(value, NOTES.map(|(name, _)| name)))
}

layby_plugin::plugin! {
    prompts: [improve],
    resources: [names],
    templates: [note],
    completions: [improve_name],
}
// end

use crate::testing::Host;

#[test]
fn it_stands_in_the_guide() {
    let source = include_str!("example.rs");
    let example = source.split("// example\n").nth(1).and_then(|rest| rest.split("// end\n").next());
    let guide = include_str!("../../../../docs/authors.md");
    assert!(example.is_some_and(|example| guide.contains(example)), "docs/authors.md has another example");
}

#[test]
fn it_does_what_the_guide_says() {
    let host = Host::new();
    let got = host.get_prompt::<improve>(&[("name", "milk")]);
    assert!(format!("{got:?}").contains("better words: Buy milk."), "{got:?}");
    let read = host.read_template::<note>("notes:///moon");
    assert!(format!("{read:?}").contains("Look at the moon."), "{read:?}");
    let read = host.read_resource::<names>();
    assert!(format!("{read:?}").contains(r#"[\"milk\",\"moon\"]"#), "{read:?}");
    let completed = host.complete::<improve_name>("mo", &[]);
    assert!(format!("{completed:?}").contains("moon"), "{completed:?}");
}
