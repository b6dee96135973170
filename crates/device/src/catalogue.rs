//! The built-in devices, by name.
//!
//! Their files are in `validation/devices/` and compiled in, so that the command works without any file
//! beside it. A user's own device is a file of the same form ([`DeviceParameters::parse`]).

use thiserror::Error;

use crate::file::ParameterError;
use crate::parameters::DeviceParameters;

/// A built-in device.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name, and of its file.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// All built-in devices.
        pub const BUILT_IN: &[BuiltIn] = &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../devices/", $name, ".toml")),
        }),*];
    };
}

built_in![
    "hp97560",
    "rz26",
    "rz56",
    "st34501w",
    "ibm0661",
    "uniform",
    "disk7200",
    "nvme",
    "cloud",
    "cloud-volume",
    "cloud-volume-burst",
    "object-store",
];

/// No device of that name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogueError {
    /// Neither a device nor a variant of one.
    #[error("no device \"{name}\": {}", suggestion(nearest.as_deref()))]
    Unknown {
        /// The name given.
        name: String,
        /// The name most like it, if one is.
        nearest: Option<String>,
    },
    /// A built-in file that does not parse; a test reads them all.
    #[error("device \"{name}\": {error}")]
    Broken {
        /// The device.
        name: String,
        /// What is wrong.
        error: ParameterError,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => {
            let names: Vec<&str> = BUILT_IN.iter().map(|b| b.name).collect();
            format!("built in are {}; or give the path of a device file", names.join(", "))
        }
    }
}

/// The names of all built-in devices and their seek variants (`DEVICE/VARIANT`).
#[must_use]
pub fn names() -> Vec<String> {
    let mut names = Vec::new();
    for built_in in BUILT_IN {
        names.push(built_in.name.to_owned());
        if let Ok(device) = DeviceParameters::parse(built_in.text) {
            names.extend(device.seek_variants.keys().map(|variant| format!("{}/{variant}", built_in.name)));
        }
    }
    names
}

/// The built-in device `name`, or its variant if the name is `DEVICE/VARIANT`.
///
/// # Errors
///
/// [`CatalogueError::Unknown`] with the nearest name.
pub fn find(name: &str) -> Result<DeviceParameters, CatalogueError> {
    let (device, variant) = name.split_once('/').map_or((name, None), |(d, v)| (d, Some(v)));
    let unknown = || {
        let names = names();
        let nearest = foretell_nearest::nearest(name, names.iter().map(String::as_str));
        CatalogueError::Unknown { name: name.to_owned(), nearest: nearest.map(str::to_owned) }
    };
    let built_in = BUILT_IN.iter().find(|b| b.name == device).ok_or_else(unknown)?;
    let parameters = DeviceParameters::parse(built_in.text)
        .map_err(|error| CatalogueError::Broken { name: device.to_owned(), error })?;
    match variant {
        None => Ok(parameters),
        Some(variant) => parameters.with_seek_variant(variant).ok_or_else(unknown),
    }
}
