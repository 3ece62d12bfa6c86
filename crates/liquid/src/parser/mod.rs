//! The parser of templates: the text is read once, from start to end; the parser goes back over one value at most.
//!
//! # Layout
//! - `cursor`: the position in the text, words and white space; `expression`: values, comparisons and filters.
//! - `tag`: what stands between `{%` and `%}`; here: text, outputs and blocks.

mod cursor;
mod expression;
mod tag;

use super::error::{ErrorKind, TemplateError};
use super::syntax::{Block, Statement};
use cursor::Cursor;
use mainspring_language::shortened;

/// Bytes of a template.
pub(super) const LONGEST: usize = 256 << 10;

/// In bytes: the longest message, as messages quote names of any length.
const MAX_MESSAGE: usize = 1_000;

/// Blocks in blocks, and indexes in indexes.
const DEEPEST: usize = 100;

/// Parses a template.
pub(super) fn parse(text: &str) -> Result<Block, TemplateError> {
    if text.len() > LONGEST {
        return Err(TemplateError::without_place(
            ErrorKind::Syntax,
            format!(
                "the template has {} bytes; at most {LONGEST} are allowed, so divide it, or keep its long texts in variables",
                text.len()
            ),
        ));
    }
    let mut parser = Parser {
        cursor: Cursor::new(text),
        depth: 0,
        in_liquid: false,
        strips_next: false,
        last_break: text.rfind(['\n', '\r']).unwrap_or(0),
    };
    parser
        .block(None)
        .map(|(block, _)| block)
        .map_err(|problem| TemplateError::at(text, problem.at, ErrorKind::Syntax, problem.message))
}

/// What is wrong with a template, and at which byte.
struct Problem {
    at: usize,
    message: String,
}

type Parsed<T> = Result<T, Problem>;

struct Parser<'t> {
    cursor: Cursor<'t>,
    depth: usize,
    /// Within a `liquid` tag: a line is a tag.
    in_liquid: bool,
    /// The last tag or output ended with a dash: the text after it loses the white space at its start.
    strips_next: bool,
    /// The last line break of the text.
    last_break: usize,
}

/// The tag that a block belongs to, and those that end it or a part of it.
struct Opened<'n> {
    name: &'n str,
    at: usize,
    ends: &'n [&'n str],
}

impl<'t> Parser<'t> {
    fn problem<T>(&self, at: usize, message: impl Into<String>) -> Parsed<T> {
        Err(Problem {
            at,
            message: shortened(&message.into(), MAX_MESSAGE).into_owned(),
        })
    }

    /// One level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEEPEST {
            return self.problem(
                self.cursor.at,
                format!("the template is nested deeper than {DEEPEST} levels; divide it"),
            );
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Statements up to the end of the text, or to one of the tags that end the block, whose name is returned.
    fn block(&mut self, opened: Option<&Opened<'_>>) -> Parsed<(Block, &'t str)> {
        let mut block = Block::new();
        loop {
            if self.in_liquid {
                self.cursor.skip_white_space();
                if self.cursor.is_at_tag_end() {
                    return match opened {
                        None => Ok((block, "")),
                        Some(opened) => self.unclosed(opened),
                    };
                }
            } else {
                self.text(&mut block);
                if self.cursor.is_at_end() {
                    return match opened {
                        None => Ok((block, "")),
                        Some(opened) => self.unclosed(opened),
                    };
                }
                if self.cursor.eat("{{") {
                    self.output(&mut block)?;
                    continue;
                }
            }
            let start = self.cursor.at;
            if !self.in_liquid {
                self.cursor.eat("{%");
                self.cursor.eat("-");
            }
            self.cursor.skip_white_space();
            let name = self.tag_name(start)?;
            if let Some(opened) = opened
                && opened.ends.contains(&name)
            {
                return Ok((block, name));
            }
            self.tag(name, start, opened, &mut block)?;
        }
    }

    fn unclosed<T>(&self, opened: &Opened<'_>) -> Parsed<T> {
        let name = opened.name;
        self.problem(
            opened.at,
            format!("the tag {name} is not closed; write {{% end{name} %}} after what belongs to it"),
        )
    }

    /// Text up to the next tag or output.
    fn text(&mut self, block: &mut Block) {
        let start = self.cursor.at;
        let rest = self.cursor.rest();
        let length = rest
            .match_indices('{')
            .map(|(at, _)| at)
            .find(|&at| matches!(rest.as_bytes().get(at + 1), Some(b'{' | b'%')))
            .unwrap_or(rest.len());
        self.cursor.at += length;
        let mut text = rest.get(..length).unwrap_or_default();
        let mut begin = start;
        if std::mem::take(&mut self.strips_next) {
            let stripped = text.trim_start();
            begin += text.len() - stripped.len();
            text = stripped;
        }
        if matches!(self.cursor.rest().as_bytes().get(2), Some(b'-')) {
            text = text.trim_end();
        }
        if !text.is_empty() {
            block.push(Statement::Text(offset(begin)..offset(begin + text.len())));
        }
    }

    /// What stands between two braces.
    fn output(&mut self, block: &mut Block) -> Parsed<()> {
        let at = self.cursor.at - 2;
        self.cursor.eat("-");
        let value = self.filtered()?;
        self.cursor.skip_white_space();
        let is_stripping = self.cursor.rest().starts_with("-}}");
        if !(self.cursor.eat("-}}") || self.cursor.eat("}}")) {
            return self.unexpected("the output", "}}");
        }
        self.strips_next = is_stripping;
        block.push(Statement::Output { at: offset(at), value });
        Ok(())
    }

    /// What is there instead of the end of a tag or an output.
    fn unexpected<T>(&self, what: &str, end: &str) -> Parsed<T> {
        let found: String = self.cursor.rest().chars().take_while(|c| *c != '\n').take(20).collect();
        let message = if found.is_empty() {
            format!("{what} is not closed; write {end} at its end")
        } else {
            format!("{what} cannot continue with `{found}`; write {end} at its end, or see how its value is written")
        };
        self.problem(self.cursor.at, message)
    }
}

/// A place in the text, which is short.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
