//! Predictions and advice as one self-contained page: no scripts, nothing loaded from elsewhere, light and
//! dark; the look of the page of `foretell sim`.

use std::fmt::Write;

use foretell_device::DeviceParameters;

use super::draw::{CARD, COMPUTE, COMPUTED, INK, LINE, PANEL, SAVED, SOFT, WAIT, panel_svg};
use super::panels::Panel;
use super::pattern::shades;
use crate::sweep::page::escape;
use plotters::style::RGBColor;

const STYLE: &str = include_str!("../sweep/page.css");

/// What a page says besides its panels.
#[derive(Debug)]
pub struct Page<'a> {
    /// `foretell model predict` or `advise`.
    pub kind: &'a str,
    /// What is read.
    pub workload: &'a str,
    /// Where from.
    pub device: &'a DeviceParameters,
    /// Name and value, in a row.
    pub facts: Vec<(&'static str, String)>,
    /// A heading for `findings`, and each with what is said of it.
    pub found: &'static str,
    /// See `found`.
    pub findings: Vec<(String, String)>,
    /// Headings and rows of the figures.
    pub headings: Vec<&'static str>,
    /// See `headings`.
    pub rows: Vec<Vec<String>>,
    /// What the user typed.
    pub command: String,
}

/// The page.
///
/// # Errors
/// What the drawing says.
pub fn page(page: &Page, panels: &[Panel]) -> Result<String, String> {
    let title = escape(page.workload);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}: {}</title>\n<style>\n{STYLE}\
         .panels {{ grid-template-columns: repeat(auto-fill, minmax(min(100%, 520px), 1fr)); }}\n\
         .findings {{ columns: auto; }}\n.findings strong {{ flex-basis: 13rem; }}\n\
         :root {{ --computed: #c9d7e6; }}\n\
         @media (prefers-color-scheme: dark) {{ :root {{ --computed: #2c4460; }} }}\n\
         td:first-child, th:first-child {{ text-align: left; }}\n\
         </style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"kind\">{}</p>\n<h1>{title}</h1>\n\
         <dl class=\"facts\">\n",
        escape(page.kind),
        escape(page.kind)
    );
    for (name, value) in &page.facts {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    }
    out += "</dl>\n";
    for unverified in &page.device.unverified {
        let _ = writeln!(
            out,
            "<p class=\"note\">Not certain: {}: {}</p>",
            escape(&unverified.field),
            escape(&unverified.reason)
        );
    }
    let _ = write!(out, "</header>\n<section>\n<h2>{}</h2>\n<ul class=\"findings\">\n", page.found);
    for (what, said) in &page.findings {
        let _ = writeln!(out, "<li><strong>{}</strong><span>{}</span></li>", escape(what), escape(said));
    }
    out += "</ul>\n</section>\n<section>\n<h2>Pictures</h2>\n<div class=\"panels\">\n";
    for panel in panels {
        let _ = write!(
            out,
            "<figure><figcaption>{}</figcaption>\n{}</figure>\n",
            escape(&panel.title),
            inlined(&panel_svg(panel)?, &panel.said)
        );
    }
    out += "</div>\n</section>\n<section>\n<h2>Figures</h2>\n<div class=\"scroll\"><table>\n<thead><tr>";
    for heading in &page.headings {
        let _ = write!(out, "<th scope=\"col\">{heading}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &page.rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    let _ = write!(
        out,
        "</tbody>\n</table></div>\n</section>\n<footer><p>A closed-form model, not a measurement. The causes \
         save partly the same time and are counted in the order shown.</p>\n<pre>{}</pre>\n\
         <p>foretell {}</p></footer>\n</main>\n</body>\n</html>\n",
        escape(&page.command),
        env!("CARGO_PKG_VERSION")
    );
    Ok(out)
}

/// An SVG inside a page: it scales, it has a name, its colours are the page's.
pub(crate) fn inlined(svg: &str, said: &str) -> String {
    let from = svg.find("<svg").unwrap_or(0);
    let open = svg[from..].find('>').map_or(from, |at| from + at);
    let size = |name: &str| {
        let value = svg[from..open].split_once(&format!(" {name}=\""))?.1.split('"').next()?;
        value.parse::<u32>().ok()
    };
    let (width, height) = (size("width").unwrap_or(PANEL.0), size("height").unwrap_or(PANEL.1));
    let mut body = svg[open..].to_owned();
    for (color, variable, percent) in shades() {
        let mixed = format!("\"color-mix(in srgb, var(--{variable}) {percent}%, var(--card))\"");
        body = body.replace(&format!("\"{}\"", hex(color)), &mixed);
    }
    for (color, variable) in [
        (CARD, "card"),
        (INK, "ink"),
        (SOFT, "soft"),
        (LINE, "line"),
        (COMPUTE, "compute"),
        (COMPUTED, "computed"),
        (SAVED, "driver"),
        (WAIT, "stall"),
    ] {
        body = body.replace(&format!("\"{}\"", hex(color)), &format!("\"var(--{variable})\""));
    }
    format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\"{body}", escape(said))
}

/// A colour as plotters writes it.
fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}
