//! A configuration, written out in full.
//!
//! Every field is named in both directions, so that a new one does not compile before it is logged (and the
//! format's version raised).

use std::io::Read;

use foretell_numbers::put;
use foretell_policy::{Allocation, Beside, Config, Limits, Nanos, Order, Prefetch, Residency, Revocation};

use crate::OLDEST_VERSION;
use crate::decode::Bytes;
use crate::encode::name;
use crate::error::LogError;

const RESIDENCIES: [Residency; 2] = [Residency::Exact, Residency::Advisory];
const ALLOCATIONS: [Allocation; 4] =
    [Allocation::LruSp, Allocation::LruS, Allocation::AllocLru, Allocation::GlobalLru];
const BESIDES: [Beside; 3] = [Beside::Nothing, Beside::Counterfactual, Beside::Guard];
const ORDERS: [Order; 2] = [Order::Fcfs, Order::Ascending];

pub(crate) fn write(out: &mut Vec<u8>, config: &Config) {
    let Config {
        cache_blocks,
        residency,
        allocation,
        prefetch,
        batch,
        free_margin,
        horizon,
        readahead_blocks,
        order,
        late_positions,
        disks,
        processors,
        driver,
        revocation,
        fetch_timeout,
        beside,
        limits,
    } = config;
    let place = |at: Option<usize>| at.map_or(u64::MAX, |at| at as u64);
    name(out, prefetch.name());
    put(out, (*cache_blocks).into());
    put(out, place(RESIDENCIES.iter().position(|r| r == residency)));
    put(out, place(ALLOCATIONS.iter().position(|a| a == allocation)));
    put(out, (*batch).into());
    put(out, (*free_margin).into());
    put(out, u64::from(horizon.is_some()));
    put(out, horizon.unwrap_or(0).into());
    put(out, (*readahead_blocks).into());
    put(out, place(ORDERS.iter().position(|o| o == order)));
    put(out, (*disks).into());
    put(out, (*processors).into());
    put(out, driver.0);
    put(out, u64::from(revocation.is_some()));
    if let Some(Revocation { window, revoke_above, reinstate_below }) = revocation {
        put(out, (*window).into());
        out.extend_from_slice(&revoke_above.to_bits().to_le_bytes());
        out.extend_from_slice(&reinstate_below.to_bits().to_le_bytes());
    }
    put(out, u64::from(fetch_timeout.is_some()));
    put(out, fetch_timeout.map_or(0, |timeout| timeout.0));
    put(out, place(BESIDES.iter().position(|b| b == beside)));
    let Limits {
        files,
        processes,
        managers,
        levels_per_manager,
        file_records_per_manager,
        disclosed_blocks,
        held_ahead,
        lists_per_manager,
        readers_per_manager,
        placeholders,
    } = limits;
    for limit in [
        files,
        processes,
        managers,
        levels_per_manager,
        file_records_per_manager,
        disclosed_blocks,
        held_ahead,
        lists_per_manager,
        readers_per_manager,
        placeholders,
    ] {
        put(out, (*limit).into());
    }
    put(out, (*late_positions).into());
}

/// Reads that of a log of this version.
pub(crate) fn read<R: Read>(bytes: &mut Bytes<R>, version: u16) -> Result<Config, LogError> {
    let planner = bytes.name()?;
    let prefetch: Prefetch = planner.parse().map_err(|_| bytes.impossible("a planner that is not known"))?;
    let cache_blocks = bytes.u32()?;
    let residency = bytes.one_of(&RESIDENCIES)?;
    let allocation = bytes.one_of(&ALLOCATIONS)?;
    let batch = bytes.u32()?;
    let free_margin = bytes.u32()?;
    let has_horizon = bytes.one_of(&[false, true])?;
    let horizon = bytes.u32()?;
    let readahead_blocks = bytes.u32()?;
    let order = bytes.one_of(&ORDERS)?;
    let disks = bytes.u16()?;
    let processors = bytes.u16()?;
    let driver = Nanos(bytes.number()?);
    let revocation = if bytes.one_of(&[false, true])? {
        Some(Revocation { window: bytes.u32()?, revoke_above: bytes.f64()?, reinstate_below: bytes.f64()? })
    } else {
        None
    };
    let has_timeout = bytes.one_of(&[false, true])?;
    let fetch_timeout = bytes.number()?;
    let beside = bytes.one_of(&BESIDES)?;
    let limits = Limits {
        files: bytes.u32()?,
        processes: bytes.u32()?,
        managers: bytes.u32()?,
        levels_per_manager: bytes.u32()?,
        file_records_per_manager: bytes.u32()?,
        disclosed_blocks: bytes.u32()?,
        held_ahead: bytes.u32()?,
        lists_per_manager: bytes.u32()?,
        readers_per_manager: bytes.u32()?,
        placeholders: bytes.u32()?,
    };
    // Since version 5.
    let late_positions = if version > OLDEST_VERSION { bytes.u32()? } else { 0 };
    Ok(Config {
        cache_blocks,
        residency,
        allocation,
        prefetch,
        batch,
        free_margin,
        horizon: has_horizon.then_some(horizon),
        readahead_blocks,
        order,
        late_positions,
        disks,
        processors,
        driver,
        revocation,
        beside,
        fetch_timeout: has_timeout.then_some(Nanos(fetch_timeout)),
        limits,
    })
}
