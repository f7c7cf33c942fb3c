//! A filter set of up to 16,384 filters: cut into frames by the client, put together again by the server.

use bytes::BytesMut;

use crate::{Body, Code, Filters, List, MoreFilters, Subscribe, Text};

/// Filters of one subscription.
pub const FILTERS_MAX: usize = 16_384;
/// Bytes of one filter, as of a topic.
pub const FILTER_BYTES_MAX: usize = 1_024;
/// Bytes of filters in one frame: far below any frame bytes max, so that other frames get their turn.
const PIECE_BYTES_MAX: usize = 32 << 10;

/// Appends `subscribe` with its filters, in as many frames as they need. `subscribe.filters` and `subscribe.more` are
/// filled in here.
pub fn encode_subscribe(
    channel: u16,
    subscribe: &Subscribe,
    filters: impl IntoIterator<Item = impl AsRef<str>>,
    out: &mut BytesMut,
) {
    let mut first = Some(subscribe);
    let mut piece: Vec<Text> = Vec::new();
    let mut piece_bytes = 0;
    let mut flush = |piece: &mut Vec<Text>, more: bool| {
        let filters = List::<Filters>::collect(piece.iter().map(Text::as_str));
        match first.take() {
            Some(subscribe) => Subscribe { more, filters, ..subscribe.clone() }.encode(channel, out),
            None => MoreFilters { more, filters }.encode(channel, out),
        }
        piece.clear();
    };
    for filter in filters {
        let filter = filter.as_ref();
        if !piece.is_empty() && piece_bytes + filter.len() > PIECE_BYTES_MAX {
            flush(&mut piece, true);
            piece_bytes = 0;
        }
        piece_bytes += filter.len();
        piece.push(Text::from(filter));
    }
    flush(&mut piece, false);
}

/// A subscribe whose filters arrive in several frames.
#[derive(Debug)]
pub struct FilterPieces {
    subscribe: Subscribe,
    filters: Vec<Text>,
    more: bool,
}

impl FilterPieces {
    /// Begins with the subscribe frame. Refused: too many filters, or one that is longer than a filter can be.
    pub fn begin(subscribe: Subscribe) -> Result<FilterPieces, Code> {
        let mut pieces = FilterPieces {
            more: subscribe.more,
            filters: Vec::new(),
            subscribe: Subscribe { more: false, filters: List::EMPTY, ..subscribe },
        };
        pieces.take(&subscribe.filters)?;
        Ok(pieces)
    }

    /// Goes on. A piece without filters is refused, so that the set ends.
    pub fn add(&mut self, piece: &MoreFilters) -> Result<(), Code> {
        if !self.more || piece.filters.is_empty() {
            return Err(Code::BadFrame);
        }
        self.take(&piece.filters)?;
        self.more = piece.more;
        Ok(())
    }

    /// Whether nothing more is to come.
    pub fn is_complete(&self) -> bool {
        !self.more
    }

    /// The subscribe frame without filters, and all filters.
    pub fn into_parts(self) -> (Subscribe, Vec<Text>) {
        (self.subscribe, self.filters)
    }

    fn take(&mut self, list: &List<Filters>) -> Result<(), Code> {
        if self.filters.len() + list.len() > FILTERS_MAX {
            return Err(Code::TooManyFilters);
        }
        for filter in list.iter() {
            if filter.len() > FILTER_BYTES_MAX {
                return Err(Code::BadFilter);
            }
            self.filters.push(Text::from(filter));
        }
        Ok(())
    }
}
