//! What runs say to each other: JSON, one message a line.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::rule::{self, Rule, RuleError};
use crate::stats::Stats;

/// The longest request, in bytes; a longer one ends the connection.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// The longest reply: a report names up to 4,096 processes of a few hundred bytes each.
pub(super) const MAX_REPLY_BYTES: usize = 64 << 20;
/// The most managers that one run may bring.
pub(super) const MAX_MANAGERS: usize = 257;

/// From the run that connects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Which rules hold, and is a file managed already to which these would give another policy? Answered
    /// with [`Reply::Rules`].
    Rules {
        /// `GLOB=POLICY[,priority=N]`, absolute.
        rules: Vec<String>,
    },
    /// Take a program under control. Answered with [`Reply::Joined`]. Once a connection.
    Join {
        /// The program's process, a child of the process that connects; it has not begun yet.
        root_pid: u32,
        /// Under whose rules its processes are.
        managers: Vec<WireManager>,
    },
    /// What the processes of a manager will read. Answered with [`Reply::Taken`] when the list had room for
    /// all; nothing more may be sent until then, except [`Request::Report`].
    Hints {
        /// Which of the managers of [`Request::Join`], from 0.
        manager: usize,
        /// Lines of a hint file, with absolute paths.
        hints: Vec<String>,
    },
    /// What has been done for this program. Answered with [`Reply::Report`].
    Report,
}

/// A manager of a joining run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireManager {
    /// A name for reports.
    pub name: String,
    /// The executable's name of its processes; none for all that no other one names.
    pub process: Option<String>,
    /// `GLOB=POLICY[,priority=N]`, absolute.
    pub rules: Vec<String>,
}

/// From the run that listens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    /// The rules that hold here.
    Rules {
        /// `GLOB=POLICY[,priority=N]`, absolute.
        rules: Vec<String>,
        /// A file that is managed already and would get another policy, in words.
        conflict: Option<String>,
    },
    /// The program is under control.
    Joined {
        /// A file that a rule matches and that is under another one already, in words: such files are left alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflict: Option<String>,
    },
    /// The hints were taken.
    Taken {
        /// How many could not be followed, in all.
        skipped: u64,
        /// The first reason, once.
        problem: Option<String>,
    },
    /// What was done. Also sent unasked when the run ends before the program that joined it.
    Report(Box<Stats>),
    /// The request was refused, and nothing was changed.
    Error {
        /// Why, and what to do.
        message: String,
    },
}

/// Reads rules that came over the wire.
pub(super) fn parse_rules(texts: &[String]) -> Result<Vec<Rule>, RuleError> {
    let rules = texts.iter().map(|text| Rule::parse(text)).collect::<Result<Vec<_>, _>>()?;
    if rules.len() > rule::MAX_RULES {
        return Err(RuleError::TooMany(rules.len()));
    }
    Ok(rules)
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

    #[test]
    fn messages_are_one_line_and_read_back() {
        let join = Request::Join {
            root_pid: 7,
            managers: vec![WireManager { name: "a\nb".into(), process: None, rules: vec!["/x=mru".into()] }],
        };
        let line = encode(&join).unwrap();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), join);
        let report = Reply::Report(Box::default());
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
