//! The pages of the guide and their blocks.

use std::path::Path;

/// A page of `docs/guide`.
pub(super) struct Page {
    /// The name of its file.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) blocks: Vec<Block>,
}

/// A fenced block.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    pub(super) language: String,
    pub(super) text: String,
    /// The line of the page that opens it, from 1.
    pub(super) line: usize,
    /// The file that the paragraph above it names, of a block in JSON.
    pub(super) file: Option<String>,
}

impl Page {
    /// The first line of a block.
    pub(super) fn head(block: &Block) -> &str {
        block.text.lines().next().unwrap_or_default()
    }
}

/// All pages, by name.
pub(super) fn pages() -> Vec<Page> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<Page> = files
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            Page {
                name: path.file_name().unwrap().to_string_lossy().into_owned(),
                blocks: blocks(&text),
                text,
            }
        })
        .collect();
    pages.sort_by(|a, b| a.name.cmp(&b.name));
    pages
}

/// One page.
pub(super) fn page(name: &str) -> Page {
    pages()
        .into_iter()
        .find(|page| page.name == name)
        .unwrap_or_else(|| panic!("docs/guide has no page {name}"))
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut paragraph = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let file = named_file(&paragraph).filter(|_| language == "json");
                open = Some(Block {
                    language: language.to_owned(),
                    text: String::new(),
                    line: number,
                    file,
                });
                paragraph.clear();
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            // A blank line between a paragraph and its block.
            (None, None) if line.is_empty() => paragraph.push('\n'),
            (None, None) => {
                if paragraph.ends_with("\n\n") {
                    paragraph.clear();
                }
                paragraph.push_str(line);
                paragraph.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed: {open:?}");
    blocks
}

/// The last file `name.json` of a paragraph.
fn named_file(paragraph: &str) -> Option<String> {
    let quoted = paragraph.split('`').skip(1).step_by(2);
    let is_file = |name: &&str| name.ends_with(".json") && !name.contains(['/', ' ']);
    quoted.filter(is_file).last().map(str::to_owned)
}

#[test]
fn blocks_have_language_text_line_and_file() {
    let text = "Head\n\nOf `other.json`.\n\nSave as\n`a.json`:\n\n```json\n{}\n\n1\n```\n```sh\necho\n```\n";
    let block = |language: &str, text: &str, line, file: Option<&str>| Block {
        language: language.to_owned(),
        text: text.to_owned(),
        line,
        file: file.map(str::to_owned),
    };
    assert_eq!(
        blocks(text),
        [
            block("json", "{}\n\n1\n", 8, Some("a.json")),
            block("sh", "echo\n", 13, None)
        ]
    );
    let text = "Of `other.json`.\n\nAnother paragraph.\n\n```json\n{}\n```\n";
    assert_eq!(blocks(text)[0].file, None);
}
