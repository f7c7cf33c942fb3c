//! What Java calls, one row a function. Each wrapper catches panics, checks its arguments' types at compile time and throws
//! `VoyageException` for an error.

use std::path::Path;

use arioso_voyage::sea::network::PassageSet;
use arioso_voyage::sea::router::{Options, Router, Voyage};
use arioso_voyage::sea::sphere::Position;
use arioso_voyage::sea::{oceans, open as open_network};
use jni::objects::{JClass, JDoubleArray, JObjectArray, JString};
use jni::sys::{jdouble, jlong};
use jni::{Env, NativeMethod, native_method};

use crate::failure::{Result, Throw};
use crate::finders;

/// The one symbol that is exported; it registers all others, so that a missing one is told at load and not at first use.
#[expect(dead_code, reason = "the macro exports it; nothing in Rust calls it")]
const REGISTER: NativeMethod<'static> = native_method! {
    java_type = "io.arioso.voyage.Native",
    static extern fn register(),
    error_policy = Throw,
};

/// All others.
const METHODS: &[NativeMethod<'static>] = &[
    native_method! { static fn open(network: JString, cache_bytes: jlong) -> jlong, error_policy = Throw },
    native_method! { static fn close(finder: jlong), error_policy = Throw },
    native_method! { static fn passages(finder: jlong) -> java.lang.String[], error_policy = Throw },
    native_method! {
        static fn route(
            finder: jlong, from_lon: jdouble, from_lat: jdouble, to_lon: jdouble, to_lat: jdouble,
            closed_low: jlong, closed_high: jlong, snap_km_max: jdouble
        ) -> jdouble[],
        error_policy = Throw
    },
    native_method! {
        static fn feasible(
            finder: jlong, lon: jdouble, lat: jdouble, time: jdouble, to_lon: jdouble, to_lat: jdouble,
            arrival: jdouble, max_knots: jdouble, closed_low: jlong, closed_high: jlong, snap_km_max: jdouble
        ) -> jdouble[],
        error_policy = Throw
    },
];

type Class<'local> = JClass<'local>;

/// Registers the table with the class that asks.
fn register<'local>(env: &mut Env<'local>, class: JClass<'local>) -> Result<()> {
    #[expect(unsafe_code, reason = "function pointers are handed to the JVM")]
    // SAFETY: every row was made by `native_method!` with `static fn`, which wraps a function of exactly the signature it
    // registers, with a class as its second parameter. The functions live as long as the library, which is never unmapped
    // (build.rs). Rows of another signature than Java declares are refused by the JVM.
    unsafe {
        env.register_native_methods(&class, METHODS)?;
    }
    Ok(())
}

/// Opens the network in a file, or, for null, the one of the programme.
fn open<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    network: JString<'local>,
    cache_bytes: jlong,
) -> Result<jlong> {
    let network = if network.is_null() { oceans()? } else { open_network(Path::new(&network.try_to_string(env)?))? };
    Ok(finders::keep(Router::new(network, u64::try_from(cache_bytes).unwrap_or(0))))
}

fn close<'local>(_env: &mut Env<'local>, _class: Class<'local>, finder: jlong) -> Result<()> {
    finders::forget(finder);
    Ok(())
}

/// For each passage, in the order of their numbers: `+` if it can be avoided, else `=`; `-` if it is closed unless it is
/// allowed, else `+`; its name.
fn passages<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    finder: jlong,
) -> Result<JObjectArray<'local, JString<'local>>> {
    let router = finders::find(finder)?;
    let passages = &router.network().passages;
    let told = JObjectArray::<JString<'_>>::new(env, passages.len(), JString::null())?;
    for (index, passage) in passages.iter().enumerate() {
        let can = if passage.can_be_avoided() { '+' } else { '=' };
        let is = if passage.closed { '-' } else { '+' };
        let text = env.new_string(format!("{can}{is}{}", passage.name))?;
        told.set_element(env, index, &text)?;
    }
    Ok(told)
}

fn options(low: jlong, high: jlong, snap_km_max: jdouble) -> Options {
    let closed = PassageSet(u128::from(high.cast_unsigned()) << 64 | u128::from(low.cast_unsigned()));
    Options { closed, snap_km_max }
}

fn numbers<'local>(env: &mut Env<'local>, numbers: &[f64]) -> Result<JDoubleArray<'local>> {
    let array = env.new_double_array(numbers.len())?;
    array.set_region(env, 0, numbers)?;
    Ok(array)
}

/// Kilometres, the distances of both ends from water, how many passages, their numbers, then longitude and latitude of
/// each point.
#[expect(clippy::too_many_arguments, reason = "plain numbers cross without an object")]
fn route<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    finder: jlong,
    from_lon: jdouble,
    from_lat: jdouble,
    to_lon: jdouble,
    to_lat: jdouble,
    closed_low: jlong,
    closed_high: jlong,
    snap_km_max: jdouble,
) -> Result<JDoubleArray<'local>> {
    let options = options(closed_low, closed_high, snap_km_max);
    let (from, to) = (Position::new(from_lon, from_lat), Position::new(to_lon, to_lat));
    let route = finders::find(finder)?.route(from, to, &options)?;
    let mut told = vec![route.km, route.snap_km[0], route.snap_km[1], route.passages.len() as f64];
    told.extend(route.passages.iter().map(|number| f64::from(*number)));
    told.extend(route.points().iter().flat_map(|at| [at.lon, at.lat]));
    numbers(env, &told)
}

/// Whether feasible (1 or 0), the earliest arrival and the margin in seconds, kilometres, whether the great circle settled
/// it (1 or 0).
#[expect(clippy::too_many_arguments, reason = "plain numbers cross without an object")]
fn feasible<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    finder: jlong,
    lon: jdouble,
    lat: jdouble,
    time: jdouble,
    to_lon: jdouble,
    to_lat: jdouble,
    arrival: jdouble,
    max_knots: jdouble,
    closed_low: jlong,
    closed_high: jlong,
    snap_km_max: jdouble,
) -> Result<JDoubleArray<'local>> {
    let options = options(closed_low, closed_high, snap_km_max);
    let (position, destination) = (Position::new(lon, lat), Position::new(to_lon, to_lat));
    let voyage = Voyage { position, time, destination, arrival, max_knots };
    let verdict = finders::find(finder)?.feasible(&voyage, &options)?;
    let yes = |is: bool| f64::from(u8::from(is));
    let told =
        [yes(verdict.feasible), verdict.earliest_arrival, verdict.margin, verdict.km, yes(verdict.by_great_circle)];
    numbers(env, &told)
}
