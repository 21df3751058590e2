//! Operands of statements for the host: texts, or variables that have them.

use tdekit_wire_tds::{Length, SqlType, Value};

use super::messages;
use crate::ast::Operand;
use crate::error::Result;
use crate::host::{Backup, Device, Restore};
use crate::run::state::Frame;
use crate::value::convert;
use crate::value::dateparse::DateText;

fn operand(operand: &Operand, frame: &Frame) -> Result<String> {
    match operand {
        Operand::Text(text) => Ok(text.clone()),
        Operand::Var(name) => {
            let slot = frame.variables.find(name)?.slot;
            Ok(messages::shown(&frame.vars[slot], 4000))
        }
    }
}

/// As [`operand`], for a time: a `datetime` gives all of it, while its text in a message ends with
/// the minute. Other types show all that they have.
fn moment(given: &Operand, frame: &Frame) -> Result<String> {
    let Operand::Var(name) = given else { return operand(given, frame) };
    let value = &frame.vars[frame.variables.find(name)?.slot];
    if !matches!(value, Value::DateTime { .. }) {
        return operand(given, frame);
    }
    // ISO 8601.
    let to = SqlType::NVarChar(Length::Max);
    let text = convert::convert(value, SqlType::DateTime, to, 126, DateText::default())?;
    Ok(messages::shown(&text, 4000))
}

fn devices(devices: &[Device<Operand>], frame: &Frame) -> Result<Vec<Device<String>>> {
    devices
        .iter()
        .map(|device| {
            Ok(match device {
                Device::Disk(place) => Device::Disk(operand(place, frame)?),
                Device::Url(place) => Device::Url(operand(place, frame)?),
            })
        })
        .collect()
}

/// Returns a backup whose operands are texts.
pub(super) fn resolved_backup(backup: &Backup<Operand>, frame: &Frame) -> Result<Backup> {
    let maybe =
        |given: &Option<Operand>| given.as_ref().map(|given| operand(given, frame)).transpose();
    Ok(Backup {
        database: operand(&backup.database, frame)?,
        devices: devices(&backup.devices, frame)?,
        init: backup.init,
        format: backup.format,
        compression: backup.compression,
        log: backup.log,
        differential: backup.differential,
        copy_only: backup.copy_only,
        checksum: backup.checksum,
        encryption: backup.encryption.clone(),
        name: maybe(&backup.name)?,
        description: maybe(&backup.description)?,
        media_name: maybe(&backup.media_name)?,
        media_description: maybe(&backup.media_description)?,
        stats_percent: backup.stats_percent,
    })
}

/// Returns a restore whose operands are texts, of a login.
pub(super) fn resolved_restore(
    restore: &Restore<Operand>,
    login: &str,
    frame: &Frame,
) -> Result<Restore> {
    let maybe =
        |given: &Option<Operand>| given.as_ref().map(|given| operand(given, frame)).transpose();
    let moves = restore
        .moves
        .iter()
        .map(|(from, to)| Ok((operand(from, frame)?, operand(to, frame)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok(Restore {
        kind: restore.kind,
        database: maybe(&restore.database)?,
        devices: devices(&restore.devices, frame)?,
        position: maybe(&restore.position)?,
        replace: restore.replace,
        recovery: restore.recovery,
        conflicting: restore.conflicting,
        stop_at: restore.stop_at.as_ref().map(|given| moment(given, frame)).transpose()?,
        checksum: restore.checksum,
        stats_percent: restore.stats_percent,
        moves,
        login: login.to_owned(),
    })
}
