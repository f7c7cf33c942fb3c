//! Every frame of docs/protocol.md, both directions.

use bytes::{Bytes, BytesMut};

use crate::opening::{ErrorFrame, Goodbye, Hello, Ping, Pong, Welcome};
use crate::publishing::{ClosePublisher, Closed, OpenPublisher, Publish, PublisherOpened, Replies, Skip, Topics};
use crate::requests::{Answer, Request};
use crate::subscribing::{
    Block, Credit, Deliver, Ended, GoOn, MoreFilters, Names, Safe, Subscribe, Subscribed, Trimmed, Unsubscribe,
};
use crate::{Body, WireError};

/// A type with this bit that nobody knows is passed over.
const MAY_BE_PASSED_OVER: u8 = 0x80;

macro_rules! frames {
    ($($variant:ident($of:ty)),* $(,)?) => {
        /// A frame.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Frame {
            $(#[doc = concat!("See [`", stringify!($of), "`].")] $variant($of),)*
        }

        impl Frame {
            /// Every type there is: number and name.
            pub const KINDS: &'static [(u8, &'static str)] = &[$((<$of>::KIND, <$of>::NAME),)*];

            /// The type's number.
            pub fn kind(&self) -> u8 {
                match self {
                    $(Frame::$variant(_) => <$of>::KIND,)*
                }
            }

            /// The type's name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Frame::$variant(_) => <$of>::NAME,)*
                }
            }

            /// Appends the whole frame, header included.
            pub fn encode(&self, channel: u16, out: &mut BytesMut) {
                match self {
                    $(Frame::$variant(frame) => frame.encode(channel, out),)*
                }
            }

            /// Reads the body of a frame of this type. `None`: a type that is passed over.
            pub fn parse(kind: u8, body: &Bytes) -> Result<Option<Frame>, WireError> {
                match kind {
                    $(<$of>::KIND => <$of>::parse(body).map(|frame| Some(Frame::$variant(frame))),)*
                    kind if kind & MAY_BE_PASSED_OVER != 0 => Ok(None),
                    kind => Err(WireError::Unknown { kind }),
                }
            }
        }

        $(
            impl From<$of> for Frame {
                fn from(frame: $of) -> Frame {
                    Frame::$variant(frame)
                }
            }
        )*
    };
}

frames! {
    Hello(Hello),
    Welcome(Welcome),
    Ping(Ping),
    Pong(Pong),
    Error(ErrorFrame),
    Goodbye(Goodbye),
    Topics(Topics),
    OpenPublisher(OpenPublisher),
    PublisherOpened(PublisherOpened),
    Publish(Publish),
    Skip(Skip),
    Replies(Replies),
    ClosePublisher(ClosePublisher),
    Closed(Closed),
    Subscribe(Subscribe),
    MoreFilters(MoreFilters),
    Subscribed(Subscribed),
    Credit(Credit),
    Unsubscribe(Unsubscribe),
    Names(Names),
    Deliver(Deliver),
    Safe(Safe),
    Block(Block),
    Trimmed(Trimmed),
    GoOn(GoOn),
    Ended(Ended),
    Request(Request),
    Answer(Answer),
}
