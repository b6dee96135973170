//! What single flags of `foretell sim` mean.

use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use foretell_device::{DeviceParameters, catalogue};
use foretell_nearest::suggestion;
use foretell_sim::{Batch, NO_DEVICE, PolicyName, Reverse, SimError};

/// The largest array.
const MAX_DISKS: u16 = 64;

/// Policies by name; without a device only those that can be counted.
pub(crate) fn policies(names: &str, counted: bool) -> Result<Vec<PolicyName>> {
    let possible = |policy: &PolicyName| !counted || policy.fetches_on_demand();
    if names == "all" {
        return Ok(PolicyName::all().filter(possible).collect());
    }
    let known: Vec<String> = PolicyName::all().map(|policy| policy.to_string()).collect();
    let known = known.iter().map(String::as_str).chain(["all"]);
    let mut policies = Vec::new();
    for name in names.split(',').map(str::trim) {
        let policy: PolicyName = name
            .parse()
            .map_err(|_| anyhow!("--policy: unknown policy '{name}'{}", suggestion(name, known.clone())))?;
        ensure!(possible(&policy), "--policy: {}", SimError::NeedsDevice { policy });
        ensure!(!policies.contains(&policy), "--policy: '{name}' is named twice");
        policies.push(policy);
    }
    Ok(policies)
}

/// `1,2,4..8`.
pub(crate) fn disks(text: &str) -> Result<Vec<u16>> {
    let number = |n: &str| {
        n.trim().parse().ok().filter(|d| (1..=MAX_DISKS).contains(d)).ok_or_else(|| {
            anyhow!(
                "--disks: '{n}' is no number of disks; an array has 1 to {MAX_DISKS}, as in 1,2,4 or 1..16"
            )
        })
    };
    let mut disks = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
                ensure!(first <= last, "--disks: '{part}' is empty; give the smaller number first");
                disks.extend(first..=last);
            }
            None => disks.push(number(part)?),
        }
    }
    disks.sort_unstable();
    disks.dedup();
    Ok(disks)
}

/// A built-in device, or a file, or none.
pub(crate) fn device(name: &str) -> Result<(String, DeviceParameters)> {
    if name == NO_DEVICE {
        return Ok((NO_DEVICE.to_owned(), DeviceParameters::uniform(0.0, u64::MAX)));
    }
    if name.ends_with(".toml") {
        let parameters = crate::commands::device::read(Path::new(name))?;
        return Ok((parameters.name.clone(), parameters));
    }
    let parameters = catalogue::find(name).map_err(|e| anyhow!("--device: {e}"))?;
    Ok((name.to_owned(), parameters))
}

/// `paper`, `fitted` or a number.
pub(crate) fn batch(text: &str) -> Result<Batch> {
    match text {
        "paper" => Ok(Batch::Paper),
        "fitted" => Ok(Batch::Fitted),
        size => match size.parse() {
            Ok(size) if size > 0 => Ok(Batch::Fixed(size)),
            _ => bail!("--batch: '{text}' is neither 'paper' nor 'fitted' nor a number from 1 on"),
        },
    }
}

/// `4.9/40`.
pub(crate) fn reverse(text: &str) -> Result<Reverse> {
    let parts = text.split_once('/').and_then(|(f, batch)| Some((f.parse().ok()?, batch.parse().ok()?)));
    match parts {
        Some((fetch_references, batch)) if fetch_references > 0.0 && batch > 0 => {
            Ok(Reverse { fetch_references, batch })
        }
        _ => bail!("--reverse: '{text}' is not F/BATCH, as in 4.9/40"),
    }
}

/// `5%` as 0.05.
pub(crate) fn share(flag: &str, text: &str) -> Result<f64> {
    let percent: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    match percent.filter(|p| (0.0..=100.0).contains(p)) {
        Some(percent) => Ok(percent / 100.0),
        None => bail!("{flag}: '{text}' is no share from 0% to 100%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays() {
        assert_eq!(disks("1").unwrap(), [1]);
        assert_eq!(disks("4,1..3, 2").unwrap(), [1, 2, 3, 4]);
        for wrong in ["0", "65", "", "1..", "3..2", "x", "-1", "1..100"] {
            let error = disks(wrong).unwrap_err().to_string();
            assert!(error.starts_with("--disks: "), "{error}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(share("--x", "5%").unwrap(), 0.05);
        assert_eq!(share("--x", "100").unwrap(), 1.0);
        for wrong in ["-1%", "101%", "five", "", "NaN"] {
            assert!(share("--x", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn schedules_of_reverse_aggressive() {
        let Reverse { fetch_references, batch } = reverse("4.9/40").unwrap();
        assert_eq!((fetch_references, batch), (4.9, 40));
        for wrong in ["4.9", "0/4", "4/0", "/", "x/1"] {
            assert!(reverse(wrong).is_err(), "{wrong}");
        }
    }
}
