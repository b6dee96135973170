//! `--plot` and `--html` of `predict` and `advise`.

use anyhow::{Result, anyhow};
use foretell_analytic::advise::Advice;
use foretell_analytic::predict::Prediction;
use foretell_analytic::workload::Workload;
use foretell_device::DeviceParameters;

use super::bounds::bound_text;
use super::workload::WorkloadArgs;
use crate::plot::{self, Page, Panel, Picture};
use crate::terminal::command_line;

/// The pictures that were asked for.
pub(super) struct Pictures<'a> {
    plot: Option<Picture>,
    html: Option<Picture>,
    args: &'a WorkloadArgs,
}

impl<'a> Pictures<'a> {
    /// Checks where they are to go.
    pub(super) fn of(args: &'a WorkloadArgs) -> Result<Pictures<'a>> {
        let plot = args.plot.as_deref().map(Picture::plot).transpose()?;
        let html = args.html.as_deref().map(Picture::html).transpose()?;
        Ok(Pictures { plot, html, args })
    }

    fn wanted(&self) -> bool {
        self.plot.is_some() || self.html.is_some()
    }

    pub(super) fn draw_prediction(
        &self,
        device: &DeviceParameters,
        workload: &Workload,
        prediction: &Prediction,
    ) -> Result<()> {
        if !self.wanted() {
            return Ok(());
        }
        let panels = plot::of_prediction(device, workload, prediction);
        let page = Page {
            kind: "foretell model predict",
            found: "What it says",
            findings: vec![
                ("limited by".to_owned(), bound_text(prediction.bound).1.to_owned()),
                ("waiting".to_owned(), plot::ms(prediction.time_ms - prediction.computation_ms)),
            ],
            headings: vec!["cause", "takes off", "share of the time with each read alone"],
            rows: causes(prediction),
            ..self.about(device, workload, prediction)
        };
        self.write(&page, &panels)
    }

    pub(super) fn draw_advice(
        &self,
        device: &DeviceParameters,
        workload: &Workload,
        now: &Prediction,
        advice: &[Advice],
    ) -> Result<()> {
        if !self.wanted() {
            return Ok(());
        }
        let panels = plot::of_advice(device, workload, now, advice);
        let mut findings: Vec<(String, String)> = advice
            .iter()
            .map(|a| {
                (
                    format!("{} {}", a.setting.name(), plot::value(a)),
                    format!("{}; holds if {}", a.because, a.holds_if),
                )
            })
            .collect();
        if findings.is_empty() {
            findings.push(("nothing".to_owned(), "nothing to set would make it 3% faster".to_owned()));
        }
        let rows = advice.iter().map(|a| {
            vec![
                a.setting.name().to_owned(),
                plot::value(a),
                plot::ms(a.time_ms),
                format!("{:.2}", now.time_ms / a.time_ms),
            ]
        });
        let page = Page {
            kind: "foretell model advise",
            found: "What to set",
            findings,
            headings: vec!["setting", "value", "predicted time", "times as fast"],
            rows: rows.collect(),
            ..self.about(device, workload, now)
        };
        self.write(&page, &panels)
    }

    /// A page without findings and figures.
    fn about<'p>(&'p self, device: &'p DeviceParameters, workload: &Workload, p: &Prediction) -> Page<'p> {
        let total = workload.bytes as f64 * f64::from(workload.streams);
        Page {
            kind: "",
            workload: &self.args.workload,
            device,
            facts: vec![
                ("device", device.name.clone()),
                ("bytes", plot::bytes(total)),
                ("time", plot::ms(p.time_ms)),
                ("computation", plot::ms(p.computation_ms)),
                ("rate", format!("{:.1} MB/s", total / p.time_ms / 1e3)),
                ("device reads", p.device_reads.to_string()),
                ("each read alone", plot::ms(p.unprefetched_ms)),
            ],
            found: "",
            findings: Vec::new(),
            headings: Vec::new(),
            rows: Vec::new(),
            command: command_line(),
        }
    }

    fn write(&self, page: &Page, panels: &[Panel]) -> Result<()> {
        let failed = |e: String| anyhow!("internal: the picture cannot be drawn: {e}");
        if let Some(picture) = &self.plot {
            let below = format!("{} on {}, {}", page.kind, page.device.name, page.device.description);
            let sheet = plot::sheet_svg(page.workload, &below, panels).map_err(failed)?;
            plot::write(picture, &sheet)?;
        }
        if let Some(picture) = &self.html {
            plot::write(picture, &plot::page(page, panels).map_err(failed)?)?;
        }
        Ok(())
    }
}

fn causes(p: &Prediction) -> Vec<Vec<String>> {
    let named = [
        ("device readahead", p.saved.device_readahead_ms),
        ("overhead amortised", p.saved.overhead_ms),
        ("positioning saved", p.saved.positioning_ms),
        ("requests in flight", p.saved.parallel_ms),
        ("overlap with computation", p.saved.overlap_ms),
        ("together", p.unprefetched_ms - p.time_ms),
    ];
    let row = |(name, ms): (&str, f64)| {
        let shown = if ms < 0.0 { format!("-{}", plot::ms(-ms)) } else { plot::ms(ms) };
        vec![name.to_owned(), shown, format!("{:.1}%", 100.0 * ms / p.unprefetched_ms)]
    };
    named.into_iter().map(row).collect()
}
