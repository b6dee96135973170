//! Whose references they are.

use foretell_policy::{ManagerId, ProcessId};

use crate::readers::Reading;

/// Whose references and disclosures they are, if not the pool's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who {
    pub(crate) manager: ManagerId,
    pub(crate) process: ProcessId,
}

/// Who reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By {
    pub(crate) who: Option<Who>,
    pub(crate) reading: Reading,
}
