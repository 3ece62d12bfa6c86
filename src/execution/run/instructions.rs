//! Turns instructions into work items.
//!
//! Instructions are carried out one after the other, and the queue is run after each: an event that makes an instance
//! wait for another one can be followed by that one in the same burst. An instruction that matches nothing is reported,
//! never stored. A cancel does not wait for the instructions before it.
//!
//! The order does not depend on where a burst yields: an instruction after a yield is held over, and follows when the
//! remaining work items have run. An instruction that arrives for an instance that continues after a yield does not
//! wait for these, because a loop may take long; its work items come after the remaining ones.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::BurstRun;
use super::faults::exception;
use crate::execution::bounds::admit;
use crate::execution::burst_contract::Instruction;
use crate::execution::cause::{Cause, InstructionOrigin};
use crate::execution::node_id::WORKFLOW_ID;
use crate::execution::scope;
use crate::execution::state::{StartTrigger, WorkItem};
use crate::execution::status::{Status, SubStatus};
use crate::id::{BookmarkId, StimulusHash};

/// What a burst has not carried out, with the positions.
#[derive(Default)]
pub(in crate::execution) struct LeftInstructions {
    /// It matches nothing.
    pub(in crate::execution) unmatched: Vec<(usize, Instruction)>,
    /// It follows in the next burst.
    pub(in crate::execution) held_over: Vec<(usize, Instruction)>,
}

impl BurstRun<'_> {
    /// Carries out all instructions, after the work items that an earlier burst has left.
    pub(in crate::execution) async fn carry_out(
        &mut self,
        mut instructions: VecDeque<(usize, Instruction, InstructionOrigin)>,
        is_new: bool,
    ) -> LeftInstructions {
        let mut left = LeftInstructions::default();
        let goes_on = !is_new && !self.has_cancel && !self.state.queue.is_empty();
        if goes_on {
            if !self.state.holds {
                // They arrived after the yield.
                for (position, instruction, origin) in std::mem::take(&mut instructions) {
                    match self.apply(instruction, &origin, is_new) {
                        None | Some(Instruction::Continue) => {}
                        // What is left may make a bookmark for it.
                        Some(stimulus @ Instruction::Stimulus { .. }) => {
                            instructions.push_back((position, stimulus, origin));
                        }
                        Some(instruction) => left.unmatched.push((position, instruction)),
                    }
                }
            }
            self.run_queue().await;
            self.end_requests();
            self.state.holds &= self.yielded;
        }
        for (position, instruction, origin) in instructions {
            if self.yielded {
                if instruction != Instruction::Continue {
                    left.held_over.push((position, instruction));
                }
                continue;
            }
            let is_cancel = instruction == Instruction::Cancel;
            match self.apply(instruction, &origin, is_new) {
                None if is_cancel || !self.has_cancel => {
                    self.run_queue().await;
                    self.end_requests();
                }
                None | Some(Instruction::Continue) => {}
                Some(instruction) => left.unmatched.push((position, instruction)),
            }
        }
        if self.state.status == Status::Finished {
            left.unmatched.append(&mut left.held_over);
        }
        // What is left of a lost burst that went on had arrived after the yield.
        let is_followed = self.is_followed && !goes_on;
        self.state.holds |= !left.held_over.is_empty() || self.yielded && is_followed;
        left
    }

    /// Each of several instructions in one burst finds what it would find in a burst of its own.
    fn wake(&mut self) {
        if self.state.queue.is_empty() {
            self.forget_memory();
        }
    }

    /// Makes the work items of an instruction; returns it when it matches nothing.
    fn apply(&mut self, instruction: Instruction, origin: &InstructionOrigin, is_new: bool) -> Option<Instruction> {
        if self.state.status == Status::Finished {
            return Some(instruction);
        }
        self.follows(Cause::of(origin, self.state.alterations));
        self.state.alterations += u64::from(origin.replays.is_some());
        let unmatched = match instruction {
            Instruction::Start {
                correlation_id,
                name,
                input,
                variables,
                trigger_activity_id,
                payload,
                parent,
                request,
            } if is_new && self.state.sub_status == SubStatus::Pending => {
                self.state.correlation_id = correlation_id;
                self.state.name = name;
                self.state.parent = parent;
                self.state.trigger = trigger_activity_id.map(|activity_id| StartTrigger {
                    activity_id,
                    payload: payload.unwrap_or_default(),
                    is_consumed: false,
                });
                self.open_request(request);
                self.start(input, variables);
                None
            }
            Instruction::Start { .. } => Some(instruction),
            Instruction::Resume {
                bookmark_id,
                input,
                payload,
                request,
            } => match self.take_bookmark(Some(&bookmark_id), None) {
                Some(taken) => {
                    self.wake();
                    self.open_request(request);
                    self.resume(taken, payload, input);
                    None
                }
                None => Some(Instruction::Resume {
                    bookmark_id,
                    input,
                    payload,
                    request,
                }),
            },
            Instruction::Stimulus {
                bookmark_id,
                hash,
                name,
                payload,
            } => match self.take_bookmark(bookmark_id.as_ref(), Some(hash)) {
                Some(taken) => {
                    self.wake();
                    self.resume(taken, payload, Map::new());
                    None
                }
                None => Some(Instruction::Stimulus {
                    bookmark_id,
                    hash,
                    name,
                    payload,
                }),
            },
            Instruction::ChildEnded { bookmark_id, result } => match self.take_bookmark(Some(&bookmark_id), None) {
                Some(taken) => {
                    self.wake();
                    self.resume(taken, Some(result), Map::new());
                    None
                }
                None => Some(Instruction::ChildEnded { bookmark_id, result }),
            },
            // What is left has run before.
            Instruction::Continue => Some(instruction),
            Instruction::Cancel => {
                self.cancel_instance();
                None
            }
        };
        self.is_dirty |= unmatched.is_none();
        unmatched
    }

    fn start(&mut self, input: Map<String, Value>, mut variables: Map<String, Value>) {
        let (mut input, completed) = match self.program.complete_input(input) {
            Ok(input) => (input, Ok(())),
            Err(fault) => (Map::new(), Err(fault)),
        };
        let payload = self
            .state
            .trigger
            .as_ref()
            .map_or(&Value::Null, |trigger| &trigger.payload);
        let payload = admit("The payload", payload, self.options.max_value_bytes).map(drop);
        let admitted = completed
            .and(self.check_values(&input))
            .and(self.check_values(&variables))
            .and(payload);
        let invalid = admitted.err().map(|fault| {
            self.state.trigger = None;
            input.clear();
            variables.clear();
            exception(&fault)
        });
        self.state.input = input;
        self.state.sub_status = SubStatus::Executing;
        let cause = self.next_cause();
        self.state.queue.push_back(WorkItem {
            node_id: WORKFLOW_ID.to_owned(),
            cause,
            owner: None,
            scheduled_after: None,
            context: None,
            variables,
            invalid,
            tag: None,
            payload: None,
            input: Map::new(),
        });
    }

    fn position_of(&self, id: Option<&BookmarkId>, hash: Option<StimulusHash>) -> Option<usize> {
        let mut bookmarks = self.state.bookmarks.iter();
        let by_id = id.and_then(|id| bookmarks.position(|bookmark| bookmark.id == *id));
        by_id.or_else(|| {
            let hash = hash?;
            self.state.bookmarks.iter().position(|bookmark| bookmark.hash == hash)
        })
    }

    /// Takes the bookmark, or otherwise another one with the hash: burns it, and returns its node and execution.
    fn take_bookmark(&mut self, id: Option<&BookmarkId>, hash: Option<StimulusHash>) -> Option<(String, u64)> {
        let position = self.position_of(id, hash)?;
        let bookmark = self.state.bookmarks.get(position)?;
        let mut contexts = self.state.contexts.iter();
        let context = contexts
            .find(|(_, context)| context.id == bookmark.activity_execution_id)
            .map(|(number, _)| *number);
        let node_id = bookmark.node_id.clone();
        if bookmark.auto_burn {
            self.state.bookmarks.remove(position);
        }
        Some((node_id, context?))
    }

    /// Schedules the resumption of an execution.
    fn resume(&mut self, (node_id, context): (String, u64), payload: Option<Value>, input: Map<String, Value>) {
        let limit = self.options.max_value_bytes;
        let input = Value::Object(input);
        let admitted = admit("The payload", payload.as_ref().unwrap_or(&Value::Null), limit)
            .and_then(|_| admit("The input", &input, limit));
        if let Err(fault) = admitted {
            return self.fault(context, fault);
        }
        let Value::Object(input) = input else { return };
        // The activity has names of its own: only the inputs of the workflow take the declared ones.
        let declared = self.program.with_declared_names(input.clone());
        self.state.input.extend(declared);
        if scope::nested_in(self.program, &self.state, context).is_some()
            && let Some(workflow) = scope::workflow(self.program, &self.state, context)
            && let Some(workflow) = self.state.contexts.get_mut(&workflow)
        {
            workflow.inputs.extend(input.clone());
        }
        self.state.since_wait = 0;
        let cause = self.next_cause();
        self.state.queue.push_back(WorkItem {
            node_id,
            cause,
            owner: None,
            scheduled_after: None,
            context: Some(context),
            variables: Map::new(),
            invalid: None,
            tag: None,
            payload,
            input,
        });
    }
}
