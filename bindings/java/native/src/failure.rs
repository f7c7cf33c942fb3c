//! What went wrong, as Java is told: a number, two details, a text.

use std::any::Any;

use arioso::{ClientError, Code, Error};
use jni::errors::ErrorPolicy;
use jni::objects::{JThrowable, JValue};
use jni::{Env, jni_sig, jni_str};

/// What a function of this library returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// Numbers of what never travels and so has none in docs/protocol.md; below 0, so that they can't meet. Java has them too.
pub mod local {
    /// The bus, publisher, subscription or client is closed.
    pub const CLOSED: i32 = -1;
    /// The server could not be reached for too long.
    pub const UNREACHABLE: i32 = -2;
    /// The connection was cut while it was asked.
    pub const CUT: i32 = -3;
    /// The other side broke the protocol.
    pub const PROTOCOL: i32 = -4;
    /// Threads, sockets or files.
    pub const IO: i32 = -5;
    /// The directory can't be opened as a bus.
    pub const OPEN: i32 = -6;
    /// Retention has passed the position: a = wanted, b = the first that is kept.
    pub const TRIMMED: i32 = -7;
    /// An argument that can't be right.
    pub const ARGUMENT: i32 = -8;
    /// A mistake in this library.
    pub const PANIC: i32 = -9;
    /// The journal was lost, or its end could not be written.
    pub const JOURNAL: i32 = -10;
}

/// What becomes a `BusException`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The wire's error number, or one of [`local`].
    pub code: i32,
    /// By code.
    pub a: u64,
    /// By code.
    pub b: u64,
    /// What, where, the value, what would be right.
    pub text: String,
}

impl Failure {
    fn new(code: i32, text: impl Into<String>) -> Failure {
        Failure { code, a: 0, b: 0, text: text.into() }
    }

    /// What was asked is closed.
    pub fn closed(what: &str) -> Failure {
        Failure::new(local::CLOSED, format!("the {what} is closed"))
    }

    /// An argument that can't be right.
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure::new(local::ARGUMENT, text)
    }

    fn wire(code: Code, a: u64, b: u64, text: String) -> Failure {
        Failure { code: code.number().into(), a, b, text }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let text = error.to_string();
        match error {
            ClientError::Refused { code, detail_a, detail_b, .. } => Failure::wire(code, detail_a, detail_b, text),
            ClientError::ConditionFailed { newest } => Failure::wire(Code::ConditionFailed, newest.0, 0, text),
            ClientError::Fenced { .. } => Failure::wire(Code::Fenced, 0, 0, text),
            ClientError::Unknown => Failure::wire(Code::Unknown, 0, 0, text),
            ClientError::Busy { messages, bytes, .. } => Failure::wire(Code::Busy, messages, bytes, text),
            ClientError::WrongStream { .. } => Failure::wire(Code::WrongStream, 0, 0, text),
            ClientError::Version { .. } => Failure::wire(Code::Version, 0, 0, text),
            ClientError::Closed => Failure::new(local::CLOSED, text),
            ClientError::Unreachable { ms, .. } => Failure { a: ms, ..Failure::new(local::UNREACHABLE, text) },
            ClientError::Incomplete { first, last, .. } => Failure::wire(Code::Damaged, first.0, last.0, text),
            ClientError::Cut { .. } => Failure::new(local::CUT, text),
            ClientError::Protocol { .. } | ClientError::Wire(_) | ClientError::Record(_) => {
                Failure::new(local::PROTOCOL, text)
            }
            ClientError::TooLarge { count, count_max, .. } => {
                Failure { a: count, b: count_max, ..Failure::new(local::ARGUMENT, text) }
            }
            ClientError::Length { .. } | ClientError::Mixed { .. } => Failure::new(local::ARGUMENT, text),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        match error {
            Error::Client(error) => error.into(),
            Error::Open(_) => Failure::new(local::OPEN, text),
            Error::Journal(_) => Failure::new(local::JOURNAL, text),
            Error::Io(_) => Failure::new(local::IO, text),
            Error::Trimmed { wanted, first } => {
                Failure { a: wanted.0, b: first.0, ..Failure::new(local::TRIMMED, text) }
            }
        }
    }
}

/// What the JVM refused: an argument that is null or of another kind, mostly.
impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Failure {
        Failure::argument(format!("between Java and the library: {error}"))
    }
}

/// Throws failures and panics as `BusException`. (The policies that come with `jni` drop a panic's text.)
#[derive(Debug)]
pub struct Throw;

fn throw(env: &mut Env<'_>, failure: &Failure) -> jni::errors::Result<()> {
    if env.exception_check() {
        return Ok(());
    }
    let text = env.new_string(&failure.text)?;
    let arguments = [
        JValue::Int(failure.code),
        JValue::Long(failure.a.cast_signed()),
        JValue::Long(failure.b.cast_signed()),
        JValue::Object(&text),
    ];
    let exception =
        env.new_object(jni_str!("io/arioso/BusException"), jni_sig!("(IJJLjava/lang/String;)V"), &arguments)?;
    let exception = env.cast_local::<JThrowable<'_>>(exception)?;
    // It answers `Err` because an exception is pending then, which is what is wanted.
    let _ = env.throw(exception);
    Ok(())
}

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        failure: Failure,
    ) -> jni::errors::Result<T> {
        throw(env, &failure)?;
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let said = payload
            .downcast_ref::<&'static str>()
            .map(|text| (*text).to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no text".into());
        throw(env, &Failure::new(local::PANIC, format!("a mistake in the library, please report it: {said}")))?;
        Ok(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAVA: &str = include_str!("../../src/main/java/io/arioso/ErrorCode.java");

    #[test]
    fn java_knows_every_error_number_by_its_name() {
        for code in Code::ALL {
            let name = code.name().to_uppercase().replace(' ', "_");
            let line = format!("int {name} = {};", code.number());
            assert!(JAVA.contains(&line), "ErrorCode.java lacks {line:?}");
        }
        use local::{ARGUMENT, CLOSED, CUT, IO, JOURNAL, OPEN, PANIC, PROTOCOL, TRIMMED, UNREACHABLE};
        let own = [
            ("CLOSED", CLOSED),
            ("UNREACHABLE", UNREACHABLE),
            ("CUT", CUT),
            ("PROTOCOL", PROTOCOL),
            ("IO", IO),
            ("OPEN", OPEN),
            ("TRIMMED", TRIMMED),
            ("ARGUMENT", ARGUMENT),
            ("PANIC", PANIC),
            ("JOURNAL", JOURNAL),
        ];
        for (name, number) in own {
            let line = format!("int {name} = {number};");
            assert!(JAVA.contains(&line), "ErrorCode.java lacks {line:?}");
        }
    }

    #[test]
    fn a_refusal_keeps_the_number_of_the_wire_and_its_details() {
        let failure = Failure::from(ClientError::ConditionFailed { newest: arioso::Sequence(7) });
        assert_eq!((failure.code, failure.a), (27, 7));
        let trimmed = Error::Trimmed { wanted: arioso::Sequence(3), first: arioso::Sequence(9) };
        let failure = Failure::from(trimmed);
        assert_eq!((failure.code, failure.a, failure.b), (local::TRIMMED, 3, 9));
    }
}
