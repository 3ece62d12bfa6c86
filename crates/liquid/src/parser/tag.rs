//! What stands between `{%` and `%}`.

use super::{Opened, Parsed, Parser, offset};
use crate::syntax::{Block, Condition, Loop, LoopOffset, Statement, TemplateExpression};

/// Tags that other Liquids have, and what to write instead.
const UNSUPPORTED: [(&str, &str); 14] = [
    (
        "include",
        "a template cannot load a file; write its content here, or keep it in a variable",
    ),
    (
        "render",
        "a template cannot load a file; write its content here, or keep it in a variable",
    ),
    ("layout", "a template cannot load a file; write its content here"),
    ("section", "a template cannot load a file; write its content here"),
    ("from", "a template cannot load a file; write its content here"),
    (
        "tablerow",
        "Elsa's Liquid does not have it; use for, and forloop.index | modulo: 2 for the columns",
    ),
    (
        "ifchanged",
        "Elsa's Liquid does not have it; keep the last value with assign, and compare with if",
    ),
    ("macro", "Elsa's Liquid has no functions; use capture"),
    ("elseif", "write elsif"),
    ("elif", "write elsif"),
    ("set", "write assign"),
    ("let", "write assign"),
    ("foreach", "write for, as {% for item in Variables.Items %}"),
    ("switch", "write case"),
];

const TAGS: &str = "assign, break, capture, case, comment, continue, cycle, decrement, echo, for, if, increment, liquid, raw and \
                    unless";

impl<'t> Parser<'t> {
    /// The name of the tag that begins at `start`.
    pub(super) fn tag_name(&mut self, start: usize) -> Parsed<&'t str> {
        if self.cursor.eat("#") {
            return Ok("#");
        }
        match self.cursor.name() {
            Some(name) => Ok(name),
            None => self.problem(start, format!("the name of a tag is missing; known tags are {TAGS}")),
        }
    }

    /// The rest of a tag.
    pub(super) fn tag(
        &mut self,
        name: &'t str,
        start: usize,
        opened: Option<&Opened<'_>>,
        block: &mut Block,
    ) -> Parsed<()> {
        let at = offset(start);
        let statement = match name {
            "#" => return self.line_comment(start),
            "comment" => return self.verbatim("comment", start, None),
            "raw" => return self.verbatim("raw", start, Some(block)),
            "assign" => {
                let name = self.identifier("assign", "as in {% assign name = Variables.Name %}")?;
                if !self.cursor.eat_after_space("=") {
                    return self.problem(self.cursor.at, "a = has to follow the name of assign");
                }
                let value = self.filtered()?;
                self.tag_end("assign")?;
                Statement::Assign { at, name, value }
            }
            "echo" => {
                let value = self.filtered()?;
                self.tag_end("echo")?;
                Statement::Output { at, value }
            }
            "capture" => {
                let name = self.identifier("capture", "as in {% capture text %}")?;
                self.tag_end("capture")?;
                let (body, _) = self.body("capture", start, &["endcapture"])?;
                self.tag_end("endcapture")?;
                Statement::Capture { name, body }
            }
            "if" => self.conditional("if", start)?,
            "unless" => self.conditional("unless", start)?,
            "case" => self.case(start)?,
            "for" => self.repeated(start)?,
            "cycle" => self.cycle(start)?,
            "increment" | "decrement" => {
                let counter = self.cursor.name().unwrap_or_default().into();
                self.tag_end(name)?;
                let by = if name == "increment" { 1 } else { -1 };
                Statement::Count { name: counter, by }
            }
            "break" => {
                self.tag_end("break")?;
                Statement::Break
            }
            "continue" => {
                self.tag_end("continue")?;
                Statement::Continue
            }
            "liquid" if !self.in_liquid => {
                self.in_liquid = true;
                let body = self.nested(|parser| parser.block(None));
                self.in_liquid = false;
                let (body, _) = body?;
                self.tag_end("liquid")?;
                Statement::Group(body)
            }
            _ => return self.unknown(name, start, opened),
        };
        block.push(statement);
        Ok(())
    }

    fn unknown<T>(&self, name: &str, start: usize, opened: Option<&Opened<'_>>) -> Parsed<T> {
        let message = if let Some((_, remedy)) = UNSUPPORTED.iter().find(|(known, _)| *known == name) {
            format!("the tag {name} is not supported: {remedy}")
        } else if name.starts_with("end") || matches!(name, "else" | "elsif" | "when") {
            match opened {
                Some(opened) => format!(
                    "the tag {name} does not belong to the tag {} that is open here; write {{% end{} %}} before it",
                    opened.name, opened.name
                ),
                None => format!("the tag {name} belongs to no tag that is open here; remove it, or open one before it"),
            }
        } else {
            format!("there is no tag {name}; known tags are {TAGS}")
        };
        self.problem(start, message)
    }

    fn identifier(&mut self, tag: &str, example: &str) -> Parsed<Box<str>> {
        let at = self.cursor.at;
        match self.cursor.name() {
            Some(name) => Ok(name.into()),
            None => self.problem(at, format!("a name has to follow {tag}, {example}")),
        }
    }

    /// The end of a tag; within a `liquid` tag, of the line.
    fn tag_end(&mut self, tag: &str) -> Parsed<()> {
        if self.in_liquid {
            self.cursor.skip_spaces();
            if self.cursor.is_at_tag_end() || self.cursor.eat("\r\n") || self.cursor.eat("\n") || self.cursor.eat("\r")
            {
                return Ok(());
            }
            return self.unexpected(&format!("the tag {tag}"), "the end of the line");
        }
        self.cursor.skip_white_space();
        self.strips_next = self.cursor.rest().starts_with('-');
        if self.cursor.eat("-%}") || self.cursor.eat("%}") {
            return Ok(());
        }
        self.unexpected(&format!("the tag {tag}"), "%}")
    }

    /// What belongs to a tag, and the name of the tag that ended it.
    fn body(&mut self, name: &str, at: usize, ends: &[&str]) -> Parsed<(Block, &'t str)> {
        self.nested(|parser| parser.block(Some(&Opened { name, at, ends })))
    }

    /// A comment to the end of its tag.
    fn line_comment(&mut self, start: usize) -> Parsed<()> {
        let rest = self.cursor.rest();
        let end = if self.in_liquid {
            // Without a line break left the rest is not searched for one at each comment.
            let has_break = self.cursor.at <= self.last_break;
            let line_end = has_break.then(|| rest.find(['\n', '\r'])).flatten();
            line_end.or_else(|| rest.find("%}"))
        } else {
            rest.find("%}")
        };
        let Some(end) = end else {
            return self.problem(start, "the comment is not closed; write %} after it");
        };
        let is_stripping = !self.in_liquid && rest.get(..end).is_some_and(|comment| comment.ends_with('-'));
        self.cursor.at += end;
        if !self.in_liquid {
            self.cursor.eat("%}");
            self.strips_next = is_stripping;
        }
        Ok(())
    }

    /// `raw` and `comment`: text up to the tag that ends it, which is not read.
    fn verbatim(&mut self, name: &str, start: usize, block: Option<&mut Block>) -> Parsed<()> {
        let was_in_liquid = self.in_liquid;
        self.tag_end(name)?;
        let from = self.cursor.at;
        let end = format!("end{name}");
        loop {
            let rest = self.cursor.rest();
            let next = if was_in_liquid {
                rest.find(&end)
            } else {
                rest.find("{%")
            };
            let Some(next) = next else {
                let opened = Opened {
                    name,
                    at: start,
                    ends: &[],
                };
                return self.unclosed(&opened);
            };
            let until = self.cursor.at + next;
            self.cursor.at = until;
            if !was_in_liquid {
                self.cursor.eat("{%");
                self.cursor.eat("-");
            }
            if self.cursor.eat_word(&end) {
                self.tag_end(&end)?;
                if let Some(block) = block.filter(|_| until > from) {
                    block.push(Statement::Text(offset(from)..offset(until)));
                }
                return Ok(());
            }
            self.cursor.at = (until + 1).max(self.cursor.at);
        }
    }

    /// `if` with its `elsif`, and `unless`; both with `else`.
    fn conditional(&mut self, name: &str, start: usize) -> Parsed<Statement> {
        let is_negated = name == "unless";
        let end = if is_negated { "endunless" } else { "endif" };
        let with_elsif = ["elsif", "else", end];
        let without = ["else", end];
        let ends: &[&str] = if is_negated { &without } else { &with_elsif };
        let mut branches = Vec::new();
        let mut otherwise = None;
        let mut tag = name;
        loop {
            let value = self.logic()?;
            self.tag_end(tag)?;
            let (body, ended_by) = self.body(name, start, ends)?;
            branches.push((Condition { value, is_negated }, body));
            match ended_by {
                "elsif" => tag = "elsif",
                "else" => {
                    self.tag_end("else")?;
                    otherwise = Some(self.body(name, start, &[end])?.0);
                    break;
                }
                _ => break,
            }
        }
        self.tag_end(end)?;
        Ok(Statement::If {
            at: offset(start),
            branches,
            otherwise,
        })
    }

    fn case(&mut self, start: usize) -> Parsed<Statement> {
        let subject = self.primary("the value of case")?;
        self.tag_end("case")?;
        // What stands before the first value belongs to none.
        let (_, mut ended_by) = self.body("case", start, &["when", "else", "endcase"])?;
        let mut whens = Vec::new();
        let mut otherwise = None;
        while ended_by == "when" {
            let mut options = vec![self.primary("the value of when")?];
            while self.cursor.eat_after_space(",") || self.cursor.eat_word("or") {
                options.push(self.primary("the value of when")?);
            }
            self.tag_end("when")?;
            let (body, next) = self.body("case", start, &["when", "else", "endcase"])?;
            whens.push((options, body));
            ended_by = next;
        }
        if ended_by == "else" {
            self.tag_end("else")?;
            otherwise = Some(self.body("case", start, &["endcase"])?.0);
        }
        self.tag_end("endcase")?;
        Ok(Statement::Case {
            at: offset(start),
            subject,
            whens,
            otherwise,
        })
    }

    fn repeated(&mut self, start: usize) -> Parsed<Statement> {
        let example = "as in {% for item in Variables.Items %}";
        let name = self.identifier("for", example)?;
        if !self.cursor.eat_word("in") {
            return self.problem(
                self.cursor.at,
                format!("the word in has to follow the name of for, {example}"),
            );
        }
        self.cursor.skip_white_space();
        let at = self.cursor.at;
        let source = self.primary("the list of for")?;
        if !matches!(source, TemplateExpression::Path(_) | TemplateExpression::Range(_)) {
            return self.problem(
                at,
                "for runs over a name or a range, as Variables.Items or (1..5); assign the list first",
            );
        }
        let (mut limit, mut loop_offset, mut is_reversed) = (None, None, false);
        loop {
            if self.cursor.eat_word("reversed") {
                is_reversed = true;
            } else if self.cursor.eat_word("limit") {
                self.colon("limit")?;
                limit = Some(self.primary("the limit")?);
            } else if self.cursor.eat_word("offset") {
                self.colon("offset")?;
                loop_offset = Some(match self.primary("the offset")? {
                    TemplateExpression::Path(path) if path.segments.is_empty() && &*path.root == "continue" => {
                        LoopOffset::Continue
                    }
                    value => LoopOffset::Value(value),
                });
            } else {
                break;
            }
        }
        self.tag_end("for")?;
        let (body, ended_by) = self.body("for", start, &["else", "endfor"])?;
        let mut otherwise = None;
        if ended_by == "else" {
            self.tag_end("else")?;
            otherwise = Some(self.body("for", start, &["endfor"])?.0);
        }
        self.tag_end("endfor")?;
        Ok(Statement::For(Box::new(Loop {
            at: offset(start),
            name,
            source,
            limit,
            offset: loop_offset,
            is_reversed,
            body,
            otherwise,
        })))
    }

    fn colon(&mut self, name: &str) -> Parsed<()> {
        if self.cursor.eat_after_space(":") {
            return Ok(());
        }
        self.problem(self.cursor.at, format!("a : has to follow {name}, as in {name}: 2"))
    }

    fn cycle(&mut self, start: usize) -> Parsed<Statement> {
        let mut values = vec![self.primary("a value of cycle")?];
        let mut group = None;
        if self.cursor.eat_after_space(":") {
            group = values.pop();
            values.push(self.primary("a value of cycle")?);
        }
        while self.cursor.eat_after_space(",") {
            values.push(self.primary("a value of cycle")?);
        }
        self.tag_end("cycle")?;
        Ok(Statement::Cycle {
            at: offset(start),
            group,
            values,
        })
    }
}
