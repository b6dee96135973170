//! An input that owns what it names, so that it can be kept.

use foretell_policy::{Block, Input, Layout, ManagerId};

/// An [`Input`] that outlives the call it was told in.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnedInput {
    /// An input that borrows nothing: all but the two below.
    Plain(Input<'static>),
    /// [`Input::FileAdded`].
    FileAdded {
        /// Where the file's blocks are.
        layout: Layout,
    },
    /// [`Input::Disclosed`].
    Disclosed {
        /// Whose.
        manager: ManagerId,
        /// The number of the list.
        list: u32,
        /// What will be referenced.
        blocks: Vec<Block>,
    },
}

impl OwnedInput {
    /// The input, to be told.
    #[must_use]
    pub fn as_input(&self) -> Input<'_> {
        match self {
            OwnedInput::Plain(input) => *input,
            OwnedInput::FileAdded { layout } => Input::FileAdded { layout },
            OwnedInput::Disclosed { manager, list, blocks } => {
                Input::Disclosed { manager: *manager, list: *list, blocks }
            }
        }
    }
}
