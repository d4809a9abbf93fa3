//! What a handler keeps with a request, and bodies that it takes by parts.

use std::ffi::{c_int, c_void};

use super::super::{API, DONE, Release};
use super::{Session, count_up, counts};
use crate::call::Waiting;

unsafe extern "C" fn count_data(argument: *mut c_void) {
    // SAFETY: a session passes its counts.
    count_up(&unsafe { counts(argument) }.data);
}

impl Session<'_> {
    /// Keeps a pointer in place of the one before, which is released.
    pub(super) fn keep_data(&mut self) {
        let has_release = !self.choices.rarely();
        let release: Option<Release> = has_release.then_some(count_data);
        let argument = self.argument();
        let (is_there, request) = self.request();
        assert_eq!((API.set_data)(request, argument, release) == DONE, is_there);
        if is_there {
            self.release_data();
            self.data = Some(has_release);
        } else {
            self.data_ended += usize::from(has_release);
        }
        assert_eq!(self.counts.data.get(), self.data_ended);
        let has_data = self.data.is_some();
        let (is_there, request) = self.request();
        assert_eq!(!(API.data)(request).is_null(), is_there && has_data);
    }

    /// What is kept is released from now on.
    pub(super) fn release_data(&mut self) {
        self.data_ended += usize::from(self.data.take() == Some(true));
    }

    /// Makes calls as `jsk_body` does for each part of a body, and does what the worker does then.
    pub(super) fn take_parts(&mut self) {
        for _ in 0..self.choices.below(5) {
            self.begin_part();
            for _ in 0..self.choices.below(6) {
                self.step();
            }
            let code = [0, 0, 0, 7][self.choices.below(4)];
            self.end_part(code);
            if let Some(waiting) = self.call.waiting.take() {
                self.go_on(waiting);
            }
            if self.call.is_answered_early {
                return;
            }
        }
    }

    fn begin_part(&mut self) {
        self.call.begin_part();
        self.is_in_part = true;
    }

    fn end_part(&mut self, code: c_int) {
        self.is_in_part = false;
        let outcome = self.call.end_part(code);
        assert_eq!(outcome.is_ok(), code == 0 && self.waits == self.is_paused);
        if outcome.is_err() {
            let _token = self.call.waiting.take().and_then(Waiting::cancel);
            self.check_called_back();
            self.call.fail_early();
            (self.is_begun, self.parts) = (false, None);
            self.response = Some((500, b"Internal Server Error\n".to_vec()));
            self.fields = vec![(b"Content-Type".to_vec(), b"text/plain".to_vec())];
        } else if self.response.is_some() {
            self.check_called_back();
        }
        assert_eq!(
            (self.call.is_paused(), self.call.waiting.is_some()),
            (self.is_paused, self.waits)
        );
    }

    /// Goes on with a body that is paused, unless its client leaves.
    fn go_on(&mut self, waiting: Waiting) {
        let Waiting::Body(pause) = waiting else { panic!("{waiting:?}") };
        if self.choices.below(4) == 0 {
            let _token = Waiting::Body(pause).cancel();
            self.check_called_back();
            // Nothing more is called.
            self.call.is_answered_early = true;
            return;
        }
        let has_function = pause.resume.is_some();
        self.begin_part();
        let code = pause.resume.map_or(DONE, |resume| resume(Some(&mut *self.call)));
        self.check_called_back();
        if has_function {
            self.response = Some((200, b"later".to_vec()));
        }
        self.end_part(code);
    }

    /// What was waited for has called its function, if it has one.
    fn check_called_back(&mut self) {
        let called = self.counts.gone.take() + self.counts.resumed.take();
        assert_eq!(called, usize::from(self.calls_back));
        (self.waits, self.is_paused, self.calls_back) = (false, false, false);
    }
}
