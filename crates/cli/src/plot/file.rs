//! Writing pictures: the format by the name's extension, under a temporary name first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use foretell_output::Output;
use resvg::{tiny_skia, usvg};

/// Pixels of a PNG to a unit of the SVG: sharp on paper and on dense screens.
const PIXELS: f32 = 2.0;

/// A file to be drawn into, checked before anything is computed.
#[derive(Debug)]
pub struct Picture {
    flag: &'static str,
    path: PathBuf,
    format: Format,
    /// A pipe stays open: else its reader sees the end, and goes.
    _held: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Html,
}

impl Picture {
    /// The file of `--plot`.
    ///
    /// # Errors
    /// Another extension than `.svg` and `.png`; a directory that is not there.
    pub fn plot(path: &Path) -> Result<Picture> {
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let format = match extension.as_deref() {
            Some("svg") => Format::Svg,
            Some("png") => Format::Png,
            Some(other) => bail!("--plot {}: no format '.{other}'; give .svg or .png", path.display()),
            None => bail!("--plot {}: no extension; give .svg or .png", path.display()),
        };
        Picture::checked("--plot", path, format)
    }

    /// The file of `--svg`.
    ///
    /// # Errors
    /// A directory that is not there.
    pub fn svg(path: &Path) -> Result<Picture> {
        Picture::checked("--svg", path, Format::Svg)
    }

    /// The file of `--png`.
    ///
    /// # Errors
    /// A directory that is not there.
    pub fn png(path: &Path) -> Result<Picture> {
        Picture::checked("--png", path, Format::Png)
    }

    /// The file of `--html`.
    ///
    /// # Errors
    /// A directory that is not there.
    pub fn html(path: &Path) -> Result<Picture> {
        Picture::checked("--html", path, Format::Html)
    }

    fn checked(flag: &'static str, path: &Path, format: Format) -> Result<Picture> {
        let held = Output::open(path).map_err(|e| anyhow!("{flag} {e}"))?;
        Ok(Picture { flag, path: path.to_owned(), format, _held: held })
    }
}

/// Writes `drawn`, an SVG or a page as the picture wants it.
///
/// # Errors
/// The directory cannot be written to; no font for a PNG.
pub fn write(picture: &Picture, drawn: &str) -> Result<()> {
    let bytes = match picture.format {
        Format::Svg | Format::Html => drawn.as_bytes().to_vec(),
        Format::Png => png(drawn).with_context(|| format!("{} {}", picture.flag, picture.path.display()))?,
    };
    foretell_output::write(&picture.path, &bytes).map_err(|e| anyhow!("{} {e}", picture.flag))
}

fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_system_fonts();
    let family = fonts.faces().find(|face| is_sans(face)).or_else(|| fonts.faces().next());
    let family = family.and_then(|face| face.families.first()).map(|(name, _)| name.clone());
    let family = family.ok_or_else(|| {
        anyhow!("a PNG needs a font and there is none; install one (fonts-dejavu-core), or write a .svg")
    })?;
    fonts.set_sans_serif_family(family);
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options).context("internal: the drawing is no SVG")?;
    let size = tree.size().to_int_size().scale_by(PIXELS).context("internal: the drawing has no size")?;
    let mut pixels =
        tiny_skia::Pixmap::new(size.width(), size.height()).context("no memory for the pixels")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(PIXELS, PIXELS), &mut pixels.as_mut());
    pixels.encode_png().context("the pixels do not become a PNG")
}

/// Plain faces of the families that most systems have.
fn is_sans(face: &usvg::fontdb::FaceInfo) -> bool {
    const FAMILIES: [&str; 4] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial"];
    face.families.iter().any(|(name, _)| FAMILIES.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(path: &str) -> String {
        Picture::plot(Path::new(path)).unwrap_err().to_string()
    }

    #[test]
    fn the_extension_says_the_format() {
        assert_eq!(Picture::plot(Path::new("a.PNG")).unwrap().format, Format::Png);
        assert_eq!(says("a.gif"), "--plot a.gif: no format '.gif'; give .svg or .png");
        assert_eq!(says("a"), "--plot a: no extension; give .svg or .png");
        assert_eq!(
            says("/no/such/a.svg"),
            "--plot /no/such/a.svg: there is no directory /no/such; make it first"
        );
    }
}
