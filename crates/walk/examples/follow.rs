//! What would have been guessed of a job: paths on standard input, one a line, in the order in which they were read
//! (`foretell trace hints RECORDING | cut -d' ' -f1`, say). The directories have to be there.

use std::io::{BufRead, stdin};

use foretell_walk::{Disk, Extent, Visit, Walks};

fn main() {
    let mut walks = Walks::new(Disk::as_mounted(), 16 << 20);
    let (mut visits, mut left) = (0_u64, Vec::new());
    for path in stdin().lock().lines().map_while(Result::ok) {
        let visit = Visit {
            path: path.clone().into(),
            waited_ns: 1,
            has_fetched: true,
            left: std::mem::take(&mut left),
        };
        let asked = walks.visit(&visit).len();
        left.push((visit.path.into(), Extent { read: 8, of: 8 }));
        walks.looked_at(1, 1);
        visits += 1;
        println!("{path}: {asked} asked for, {:?}", walks.guesses());
    }
    println!("{visits} visits");
}
