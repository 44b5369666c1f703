//! One log file: its bytes to a checked value and back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::CheckpointLog;
use crate::envelope::{self, Unreadable};
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::recovery::{Content, LogFile, REMEDY_MANIFEST, REMEDY_PLAN};

impl CheckpointLog {
    pub(super) async fn read_plan_content(&self, epoch: Epoch) -> Result<Option<Content<Plan>>> {
        let name = LogFile::Plan(epoch).name();
        let content = self.read::<Plan>(&name, Some(epoch), REMEDY_PLAN).await?;
        if let Some(Content::Whole(plan)) = &content {
            self.check_epoch(&name, epoch, plan.epoch, REMEDY_PLAN)?;
        }
        Ok(content)
    }

    pub(super) async fn read_manifest_content(
        &self,
        epoch: Epoch,
    ) -> Result<Option<Content<Manifest>>> {
        let name = LogFile::Manifest(epoch).name();
        let content = self
            .read::<Manifest>(&name, Some(epoch), REMEDY_MANIFEST)
            .await?;
        if let Some(Content::Whole(manifest)) = &content {
            self.check_epoch(&name, epoch, manifest.epoch, REMEDY_MANIFEST)?;
        }
        Ok(content)
    }

    fn check_epoch(
        &self,
        name: &str,
        named: Epoch,
        inside: Epoch,
        remedy: &'static str,
    ) -> Result<()> {
        if named == inside {
            return Ok(());
        }
        let reason = format!("its content is of epoch {inside}");
        Err(self.damaged(name, Some(named), reason, remedy))
    }

    /// Reads a file; torn is an answer, everything else that is wrong with it an error.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        epoch: Option<Epoch>,
        remedy: &'static str,
    ) -> Result<Option<Content<T>>> {
        let Some(file) = self.location.get(name).await? else {
            return Ok(None);
        };
        let body = match envelope::decode_text(&file) {
            Ok(body) => body,
            Err(Unreadable::Torn(reason)) => return Ok(Some(Content::Torn(reason))),
            Err(other) => {
                return Err(other.into_error(self.location.display_of(name), epoch, remedy));
            }
        };
        match serde_json::from_slice(body) {
            Ok(value) => Ok(Some(Content::Whole(value))),
            Err(e) => Err(self.damaged(
                name,
                epoch,
                format!("its content is not understood: {e}"),
                remedy,
            )),
        }
    }

    pub(super) fn whole<T>(
        &self,
        name: &str,
        epoch: Option<Epoch>,
        content: Content<T>,
        remedy: &'static str,
    ) -> Result<T> {
        match content {
            Content::Whole(value) => Ok(value),
            Content::Torn(reason) => Err(self.damaged(name, epoch, reason, remedy)),
        }
    }

    fn damaged(
        &self,
        name: &str,
        epoch: Option<Epoch>,
        reason: String,
        remedy: &'static str,
    ) -> StateError {
        StateError::Damaged {
            path: self.location.display_of(name),
            epoch,
            reason,
            remedy,
        }
    }
}

/// A value as the file people read: envelope and indented JSON.
pub(super) fn to_file<T: Serialize>(name: &str, value: &T) -> Result<Vec<u8>> {
    let mut body = serde_json::to_vec_pretty(value).map_err(|e| StateError::Codec {
        what: format!("the file `{name}`"),
        reason: e.to_string(),
    })?;
    body.push(b'\n');
    Ok(envelope::encode_text(&body))
}
