//! What runs say to each other: JSON, one message a line.

use std::io::{self, Read};

use foretelld::{RunReply, RunRequest, RunRule};
use serde::{Deserialize, Serialize};

use crate::rule::{self, Rule, RuleError};

/// The longest request, in bytes; a longer one ends the connection.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// The longest reply: a report names up to 4,096 processes of a few hundred bytes each.
pub(super) const MAX_REPLY_BYTES: usize = 64 << 20;
/// The most managers that one run may bring.
pub(super) const MAX_MANAGERS: usize = 257;

/// From the run that connects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Which rules hold, and is a file managed already to which these would give another policy? Answered
    /// with [`Reply::Rules`].
    Rules {
        /// Absolute.
        rules: Vec<RunRule>,
    },
    /// What the service is asked as well. Answered with [`Reply::Run`].
    Run {
        /// The program's process, a child of the process that connects; it has not begun when it is started.
        root_pid: u32,
        /// What about it.
        request: RunRequest,
    },
}

/// From the run that listens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    /// The rules that hold here.
    Rules {
        /// Absolute.
        rules: Vec<RunRule>,
        /// A file that is managed already and would get another policy, in words.
        conflict: Option<String>,
    },
    /// What the service answers as well. A report is also sent unasked when the run ends before the program that joined it.
    Run {
        /// The answer.
        reply: RunReply,
    },
    /// The request was refused, and nothing was changed.
    Error {
        /// Why, and what to do.
        message: String,
    },
}

/// Reads rules that came over the wire.
pub(super) fn read_rules(rules: Vec<RunRule>) -> Result<Vec<Rule>, RuleError> {
    if rules.len() > MAX_MANAGERS * rule::MAX_RULES {
        return Err(RuleError::TooMany(rules.len()));
    }
    rules.into_iter().map(Rule::try_from).collect()
}

/// One line of JSON.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// What came in and is not a whole line yet.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    limit_bytes: usize,
}

/// What reading brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// All that there was, for now.
    Some,
    /// The other side has closed.
    End,
}

impl Inbox {
    /// An inbox for lines of at most `limit_bytes`.
    pub(super) fn new(limit_bytes: usize) -> Inbox {
        Inbox { bytes: Vec::new(), limit_bytes }
    }

    /// Reads what is there without waiting (from a non-blocking stream), or until the limit is reached.
    pub(super) fn fill(&mut self, stream: &mut impl Read) -> io::Result<Filled> {
        let mut piece = [0; 16 << 10];
        while self.bytes.len() <= self.limit_bytes {
            match stream.read(&mut piece) {
                Ok(0) => return Ok(Filled::End),
                Ok(read) => self.bytes.extend_from_slice(&piece[..read]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Filled::Some),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Filled::Some)
    }

    /// The next whole line, without its newline.
    pub(super) fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|&b| b == b'\n')?;
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// Is the line that has begun longer than allowed?
    pub(super) fn is_over_limit(&self) -> bool {
        self.bytes.len() > self.limit_bytes && !self.bytes.contains(&b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretelld::RunManager;

    #[test]
    fn messages_are_one_line_and_read_back() {
        let managers = vec![RunManager { name: "a\nb".into(), process: None, rules: Vec::new() }];
        let join = Request::Run { root_pid: 7, request: RunRequest::Start { managers } };
        let line = encode(&join).unwrap();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), join);
        let report = Reply::Run { reply: RunReply::Report { report: Box::default(), skipped: 3 } };
        assert_eq!(serde_json::from_slice::<Reply>(&encode(&report).unwrap()).unwrap(), report);
    }

    #[test]
    fn lines_are_cut_and_bounded() {
        let mut inbox = Inbox::new(8);
        assert_eq!(inbox.fill(&mut &b"ab\ncd"[..]).unwrap(), Filled::End);
        assert_eq!((inbox.next_line(), inbox.next_line()), (Some(b"ab".to_vec()), None));
        assert_eq!(inbox.fill(&mut &b"efghijkl"[..]).unwrap(), Filled::Some);
        assert!(inbox.is_over_limit());
    }
}
