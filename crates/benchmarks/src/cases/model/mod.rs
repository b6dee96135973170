//! The closed-form model against real devices: what it predicts, what it advises, whether it repeats.

mod advice;
mod calibration;
mod job;
mod reality;
mod stage;

pub(crate) use advice::Sweep;
pub(crate) use calibration::Repeated;
pub(crate) use reality::Reality;
pub(crate) use stage::calibrate;
