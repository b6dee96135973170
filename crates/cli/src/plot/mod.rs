//! Pictures of what the model says: `--plot FILE.svg|FILE.png` and `--html FILE`.
//!
//! ```text
//! model ──► panels: what is shown, as numbers ──► draw: SVG (plotters) ──► FILE.svg
//!                                                     ├── resvg ──► FILE.png
//!                                                     └── page ──► FILE.html
//! ```

mod draw;
mod file;
mod page;
mod panels;

pub use file::{Picture, write};
pub use page::{Page, page};
pub use panels::{Panel, Shown, bytes, ms, of_advice, of_prediction, value};

pub(crate) use draw::sheet_svg;
