//! Independent references with a Zipf distribution: the k-th most popular of n blocks is drawn in
//! proportion to 1 / k^alpha.
//!
//! Drawn by rejection-inversion (Hörmann and Derflinger 1996): invert the integral of the hat function
//! x^-alpha, round to k, accept if the point lies under the bar of k. Constant time and no table, whatever
//! n is. Popular blocks lie anywhere in the file: rank k is block (k x stride) mod n, with a stride prime
//! to n near the golden section.

use super::Plan;
use super::compute::Shape;
use super::random::Random;

#[derive(Debug)]
pub(super) struct Zipf {
    alpha: f64,
    n: f64,
    /// The integral at 1.5 less the height of the first bar, and at n + 0.5: where to draw from.
    low: f64,
    high: f64,
    /// Ranks whose draw lies this close below their centre are accepted without evaluating the bar.
    always: f64,
}

impl Zipf {
    pub(super) fn new(n: u32, alpha: f64) -> Zipf {
        let mut zipf = Zipf { alpha, n: f64::from(n), low: 0.0, high: 0.0, always: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.n + 0.5);
        zipf.always = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.bar(2.0));
        zipf
    }

    fn bar(&self, x: f64) -> f64 {
        (-self.alpha * x.ln()).exp()
    }

    /// The integral of x^-alpha from 1 to x, written so that alpha = 1 is no special case.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        let t = (1.0 - self.alpha) * ln;
        if t.abs() < 1e-8 { ln * (1.0 + t / 2.0) } else { ln * t.exp_m1() / t }
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.alpha)).max(-1.0);
        let ln = if t.abs() < 1e-8 { y * (1.0 - t / 2.0) } else { y * t.ln_1p() / t };
        ln.exp()
    }

    /// A rank from 1 to n.
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let y = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(y);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.always || y >= self.integral(rank + 0.5) - self.bar(rank) {
                return rank as u32;
            }
        }
    }
}

/// A number prime to n, near n divided by the golden ratio.
fn stride(n: u32) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let n = u64::from(n);
    let golden = (n as f64 * 0.618_033_988_75) as u64;
    (golden.max(1)..).find(|&s| gcd(s, n) == 1).unwrap_or(1)
}

pub(super) fn zipf(references: u64, objects: u32, alpha: f64, seed: u64) -> Plan {
    let objects = objects.max(1);
    let (zipf, stride, mut random) = (Zipf::new(objects, alpha), stride(objects), Random::new(seed, 2));
    let visits = (0..references).map(move |_| {
        let rank = u64::from(zipf.draw(&mut random)) - 1;
        (0, (rank * stride % u64::from(objects)) as u32)
    });
    Plan { files: vec![("objects".to_owned(), objects)], visits: Box::new(visits), shape: Shape::Constant }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_in_proportion_to_their_weight() {
        for alpha in [0.0, 0.7, 1.0, 1.5] {
            let (n, draws) = (20, 400_000);
            let (zipf, mut random) = (Zipf::new(n, alpha), Random::new(7, 2));
            let mut counts = vec![0u32; n as usize];
            (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize - 1] += 1);
            let weight = |k: u32| f64::from(k + 1).powf(-alpha);
            let sum: f64 = (0..n).map(weight).sum();
            for k in 0..n {
                let expected = weight(k) / sum * f64::from(draws);
                let off = (f64::from(counts[k as usize]) - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "alpha {alpha} rank {k}: {off} off {expected}");
            }
        }
    }

    #[test]
    fn every_rank_is_another_block() {
        for n in [1u32, 2, 3, 10, 1000, 1024] {
            let stride = stride(n);
            let mut blocks: Vec<u64> = (0..u64::from(n)).map(|k| k * stride % u64::from(n)).collect();
            blocks.sort_unstable();
            assert_eq!(blocks, (0..u64::from(n)).collect::<Vec<_>>());
        }
    }
}
