//! The blocks of a page, and what they mean.

use anyhow::{Result, bail, ensure};

/// One thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Run by bash; `output` is what it must print, where the page says so.
    Run { line: usize, script: String, output: Option<Expected> },
    /// Started, and stopped at the end of the page.
    Background { line: usize, script: String },
    /// Written to a file.
    Write { line: usize, path: String, text: String },
}

/// What a command must print.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The page's line of its first line.
    pub(super) line: usize,
    /// Its lines, with `…` in them.
    pub(super) text: String,
}

/// A block as it stands in the page.
struct Block {
    /// The line of its fence.
    line: usize,
    info: String,
    text: String,
    /// The line of the fence that ends it.
    end: usize,
}

/// What the page says to do, in its order.
///
/// # Errors
/// A block has no end or no known kind, or there is none.
pub(super) fn steps(page: &str) -> Result<Vec<Step>> {
    let blocks = blocks(page)?;
    ensure!(!blocks.is_empty(), "the page has no block to run");
    let mut steps: Vec<Step> = Vec::new();
    let mut runs_end = None;
    for Block { line, info, text, end } in blocks {
        let mut words = info.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let rest: Vec<_> = words.collect();
        let file = rest.iter().find_map(|word| word.strip_prefix("file="));
        let step = match (kind, rest.as_slice(), file) {
            (_, [_], Some(path)) => {
                ensure!(fits(path), "line {line}: {path:?} is no path inside the working folder");
                Step::Write { line, path: path.to_owned(), text }
            }
            ("sh", [], None) => Step::Run { line, script: text, output: None },
            ("sh", ["background"], None) => Step::Background { line, script: text },
            ("text", [], None) => {
                let expected = Expected { line: line + 1, text };
                // Right after: only blank lines stand between.
                let near = runs_end.is_some_and(|end: usize| {
                    page.lines().skip(end).take(line - 1 - end).all(|between| between.trim().is_empty())
                });
                match steps.last_mut() {
                    Some(Step::Run { output: output @ None, .. }) if near => *output = Some(expected),
                    _ => bail!(
                        "line {line}: a text block is the output of an sh block, and there is none right before"
                    ),
                }
                runs_end = None;
                continue;
            }
            _ => bail!(
                "line {line}: `{info}` is no kind of block; there are `sh`, `sh background`, `text` (the output of the \
                 sh block right before) and `LANGUAGE file=PATH`"
            ),
        };
        runs_end = matches!(step, Step::Run { .. }).then_some(end);
        steps.push(step);
    }
    Ok(steps)
}

/// A relative path without `..`.
fn fits(path: &str) -> bool {
    let mut parts = std::path::Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Fenced blocks, also in a list, whose fence is indented.
fn blocks(page: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, usize, Block)> = None;
    for (number, line) in (1..).zip(page.lines()) {
        let bare = line.trim_start();
        let ticks = bare.len() - bare.trim_start_matches('`').len();
        open = match open {
            None if ticks >= 3 => {
                let block = Block {
                    line: number,
                    info: bare[ticks..].trim().to_owned(),
                    text: String::new(),
                    end: 0,
                };
                Some((ticks, line.len() - bare.len(), block))
            }
            None => None,
            Some((fence, _, mut block)) if ticks >= fence && bare[ticks..].trim().is_empty() => {
                block.end = number;
                blocks.push(block);
                None
            }
            Some((fence, indent, mut block)) => {
                // Without the fence's own indent, as Markdown has it.
                let inner = line
                    .char_indices()
                    .find(|(i, c)| *i >= indent || *c != ' ')
                    .map_or(line.len(), |(i, _)| i);
                block.text.push_str(&line[inner..]);
                block.text.push('\n');
                Some((fence, indent, block))
            }
        };
    }
    if let Some((.., block)) = open {
        bail!("line {}: the block has no end", block.line);
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(page: &str, why: &str) {
        let error = steps(page).expect_err(page).to_string();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn all_kinds_of_blocks() {
        let page = "# T\n```sh\necho a\n```\n\n```text\na\n```\nWords\n\n```python file=src/a.py\nx = 1\n\ny\n```\n\
                    ```sh background\nsleep 9\n```\n- a list\n\n  ```sh\n  if true; then\n    echo\n  fi\n  ```\n\
                    ````md file=b.md\n```sh\n```\n````\n";
        let run = |line, script: &str, output| Step::Run { line, script: script.into(), output };
        let expected = vec![
            run(2, "echo a\n", Some(Expected { line: 7, text: "a\n".into() })),
            Step::Write { line: 11, path: "src/a.py".into(), text: "x = 1\n\ny\n".into() },
            Step::Background { line: 16, script: "sleep 9\n".into() },
            run(21, "if true; then\n  echo\nfi\n", None),
            Step::Write { line: 26, path: "b.md".into(), text: "```sh\n```\n".into() },
        ];
        assert_eq!(steps(page).ok(), Some(expected));
    }

    #[test]
    fn anything_else_is_refused_with_its_line() {
        refused("only words\n", "no block");
        refused("\n```rust\nfn a() {}\n```\n", "line 2: `rust` is no kind");
        refused("```\nx\n```\n", "line 1: `` is no kind");
        refused("```sh later\nx\n```\n", "no kind");
        refused("```text\nx\n```\n", "line 1: a text block");
        refused("```sh\nx\n```\nThis prints:\n```text\nx\n```\n", "line 5: a text block");
        refused("```sh\nx\n```\n```text\nx\n```\n```text\nx\n```\n", "line 7: a text block");
        refused("```c file=../x\n```\n", "no path inside");
        refused("```c file=/x\n```\n", "no path inside");
        refused("```c file=\n```\n", "no path inside");
        refused("a\n```sh\nx\n", "line 2: the block has no end");
    }
}
