//! Reads a table from its beginning to its end, in several segments side by side.

use dynashard_aws_operator::{ScanPage, ScanSegment};
use dynashard_core::Attributes;
use futures_util::future::try_join_all;

use super::super::Failure;
use super::super::scan::TableScan;

/// Where a segment is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Position {
    Start,
    /// Behind this key.
    After(Attributes),
    End,
}

impl TableScan {
    /// Reads on from these positions, one for each segment, to the end of all, and hands on each page with
    /// the number of its segment. Each segment has a page in memory.
    pub(super) async fn read(
        &self,
        positions: &[Position],
        is_strong: bool,
        on_page: impl AsyncFn(usize, &ScanPage) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let of = u32::try_from(positions.len()).unwrap_or(u32::MAX);
        let on_page = &on_page;
        let lanes = positions.iter().zip(0_u32..).filter_map(|(position, number)| {
            let mut after = match position {
                Position::Start => None,
                Position::After(key) => Some(key.clone()),
                Position::End => return None,
            };
            Some(async move {
                let segment = ScanSegment { number, of };
                loop {
                    let page = self.page(segment, after.as_ref(), is_strong).await?;
                    on_page(number as usize, &page).await?;
                    after = page.next;
                    if after.is_none() {
                        return Ok(());
                    }
                }
            })
        });
        try_join_all(lanes).await.map(drop)
    }
}
