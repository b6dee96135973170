//! A rule of the command line: what was understood is printed as a rule that reads back the same, and its
//! absolute form is absolute, is a rule, and stays as it is.

#![no_main]

use std::path::Path;

use foretell::rule::Rule;
use foretell_fuzz::one_line_about;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let rule = match Rule::parse(text) {
        Ok(rule) => rule,
        Err(e) => return one_line_about(&e, text),
    };
    assert_eq!(Rule::parse(&rule.to_string()).as_ref(), Ok(&rule));
    let absolute = rule.absolute(Path::new("/nowhere"));
    assert_eq!(Rule::parse(&absolute.to_string()).as_ref(), Ok(&absolute));
    assert_eq!(absolute.clone().absolute(Path::new("/elsewhere")), absolute);
    assert!(absolute.root().is_absolute());
});
