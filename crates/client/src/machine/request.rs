//! One request until its last answer.

use std::collections::VecDeque;
use std::time::Duration;

use arioso_wire::{Answer, Body, ErrorFrame, Request as RequestFrame, Text};

use super::channels::Wake;
use super::event::{Event, RequestId};
use super::output::Output;
use super::retry_pause;
use crate::completeness::SUM_ROWS_MAX;
use crate::options::ANSWERS_MAX;
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Request {
    id: RequestId,
    frame: RequestFrame,
    sent: bool,
    answers: Vec<Answer>,
    not_before: Duration,
    over: bool,
}

impl Request {
    pub(crate) fn new(id: RequestId, frame: RequestFrame) -> Request {
        Request { id, frame, sent: false, answers: Vec::new(), not_before: Duration::ZERO, over: false }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn wake(&self, now: Duration) -> Wake {
        match self.sent || self.over {
            true => Wake::No,
            false if self.not_before > now => Wake::At(self.not_before),
            false => Wake::Now,
        }
    }

    pub(crate) fn emit(&mut self, now: Duration, out: &mut Output) {
        if self.wake(now) == Wake::Now {
            self.frame.encode(self.id.0, out.buffer());
            self.sent = true;
        }
    }

    pub(crate) fn answered(&mut self, answer: Answer, events: &mut VecDeque<Event>) -> Result<()> {
        if answer.rows.kind() != self.frame.kind() {
            let (got, want) = (answer.rows.kind(), self.frame.kind());
            let what = format!("an answer of kind {got} to a request of kind {want}");
            return Err(Error::protocol(what));
        }
        let more = answer.more;
        self.answers.push(answer);
        let rows: usize = self.answers.iter().map(|answer| answer.rows.len()).sum();
        if rows > self.rows_max() || self.answers.len() > ANSWERS_MAX {
            let (max, answers) = (self.rows_max(), self.answers.len());
            let what = format!("{rows} rows in {answers} answers, {max} rows were asked for");
            return Err(Error::protocol(what));
        }
        if !more {
            let answers = std::mem::take(&mut self.answers);
            self.end_with(Ok(answers), events);
        }
        Ok(())
    }

    fn rows_max(&self) -> usize {
        match &self.frame {
            RequestFrame::Topics { rows_max, .. }
            | RequestFrame::Publishers { rows_max, .. }
            | RequestFrame::Cursors { rows_max, .. } => *rows_max as usize,
            RequestFrame::Sums { .. } => SUM_ROWS_MAX,
            _ => 1,
        }
    }

    /// The channel ended with an error.
    pub(crate) fn channel_error(&mut self, error: &ErrorFrame, now: Duration, events: &mut VecDeque<Event>) {
        if error.code.keeps_number() {
            self.again();
            self.not_before = now + retry_pause(error.retry_after_ms);
        } else {
            self.end_with(Err(Error::refused(error)), events);
        }
    }

    /// The connection is gone: what only asks is asked again, what may have been done is told so.
    pub(crate) fn lost(&mut self, reason: &Error, events: &mut VecDeque<Event>) {
        if self.sent && !self.frame.only_asks() {
            let error = match reason {
                Error::Cut { .. } => reason.clone(),
                reason => Error::Cut { reason: Text::from(reason.to_string()) },
            };
            self.end_with(Err(error), events);
        } else {
            self.again();
            self.not_before = Duration::ZERO;
        }
    }

    fn again(&mut self) {
        self.sent = false;
        self.answers.clear();
    }

    pub(crate) fn end_with(&mut self, outcome: Result<Vec<Answer>>, events: &mut VecDeque<Event>) {
        if !self.over {
            self.over = true;
            events.push_back(Event::Answer { request: self.id, outcome });
        }
    }
}
