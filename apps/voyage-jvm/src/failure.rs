//! What went wrong, as Java is told: the name of a reason, a text.

use std::any::Any;

use arioso_voyage::error::Error;
use jni::errors::ErrorPolicy;
use jni::objects::{JThrowable, JValue};
use jni::{Env, jni_sig, jni_str};

/// What a function of this library returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// What becomes a `VoyageException`.
#[derive(Debug)]
pub struct Failure {
    /// A constant of Java's `VoyageException.Reason`.
    pub reason: &'static str,
    /// What, where, the value, what would be right.
    pub text: String,
}

impl Failure {
    /// The path finder is closed.
    pub fn closed() -> Failure {
        Failure { reason: "CLOSED", text: "the path finder is closed".into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let reason = match error {
            Error::NoRoute { .. } => "NO_ROUTE",
            Error::Inland { .. } | Error::Enclosed { .. } => "INLAND",
            Error::Network(_) | Error::Read { .. } | Error::Json { .. } => "NETWORK",
            _ => "ARGUMENT",
        };
        Failure { reason, text: error.to_string() }
    }
}

/// What the JVM refused: an argument that is null, mostly.
impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Failure {
        Failure { reason: "ARGUMENT", text: format!("between Java and the library: {error}") }
    }
}

/// Throws failures and panics as `VoyageException`.
#[derive(Debug)]
pub struct Throw;

fn throw(env: &mut Env<'_>, failure: &Failure) -> jni::errors::Result<()> {
    if env.exception_check() {
        return Ok(());
    }
    let (reason, text) = (env.new_string(failure.reason)?, env.new_string(&failure.text)?);
    let arguments = [JValue::Object(&reason), JValue::Object(&text)];
    let exception = env.new_object(
        jni_str!("io/arioso/voyage/VoyageException"),
        jni_sig!("(Ljava/lang/String;Ljava/lang/String;)V"),
        &arguments,
    )?;
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
        throw(
            env,
            &Failure { reason: "MISTAKE", text: format!("a mistake in the library, please report it: {said}") },
        )?;
        Ok(T::default())
    }
}
