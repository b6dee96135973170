//! What runs say to each other's hosts about rules, line by line: what was understood is written as one line that reads back
//! the same; rules are read as the other side reads them.

#![no_main]

use foretell::rule::{self, Rule};
use foretell_fuzz::one_line;
use foretelld::{RunReply, RunRequest, RunRule};
use libfuzzer_sys::fuzz_target;

fn read(rules: &[RunRule]) {
    let rules: Result<Vec<Rule>, _> = rules.iter().cloned().map(Rule::try_from).collect();
    match rules {
        Ok(rules) => drop(rule::check(&rules)),
        Err(error) => one_line(&format!("{error:?}")),
    }
}

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|&byte| byte == b'\n') {
        if let Ok(request) = serde_json::from_slice::<RunRequest>(line) {
            let written = serde_json::to_string(&request).expect("a request is JSON");
            assert!(!written.contains('\n'));
            assert_eq!(serde_json::from_str::<RunRequest>(&written).expect(&written), request);
            match &request {
                RunRequest::Start { managers } => managers.iter().for_each(|manager| read(&manager.rules)),
                RunRequest::Rules { rules, .. } => read(rules),
                RunRequest::YieldTo { rules } => rules.iter().for_each(|rules| read(rules)),
                RunRequest::Hints { .. } | RunRequest::Report => {}
            }
        }
        if let Ok(RunReply::Rules { rules, .. }) = serde_json::from_slice::<RunReply>(line) {
            rules.iter().for_each(|rules| read(rules));
        }
    }
});
