//! Has the disk write while a sweep computes. Who syncs waits for all that is dirty; handed over
//! early, most of it is written by then.
//!
//! It promises nothing: what has to be on disk is synced as before.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::ffi::begin_writing;

/// How often what has become dirty is handed over.
const EVERY: Duration = Duration::from_millis(8);

/// Hands the pages of a database over to the disk while it is switched on.
pub(crate) struct EarlyWriting {
    switch: Option<Sender<bool>>,
    on: bool,
    thread: Option<JoinHandle<()>>,
}

impl EarlyWriting {
    /// Of the main file and of the one beside it that the transactions go through first, switched
    /// off. Without a thread it does nothing.
    pub(crate) fn of(file: &Arc<File>, beside: PathBuf) -> Self {
        let (switch, told) = channel();
        let file = Arc::clone(file);
        let hand_over = thread::Builder::new().name("tdekit-early".into());
        let thread = hand_over.spawn(move || run(&told, &file, &beside)).ok();
        Self { switch: thread.is_some().then_some(switch), on: false, thread }
    }

    pub(crate) fn switch(&mut self, on: bool) {
        if let Some(switch) = &self.switch
            && std::mem::replace(&mut self.on, on) != on
        {
            // It has ended only where it panicked, and then nothing is handed over.
            let _ = switch.send(on);
        }
    }
}

impl Drop for EarlyWriting {
    fn drop(&mut self) {
        self.switch = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Until the other end is gone.
fn run(told: &Receiver<bool>, file: &File, beside: &Path) {
    let mut on = false;
    loop {
        let now = match on {
            true => told.recv_timeout(EVERY),
            false => told.recv().map_err(RecvTimeoutError::from),
        };
        match now {
            Ok(now) => on = now,
            Err(RecvTimeoutError::Timeout) => {
                // A journal is another file in each transaction; a pipe in its place must not
                // hold us up. SQLite has no locks on it that closing it would drop.
                let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
                if let Ok(beside) = OpenOptions::new().read(true).custom_flags(flags).open(beside) {
                    begin_writing(&beside);
                }
                begin_writing(file);
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_whatever_stands_beside_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = Arc::new(File::create_new(dir.path().join("a.db")).unwrap());
        let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        std::os::unix::fs::symlink("a.db", &link).unwrap();
        for beside in [dir.path().join("missing"), dir.path().to_owned(), pipe, link] {
            let mut early = EarlyWriting::of(&file, beside);
            assert!(early.thread.is_some());
            early.switch(true);
            thread::sleep(EVERY * 3);
            assert!(!early.thread.as_ref().unwrap().is_finished());
            early.switch(false);
            drop(early);
        }
        // Nobody else holds it: the threads are gone.
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
