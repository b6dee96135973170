//! Planners: what to fetch before it is referenced. One file an algorithm.
//!
//! A planner is asked after every reference, when a fetch has ended and when a list has grown. It looks at the
//! [`Desk`] and asks for one block after the other; the books make room for each at once, by the allocation's
//! rules, and hand the batch to the plane in the configured [`crate::Order`]. All that a planner remembers is its
//! own. A new one is a file here and a line in the table below.

mod aggressive;
mod controlled_aggressive;
mod fixed_horizon;
mod forestall;
mod history;
mod informed;
mod nearest;
mod nothing;
mod one_block;
mod reverse_aggressive;
mod sequential;
mod unordered;

pub use sequential::KernelReadahead;
pub(crate) use sequential::Sequential as Windows;

use crate::blocks::BlockId;
use crate::books::Desk;
use crate::config::Config;
use crate::ids::{Block, ManagerId};
use crate::input::Input;

/// What made the engine ask what to prefetch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Occasion {
    /// A process referenced this block.
    Reference(Block),
    /// A fetch ended, or a list grew.
    Opportunity,
}

/// An algorithm that decides what to fetch ahead of its use.
pub(crate) trait Planner: std::fmt::Debug + Send {
    /// Fetches for `manager` what should be fetched now.
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, occasion: Occasion);

    /// Takes note of times, of managers that come and go, and of what is said to planners alone.
    fn note(&mut self, desk: &mut Desk<'_>, input: &Input<'_>) {
        let _ = (desk, input);
    }

    /// The share of what `manager` references for the first time that its lists name, at whatever place; `None` as long as
    /// too little was seen, or where a planner does not ask.
    fn known_share(&self, manager: ManagerId) -> Option<f64> {
        let _ = manager;
        None
    }

    /// A process of `manager` waits for a block that is not on its way: room may be made for it as planned.
    fn before_demand(&mut self, desk: &mut Desk<'_>, manager: ManagerId, b: BlockId) {
        let _ = (desk, manager, b);
    }
}

/// The table of planners: name, what it is called in configurations, who makes it, whether it asks for times.
macro_rules! planners {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $make:expr, times: $times:literal, doubts: $doubts:literal;)*) => {
        /// What to fetch before it is referenced: the planners by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Prefetch {
            $($(#[$doc])* $variant,)*
        }

        impl Prefetch {
            /// All of them.
            pub const ALL: &'static [Prefetch] = &[$(Prefetch::$variant),*];

            /// Its name in configurations and on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Prefetch::$variant => $name,)* }
            }

            /// Does it ask for [`Input::Served`] and [`Input::Computed`]?
            #[must_use]
            pub fn wants_times(self) -> bool {
                match self { $(Prefetch::$variant => $times,)* }
            }

            /// Does it take lists for partly wrong or incomplete? Then what they leave out of a run is completed, and
            /// blocks that they do not name are worth what is measured. The others believe them to the letter.
            #[must_use]
            pub fn doubts_lists(self) -> bool {
                match self { $(Prefetch::$variant => $doubts,)* }
            }

            /// The planner of that name, with nothing remembered yet.
            pub(crate) fn planner(self, config: &Config) -> Box<dyn Planner> {
                match self { $(Prefetch::$variant => Box::new($make(config)),)* }
            }
        }
    };
}

planners! {
    /// Nothing.
    None = "none", nothing::Nothing::new, times: false, doubts: false;
    /// When block k is referenced, block k + 1 of the same file (most file systems of 1996).
    OneBlock = "one-block", one_block::OneBlock::new, times: false, doubts: false;
    /// The next missing blocks of the disclosed list, as early as "do no harm" allows, in batches
    /// (Cao et al. 1996, sections 2.1.2 and 4.3).
    ControlledAggressive = "controlled-aggressive", controlled_aggressive::ControlledAggressive::new, times: false, doubts: false;
    /// Clusters that double while a file is read sequentially (4.4BSD).
    Bsd = "bsd", sequential::Sequential::bsd, times: false, doubts: false;
    /// A window with a marker that grows while a file is read sequentially (Linux).
    Linux = "linux", sequential::Sequential::linux, times: false, doubts: false;
    /// Every missing block at most H references ahead (Kimbrel et al. 1996, section 2.3).
    FixedHorizon = "fixed-horizon", fixed_horizon::FixedHorizon::new, times: false, doubts: false;
    /// The first missing blocks of every free disk, in batches (Kimbrel et al. 1996, section 2.4).
    Aggressive = "aggressive", aggressive::Aggressive::new, times: false, doubts: false;
    /// As late as a stall can just be avoided (Kimbrel et al. 1996, section 5).
    Forestall = "forestall", forestall::Forestall::new, times: true, doubts: false;
    /// Forestall for lists that may be partly wrong: what is worth its cost by the measured chance, and the kernel's
    /// readahead for what no list names. The one to use.
    Informed = "informed", informed::Informed::new, times: true, doubts: true;
    /// By a schedule made offline on the reversed references, handed in with [`Input::Scheduled`] (Kimbrel et al.
    /// 1996, section 2.5).
    ReverseAggressive = "reverse-aggressive", reverse_aggressive::ReverseAggressive::new, times: false, doubts: false;
}

impl Prefetch {
    /// The one to use where there are lists and nobody says otherwise.
    pub const FOR_LISTS: Prefetch = Prefetch::Informed;
}

/// A planner's name that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPrefetch {
    /// What was asked for.
    pub name: String,
}

impl std::fmt::Display for UnknownPrefetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = Prefetch::ALL.iter().map(|p| p.name()).collect();
        write!(f, "unknown prefetching '{}'; there are {}", self.name, names.join(", "))
    }
}

impl std::error::Error for UnknownPrefetch {}

impl std::fmt::Display for Prefetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Prefetch {
    type Err = UnknownPrefetch;
    fn from_str(name: &str) -> Result<Prefetch, UnknownPrefetch> {
        let found = Prefetch::ALL.iter().copied().find(|p| p.name() == name);
        found.ok_or_else(|| UnknownPrefetch { name: name.to_owned() })
    }
}
