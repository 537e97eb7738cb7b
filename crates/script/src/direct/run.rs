//! Runs direct scripts.
//!
//! Invariants: commands run in the order that Lua would call them in; where Lua would raise, or
//! might come to something else, the run gives up, and nothing of its reply stays.

use std::ops::ControlFlow;

use base::number::format_f64_digits;
use proto::{Args, ArgsBuffer, Output, Reply, Resp};
use smallvec::SmallVec;

use super::parser::LOCALS_MAX;
use super::value::{Head, Replies, Span, Value, decimal, number};
use super::{Binary, Branch, Direct, DirectExit, Expression, List, Returned, Statement, Unary};
use crate::call::{push_number, to_i64};
use crate::host::Host;
use crate::interpreter::{Input, Limits};

/// Larger buffers are given back when a run is over.
const KEPT_MAX: usize = 64 << 10;

/// What one run after another needs.
#[derive(Default)]
pub struct DirectState {
    args: ArgsBuffer,
    output: Output,
    /// The texts and tables that the run has made, one behind the other.
    made: Vec<u8>,
}

/// Between two looks at the time a run makes so many bytes at most.
const TICK: usize = 256 << 10;

/// The values of some expressions.
type Values<'a> = SmallVec<[Value<'a>; 8]>;

struct Run<'a, 'h> {
    input: Input<'a>,
    host: &'h mut dyn Host,
    bench: &'h mut DirectState,
    budget: usize,
    /// How much had been made when it last looked at the time.
    ticked: usize,
    locals: [Value<'a>; LOCALS_MAX],
}

impl Direct {
    /// Runs the script and appends what it returns to `reply`, in whose protocol its client speaks;
    /// if it leaves, nothing is.
    pub(crate) fn run(
        &self,
        input: Input<'_>,
        host: &mut dyn Host,
        limits: Limits,
        bench: &mut DirectState,
        reply: &mut Reply<'_>,
    ) -> Result<(), DirectExit> {
        let mark = reply.mark();
        bench.made.clear();
        let locals = [Value::Nil; LOCALS_MAX];
        let mut run = Run { input, host, bench, budget: limits.memory, ticked: 0, locals };
        let result = match run.block(&self.body, reply) {
            // What returns nothing returns nil.
            Ok(ControlFlow::Continue(())) => {
                reply.null();
                Ok(())
            }
            Ok(ControlFlow::Break(())) => Ok(()),
            Err(leave) => {
                reply.rollback(mark);
                Err(leave)
            }
        };
        bench.give_back();
        result
    }
}

impl DirectState {
    fn give_back(&mut self) {
        if self.args.memory() > KEPT_MAX {
            self.args = ArgsBuffer::default();
        }
        if self.made.capacity() > KEPT_MAX {
            self.made = Vec::new();
        }
        self.output.clear();
        self.output.release_if_large();
    }
}

impl<'a> Run<'a, '_> {
    /// Runs statements; breaks when one of them has returned.
    fn block(
        &mut self,
        statements: &'a [Statement],
        reply: &mut Reply<'_>,
    ) -> Result<ControlFlow<()>, DirectExit> {
        for statement in statements {
            match statement {
                Statement::Set(slot, value) => self.locals[*slot] = self.value(value)?,
                Statement::Call(arguments) => self.call(arguments).map(drop)?,
                Statement::If(branches) => {
                    if let Some(branch) = self.branch(branches)?
                        && self.block(&branch.body, reply)?.is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Statement::Return(Returned::Value(value)) => {
                    let value = self.value(value)?;
                    self.write(value, reply)?;
                    return Ok(ControlFlow::Break(()));
                }
                Statement::Return(Returned::List(values)) => {
                    let values = self.values(values)?;
                    // As in Lua's lists, nothing comes behind a nil.
                    let end = values.iter().position(|value| *value == Value::Nil);
                    let values = &values[..end.unwrap_or(values.len())];
                    reply.array(values.len());
                    values.iter().try_for_each(|value| self.write(*value, reply))?;
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first branch whose condition holds.
    fn branch(&mut self, branches: &'a [Branch]) -> Result<Option<&'a Branch>, DirectExit> {
        for branch in branches {
            let is_it = match &branch.condition {
                Some(condition) => self.value(condition)?.holds(),
                None => true,
            };
            if is_it {
                return Ok(Some(branch));
            }
        }
        Ok(None)
    }

    fn values(&mut self, expressions: &'a [Expression]) -> Result<Values<'a>, DirectExit> {
        expressions.iter().map(|expression| self.value(expression)).collect()
    }

    fn value(&mut self, expression: &'a Expression) -> Result<Value<'a>, DirectExit> {
        Ok(match expression {
            Expression::Nil => Value::Nil,
            Expression::Boolean(value) => Value::Boolean(*value),
            Expression::Number(value) => Value::Number(*value),
            Expression::Text(bytes) => Value::Lent(bytes),
            Expression::Element(list, index) => {
                self.list(*list).get(*index).map_or(Value::Nil, Value::Lent)
            }
            Expression::Count(list) => Value::Number(self.list(*list).len() as f64),
            Expression::Local(slot) => self.locals[*slot],
            Expression::Call(arguments) => self.call(arguments)?,
            Expression::ToNumber(value) => match self.value(value)? {
                Value::Nil | Value::Boolean(_) | Value::Table(_) => Value::Nil,
                value => sure(number(self.operand(value)?))?,
            },
            Expression::Index(parts) => {
                let (value, index) = (self.value(&parts.0)?, self.value(&parts.1)?);
                sure(self.index(value, index))?
            }
            Expression::Unary(operator, value) => {
                let value = self.value(value)?;
                sure(self.unary(*operator, value))?
            }
            Expression::Binary(operator, parts) => self.binary(*operator, &parts.0, &parts.1)?,
        })
    }

    fn list(&self, list: List) -> Args<'a> {
        match list {
            List::Keys => self.input.keys,
            List::Arguments => self.input.arguments,
        }
    }

    /// A value that is computed with: a number, or a text of one.
    fn operand(&self, value: Value<'a>) -> Result<f64, DirectExit> {
        match value {
            Value::Number(number) => Ok(number),
            value => sure(value.text(&self.bench.made).and_then(decimal)),
        }
    }

    fn unary(&self, operator: Unary, value: Value<'a>) -> Option<Value<'a>> {
        match operator {
            Unary::Not => Some(Value::Boolean(!value.holds())),
            Unary::Negative => number(-self.operand(value).ok()?),
            Unary::Length => {
                let length = match value {
                    Value::Table(span) => match Replies::of(&self.bench.made, span.start).next()? {
                        Head::Array(count) => count,
                        _ => 0,
                    },
                    value => value.text(&self.bench.made)?.len(),
                };
                Some(Value::Number(length as f64))
            }
        }
    }

    fn binary(
        &mut self,
        operator: Binary,
        left: &'a Expression,
        right: &'a Expression,
    ) -> Result<Value<'a>, DirectExit> {
        let left = self.value(left)?;
        match (operator, left.holds()) {
            (Binary::Or, true) | (Binary::And, false) => return Ok(left),
            (Binary::Or | Binary::And, _) => return self.value(right),
            _ => {}
        }
        let right = self.value(right)?;
        match operator {
            Binary::Equal => return Ok(Value::Boolean(sure(self.equals(left, right))?)),
            Binary::Unequal => return Ok(Value::Boolean(!sure(self.equals(left, right))?)),
            Binary::Concatenate => return self.concatenate(left, right),
            _ => {}
        }
        if let Some(holds) = compare(operator, left, right) {
            return Ok(Value::Boolean(holds));
        }
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let result = match operator {
            Binary::Add => left + right,
            Binary::Subtract => left - right,
            Binary::Multiply => left * right,
            Binary::Divide => left / right,
            Binary::Modulo => left - (left / right).floor() * right,
            // To compare anything but two numbers is for Lua.
            _ => return Err(DirectExit::GaveUp),
        };
        sure(number(result))
    }

    /// `None` of two tables: whether they are one is not known here.
    fn equals(&self, left: Value<'a>, right: Value<'a>) -> Option<bool> {
        if let (Value::Table(_), Value::Table(_)) = (left, right) {
            return None;
        }
        let made = &self.bench.made;
        Some(match (left.text(made), right.text(made)) {
            (Some(left), Some(right)) => left == right,
            (None, None) => left == right,
            _ => false,
        })
    }

    fn concatenate(&mut self, left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, DirectExit> {
        let start = self.bench.made.len();
        for value in [left, right] {
            let made = &mut self.bench.made;
            match value {
                Value::Number(number) => made.extend_from_slice(&format_f64_digits(number, 14)),
                Value::Lent(bytes) => made.extend_from_slice(bytes),
                Value::Made(span) => {
                    check_result_budget(made.len() + span.length, self.budget)?;
                    made.extend_from_within(span.start..span.start + span.length);
                }
                _ => return Err(DirectExit::GaveUp),
            }
        }
        let length = self.bench.made.len();
        check_result_budget(length, self.budget)?;
        self.tick(length)?;
        Ok(Value::Made(Span { start, length: length - start }))
    }

    /// Looks at the time when much was made: a few words double a text thirty times.
    fn tick(&mut self, length: usize) -> Result<(), DirectExit> {
        if length - self.ticked > TICK {
            self.ticked = length;
            self.host.check_time().map_err(DirectExit::Stop)?;
        }
        Ok(())
    }

    /// An element of an array that a command replied.
    fn index(&self, value: Value<'a>, index: Value<'a>) -> Option<Value<'a>> {
        let (Value::Table(span), Value::Number(index)) = (value, index) else { return None };
        let mut replies = Replies::of(&self.bench.made, span.start);
        let Head::Array(count) = replies.next()? else { return None };
        let before = index - 1.0;
        if before.fract() != 0.0 || !(0.0..count as f64).contains(&before) {
            return Some(Value::Nil);
        }
        (0..before as usize).try_for_each(|_| replies.skip())?;
        self.element(replies.at())
    }

    /// The value that the reply at a place in `made` stands for.
    fn element(&self, at: usize) -> Option<Value<'a>> {
        let mut replies = Replies::of(&self.bench.made, at);
        Some(match replies.next()? {
            Head::Null => Value::Boolean(false),
            Head::Integer(number) => Value::Number(number as f64),
            Head::Text(span) => Value::Made(span),
            Head::Status(_) | Head::Array(_) => {
                let mut replies = Replies::of(&self.bench.made, at);
                replies.skip()?;
                Value::Table(Span { start: at, length: replies.at() - at })
            }
        })
    }

    /// Calls a command.
    fn call(&mut self, arguments: &'a [Expression]) -> Result<Value<'a>, DirectExit> {
        let values = self.values(arguments)?;
        let DirectState { args, output, made } = &mut *self.bench;
        args.clear();
        let mut total = 0;
        for value in values {
            let fits = match (value, value.text(made)) {
                (Value::Number(number), _) => push_number(args, number),
                (_, Some(text)) => {
                    total += text.len();
                    check_result_budget(total, self.budget)?;
                    args.push(text)
                }
                _ => false,
            };
            if !fits {
                return Err(DirectExit::GaveUp);
            }
        }
        output.clear();
        self.host.call(args.as_args(), Resp::Two, output).map_err(DirectExit::Stop)?;
        output.finish();
        if output.front().starts_with(b"-") {
            return Err(DirectExit::GaveUp);
        }
        let start = made.len();
        check_result_budget(start + output.len(), self.budget)?;
        while !output.is_empty() {
            let count = output.front().len();
            made.extend_from_slice(output.front());
            output.consume(count);
        }
        sure(self.element(start))
    }

    /// Writes a value as a reply.
    fn write(&self, value: Value<'a>, reply: &mut Reply<'_>) -> Result<(), DirectExit> {
        let made = &self.bench.made;
        match value {
            Value::Nil | Value::Boolean(false) => reply.null(),
            Value::Boolean(true) => reply.integer(1),
            Value::Number(number) => reply.integer(to_i64(number)),
            Value::Lent(bytes) => reply.bulk(bytes),
            Value::Made(span) => reply.bulk(span.of(made)),
            Value::Table(span) => sure(Replies::of(made, span.start).copy(reply))?,
        }
        Ok(())
    }
}

/// What is not known here is for Lua.
fn sure<T>(known: Option<T>) -> Result<T, DirectExit> {
    known.ok_or(DirectExit::GaveUp)
}

fn check_result_budget(bytes: usize, budget: usize) -> Result<(), DirectExit> {
    if bytes > budget { Err(DirectExit::GaveUp) } else { Ok(()) }
}

/// Compares two numbers, if both are and that is asked for.
fn compare(operator: Binary, left: Value<'_>, right: Value<'_>) -> Option<bool> {
    let (Value::Number(left), Value::Number(right)) = (left, right) else { return None };
    match operator {
        Binary::Less => Some(left < right),
        Binary::LessOrEqual => Some(left <= right),
        Binary::Greater => Some(left > right),
        Binary::GreaterOrEqual => Some(left >= right),
        _ => None,
    }
}
