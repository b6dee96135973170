//! Pictures of what the model says: `--plot FILE.svg|FILE.png` and `--html FILE`; and of access patterns, which the
//! terminal shows, too: `foretell trace show`.
//!
//! ```text
//! model ──► panels: what is shown, as numbers ──► draw: SVG (plotters) ──► FILE.svg
//!                                                     ├── resvg ──► FILE.png
//!                                                     └── page ──► FILE.html
//! trace ──► pattern: SVG (plotters) ──► FILE.svg, FILE.png
//!       └── braille ──► text
//! ```

mod braille;
mod draw;
mod file;
mod page;
mod panels;
mod pattern;

pub use braille::{shape, text};
pub use file::{Picture, write};
pub use page::{Page, page};
pub use panels::{Panel, Shown, bytes, ms, of_advice, of_prediction, value};
pub use pattern::{picture, picture_shape};

pub(crate) use draw::sheet_svg;
pub(crate) use page::inlined;
