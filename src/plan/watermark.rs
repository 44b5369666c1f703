//! Watermarks.

use weir_operators::watermark;
use weir_runtime::{Result, Stream};

use super::{Planner, WatermarkNode};

impl Planner<'_> {
    pub(super) fn watermark(&mut self, node: &WatermarkNode) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let id = self.id("watermark");
        Ok(self.builder.operator(
            id,
            [input],
            watermark(node.column.name.clone(), node.delay_ms),
        ))
    }
}
