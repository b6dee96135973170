//! `foretell model calibrate URL`: the device file of an object store.

use anyhow::{Result, anyhow, ensure};
use foretell_analytic::calibrate::{CONNECTIONS, LARGE_BYTES, ObjectCalibration};
use foretell_probe::{Effort, Object};
use serde::Serialize;

use super::calibrate::{Args, EstimateJson, check_output, one_line, progress, write_device_file};
use crate::size::{Size, human_bytes};
use crate::terminal::say;

/// Calibrates, writes the device file and says what was found.
pub(super) fn execute(args: &Args) -> Result<()> {
    let _held = check_output(&args.output)?;
    let rate = args.rate.as_deref().map(bytes_per_s).transpose()?;
    let url = one_line(&args.target);
    let address = without_secrets(&url);
    ensure!(
        !address.contains(":///"),
        "{url}: names no host; give the address of an object, as http://HOST/OBJECT"
    );
    let object = Object::open(&args.target).map_err(|e| anyhow!("{address}: {e}"))?;
    let bar = progress();
    let (found, effort) = object
        .calibrate(|share| bar.set_position((share * 100.0) as u64))
        .map_err(|e| anyhow!("{address}: {e}"))?;
    bar.finish_and_clear();
    let name = args.output.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let description = format!("the store of {address}");
    let text = found.device_file(&name, &description, "measured by foretell model calibrate");
    write_device_file(&args.output, &text)?;
    let connections = rate.map(|rate| found.connections_for(rate, LARGE_BYTES.min(object.bytes) as f64));
    if args.json {
        let json = Json::new(args, &address, &found, connections.flatten(), effort);
        say(&format!("{}\n", serde_json::to_string_pretty(&json)?));
    } else {
        say(&table(args, &address, &found, rate.zip(connections), effort));
    }
    Ok(())
}

/// A presigned address carries its signature behind the question mark, and a name and password before the
/// at sign.
fn without_secrets(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    match path.split_once("://") {
        Some((scheme, rest)) => {
            let (host, behind) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("{scheme}://{host}/{behind}")
        }
        None => path.to_owned(),
    }
}

fn bytes_per_s(text: &str) -> Result<f64> {
    match Size::parse(text).map_err(|e| anyhow!("--rate: {e}"))? {
        Size::Bytes(bytes) if bytes > 0 => Ok(bytes as f64),
        _ => Err(anyhow!("--rate {text}: give bytes a second or a unit, as in 500M")),
    }
}

fn table(
    args: &Args,
    address: &str,
    found: &ObjectCalibration,
    wanted: Option<(f64, Option<u32>)>,
    effort: Effort,
) -> String {
    let percent = |value: f64, error: f64| if value > 0.0 { 100.0 * error / value } else { 0.0 };
    let first = found.first_byte_ms;
    let connection = found.connection_bytes_per_s;
    let mut out = format!(
        "{address} behaves like an object store\n\n  \
         first byte                        {:>12.3} ms      +- {:.1}%, sigma {:.2}\n  \
         rate of a connection              {:>12.3} MB/s    +- {:.1}%\n  \
         rate of {CONNECTIONS} connections            {:>12.3} MB/s\n",
        first.value,
        percent(first.value, first.error),
        found.sigma,
        connection.value / 1e6,
        percent(connection.value, connection.error),
        found.network_bytes_per_s / 1e6,
    );
    if let Some((rate, connections)) = wanted {
        let rate = rate / 1e6;
        out += &match connections {
            Some(n) => {
                format!("  {rate:.1} MB/s need {n} connections, in parts of {}\n", human_bytes(LARGE_BYTES))
            }
            None => format!(
                "  {rate:.1} MB/s are more than {CONNECTIONS} connections brought; none were found to suffice\n"
            ),
        };
    }
    out += &format!(
        "\n{} read in {:.1} s; wrote {}\n",
        human_bytes(effort.bytes),
        effort.time.as_secs_f64(),
        args.output.display()
    );
    out
}

/// What was found, as JSON: ms and bytes a second.
#[derive(Serialize)]
struct Json<'a> {
    target: &'a str,
    device_file: &'a std::path::Path,
    behaves_like: &'static str,
    first_byte_ms: EstimateJson,
    first_byte_sigma: f64,
    connection_bytes_per_s: EstimateJson,
    network_bytes_per_s: f64,
    connections_for_rate: Option<u32>,
    read_bytes: u64,
    seconds: f64,
}

impl<'a> Json<'a> {
    fn new(
        args: &'a Args,
        address: &'a str,
        found: &ObjectCalibration,
        connections_for_rate: Option<u32>,
        effort: Effort,
    ) -> Json<'a> {
        let (first, connection) = (found.first_byte_ms, found.connection_bytes_per_s);
        Json {
            target: address,
            device_file: &args.output,
            behaves_like: "object store",
            first_byte_ms: EstimateJson { value: first.value, error: first.error },
            first_byte_sigma: found.sigma,
            connection_bytes_per_s: EstimateJson { value: connection.value, error: connection.error },
            network_bytes_per_s: found.network_bytes_per_s,
            connections_for_rate,
            read_bytes: effort.bytes,
            seconds: effort.time.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_passwords_are_not_shown() {
        assert_eq!(without_secrets("https://u:p@host/a/b?X-Sig=1#f"), "https://host/a/b");
        assert_eq!(without_secrets("http://host"), "http://host/");
    }

    #[test]
    fn rates_are_sizes() {
        assert_eq!(bytes_per_s("500M").unwrap(), 500.0 * f64::from(1 << 20));
        assert!(bytes_per_s("50%").is_err() && bytes_per_s("-1").is_err() && bytes_per_s("0").is_err());
    }
}
