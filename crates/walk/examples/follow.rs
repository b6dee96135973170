//! What would have been guessed of a job: paths on standard input, one a line, in the order in which they were read
//! (`foretell trace hints RECORDING | cut -d' ' -f1`, say). The directories have to be there.

use std::io::{BufRead, stdin};

use foretell_walk::{Disk, Extent, Visit, Walks};

fn main() {
    let mut walks = Walks::new(Disk::as_mounted(), 16 << 20);
    let mut visits = 0_u64;
    for path in stdin().lock().lines().map_while(Result::ok) {
        let before = Some(Extent { read: 8, of: 8 });
        let asked = walks.visit(&Visit { path: path.clone().into(), waited_ns: 1, before }).len();
        walks.looked_at(1, 1);
        visits += 1;
        println!("{path}: {asked} asked for, {:?}", walks.guesses());
    }
    println!("{visits} visits");
}
