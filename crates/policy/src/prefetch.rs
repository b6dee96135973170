//! The planners by name: what to fetch before it is referenced, as configurations say it.
//!
//! The algorithms are in [`crate::planner`].

/// The table of planners: its name in configurations; whether the page cache plane runs it, or only the simulator; whether it
/// needs lists; whether it asks for times; whether it doubts lists.
macro_rules! planners {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,
        live: $live:literal, lists: $lists:literal, times: $times:literal, doubts: $doubts:literal;)*) => {
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

            /// Does the page cache plane run it? What imitates a kernel's own readahead, or needs a schedule made
            /// offline, is for the simulator only.
            #[must_use]
            pub fn is_live(self) -> bool {
                match self { $(Prefetch::$variant => $live,)* }
            }

            /// Does it fetch by disclosed lists? Without one they fetch nothing, but for the one that doubts them.
            #[must_use]
            pub fn needs_lists(self) -> bool {
                match self { $(Prefetch::$variant => $lists,)* }
            }

            /// Does it ask for [`crate::Input::Served`] and [`crate::Input::Computed`]?
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
        }
    };
}

planners! {
    /// Nothing.
    None = "none", live: true, lists: false, times: false, doubts: false;
    /// When block k is referenced, block k + 1 of the same file (most file systems of 1996).
    OneBlock = "one-block", live: true, lists: false, times: false, doubts: false;
    /// The next missing blocks of the disclosed list, as early as "do no harm" allows, in batches
    /// (Cao et al. 1996, sections 2.1.2 and 4.3).
    ControlledAggressive = "controlled-aggressive", live: true, lists: true, times: false, doubts: false;
    /// Clusters that double while a file is read sequentially (4.4BSD).
    Bsd = "bsd", live: false, lists: false, times: false, doubts: false;
    /// A window with a marker that grows while a file is read sequentially (Linux).
    Linux = "linux", live: false, lists: false, times: false, doubts: false;
    /// Every missing block at most H references ahead (Kimbrel et al. 1996, section 2.3).
    FixedHorizon = "fixed-horizon", live: true, lists: true, times: false, doubts: false;
    /// The first missing blocks of every free disk, in batches (Kimbrel et al. 1996, section 2.4).
    Aggressive = "aggressive", live: true, lists: true, times: false, doubts: false;
    /// As late as a stall can just be avoided (Kimbrel et al. 1996, section 5).
    Forestall = "forestall", live: true, lists: true, times: true, doubts: false;
    /// Forestall for lists that may be partly wrong: what is worth its cost by the measured chance, and the kernel's
    /// readahead for what no list names. The one to use.
    Informed = "informed", live: true, lists: true, times: true, doubts: true;
    /// By a schedule made offline on the reversed references, handed in with [`crate::Input::Scheduled`] (Kimbrel et al.
    /// 1996, section 2.5).
    ReverseAggressive = "reverse-aggressive", live: false, lists: true, times: false, doubts: false;
}

impl Prefetch {
    /// The one to use where there are lists and nobody says otherwise.
    pub const FOR_LISTS: Prefetch = Prefetch::Informed;

    /// Those that the page cache plane runs.
    pub fn live() -> impl Iterator<Item = Prefetch> + Clone {
        Prefetch::ALL.iter().copied().filter(|planner| planner.is_live())
    }
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
