//! What another run says, line by line: a request that was understood is written as one line that reads
//! back the same; its rules are read as the listening run reads them.

#![no_main]

use foretell::join::{Reply, Request};
use foretell::rule::{self, Rule};
use foretell_fuzz::one_line;
use foretelld::{RunRequest, RunRule};
use libfuzzer_sys::fuzz_target;

fn rules(rules: &[RunRule]) {
    let rules: Result<Vec<Rule>, _> = rules.iter().cloned().map(Rule::try_from).collect();
    let _ = rules.map(|rules| rule::check(&rules));
}

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|&byte| byte == b'\n') {
        match serde_json::from_slice::<Request>(line) {
            Ok(request) => {
                let written = serde_json::to_string(&request).expect("a request is JSON");
                assert!(!written.contains('\n'));
                assert_eq!(serde_json::from_str::<Request>(&written).expect(&written), request);
                match &request {
                    Request::Rules { rules: theirs } => rules(theirs),
                    Request::Run { request: RunRequest::Start { managers }, .. } => {
                        managers.iter().for_each(|manager| rules(&manager.rules));
                    }
                    Request::Run { .. } => {}
                }
            }
            Err(e) => {
                let answer = Reply::Error { message: e.to_string() };
                one_line(&serde_json::to_string(&answer).expect("a reply is JSON"));
            }
        }
        // Not compared: the decimal fractions of a report may change in their last digit.
        if let Ok(reply) = serde_json::from_slice::<Reply>(line) {
            let written = serde_json::to_string(&reply).expect("a reply is JSON");
            serde_json::from_str::<Reply>(&written).expect(&written);
        }
    }
});
