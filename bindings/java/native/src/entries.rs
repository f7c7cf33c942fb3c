//! What Java calls, one row a function. Each wrapper catches panics, checks its arguments' types at compile time and throws
//! `BusException` for an error; the functions here only translate.

use arioso::{Begin, Sequence, Subscribe};
use jni::objects::{JByteArray, JByteBuffer, JClass, JLongArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, NativeMethod, native_method};

use crate::answers::{ROOM_BYTES_MIN, put_answer};
use crate::bus::Connecting;
use crate::failure::{Failure, Result, Throw};
use crate::fields::{Reader, text};
use crate::publishing::{Extras, level};
use crate::subscribing::Next;
use crate::{bus, listing, objects};

/// The one symbol that is exported; it registers all others, so that a missing one is told at load and not at first use.
#[expect(dead_code, reason = "the macro exports it; nothing in Rust calls it")]
const REGISTER: NativeMethod<'static> = native_method! {
    java_type = "io.arioso.Native",
    static extern fn register() -> java.lang.String[],
    error_policy = Throw,
};

macro_rules! table {
    ($($name:literal $signature:literal = $method:expr;)*) => {
        const METHODS: &[NativeMethod<'static>] = &[$($method),*];
        const NAMES: &[&str] = &[$(concat!($name, $signature)),*];
    };
}

table! {
    "echo" "(JI)J" = native_method! { static fn echo(value: jlong, how: jint) -> jlong, error_policy = Throw };
    "objects" "()J" = native_method! { static fn count_objects() -> jlong, name = "objects", error_policy = Throw };
    "open" "(Ljava/lang/String;[B)J" =
        native_method! { static fn open(dir: JString, settings: jbyte[]) -> jlong, error_policy = Throw };
    "connect" "(Ljava/lang/String;Ljava/lang/String;JJ)J" = native_method! {
        static fn connect(address: JString, name: JString, timeout_ms: jlong, unreachable_ms: jlong) -> jlong,
        error_policy = Throw
    };
    "close" "(J)V" = native_method! { static fn close(number: jlong), error_policy = Throw };
    "closeLater" "(J)V" = native_method! { static fn close_later(number: jlong), error_policy = Throw };
    "publisher" "(JLjava/lang/String;J)J" = native_method! {
        static fn publisher(bus: jlong, name: JString, first: jlong) -> jlong, error_policy = Throw
    };
    "topic" "(JLjava/lang/String;)I" =
        native_method! { static fn topic(publisher: jlong, name: JString) -> jint, error_policy = Throw };
    "send" "(J[B[BII[BIJ[J)V" = native_method! {
        static fn send(
            publisher: jlong, topic: jbyte[], payload: jbyte[], offset: jint, count: jint, extras: jbyte[], level: jint,
            token: jlong, answer: jlong[]
        ),
        error_policy = Throw
    };
    "sendBlock" "(JLjava/nio/ByteBuffer;IZIJ[J)V" = native_method! {
        static fn send_block(
            publisher: jlong, block: java.nio.ByteBuffer, count: jint, atomic: jboolean, level: jint, token: jlong,
            answer: jlong[]
        ),
        error_policy = Throw
    };
    "flush" "(J)V" = native_method! { static fn flush(publisher: jlong), error_policy = Throw };
    "answers" "(J)J" = native_method! { static fn answers(bus: jlong) -> jlong, error_policy = Throw };
    "nextAnswers" "(JLjava/nio/ByteBuffer;)I" = native_method! {
        static fn next_answers(answers: jlong, buffer: java.nio.ByteBuffer) -> jint, error_policy = Throw
    };
    "subscribe" "(J[B)J" =
        native_method! { static fn subscribe(bus: jlong, wanted: jbyte[]) -> jlong, error_policy = Throw };
    "startsAt" "(J)J" = native_method! { static fn starts_at(subscription: jlong) -> jlong, error_policy = Throw };
    "next" "(JLjava/nio/ByteBuffer;[J)I" = native_method! {
        static fn next(subscription: jlong, buffer: java.nio.ByteBuffer, facts: jlong[]) -> jint, error_policy = Throw
    };
    "topicName" "(JI)Ljava/lang/String;" = native_method! {
        static fn topic_name(subscription: jlong, id: jint) -> java.lang.String, error_policy = Throw
    };
    "goOn" "(JJ)Z" =
        native_method! { static fn go_on(subscription: jlong, begin: jlong) -> jboolean, error_policy = Throw };
    "commit" "(JJ)V" = native_method! { static fn commit(subscription: jlong, next: jlong), error_policy = Throw };
    "topics" "(JLjava/lang/String;Ljava/lang/String;)[B" = native_method! {
        static fn topics(bus: jlong, filter: JString, after: JString) -> jbyte[], error_policy = Throw
    };
    "publishers" "(JLjava/lang/String;)[B" =
        native_method! { static fn publishers(bus: jlong, after: JString) -> jbyte[], error_policy = Throw };
    "cursors" "(JLjava/lang/String;)[B" =
        native_method! { static fn cursors(bus: jlong, after: JString) -> jbyte[], error_policy = Throw };
    "explain" "(J[B)[B" =
        native_method! { static fn explain(bus: jlong, wanted: jbyte[]) -> jbyte[], error_policy = Throw };
    "status" "(J)[B" = native_method! { static fn status(bus: jlong) -> jbyte[], error_policy = Throw };
    "dropPublisher" "(JLjava/lang/String;)V" =
        native_method! { static fn drop_publisher(bus: jlong, name: JString), error_policy = Throw };
    "setCursor" "(JLjava/lang/String;J[B)V" = native_method! {
        static fn set_cursor(bus: jlong, name: JString, next: jlong, filters: jbyte[]), error_policy = Throw
    };
    "dropCursor" "(JLjava/lang/String;)V" =
        native_method! { static fn drop_cursor(bus: jlong, name: JString), error_policy = Throw };
}

/// Registers the table with the class that asks; answers the names of what it registered.
fn register<'local>(env: &mut Env<'local>, class: JClass<'local>) -> Result<JObjectArray<'local, JString<'local>>> {
    #[expect(unsafe_code, reason = "function pointers are handed to the JVM")]
    // SAFETY: every row was made by `native_method!` with `static fn`, which wraps a function of exactly the signature it
    // registers, with a class as its second parameter. The functions live as long as the library, which is never unmapped
    // (build.rs). Rows of another signature than Java declares are refused by the JVM.
    unsafe {
        env.register_native_methods(&class, METHODS)?;
    }
    let names = JObjectArray::<JString<'_>>::new(env, NAMES.len(), JString::null())?;
    for (index, name) in NAMES.iter().enumerate() {
        let name = env.new_string(name)?;
        names.set_element(env, index, &name)?;
    }
    Ok(names)
}

type Class<'local> = JClass<'local>;

fn string(env: &Env<'_>, string: &JString<'_>) -> Result<String> {
    Ok(string.try_to_string(env)?)
}

/// Bytes of an array; none for null.
fn bytes(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Vec<u8>> {
    if array.is_null() { Ok(Vec::new()) } else { Ok(env.convert_byte_array(array)?) }
}

/// A part of an array.
fn region(env: &Env<'_>, array: &JByteArray<'_>, offset: jint, count: jint) -> Result<Vec<u8>> {
    let length = array.len(env)?;
    let (from, bytes) = (usize::try_from(offset), usize::try_from(count));
    match (from, bytes) {
        (Ok(from), Ok(bytes)) if from.checked_add(bytes).is_some_and(|end| end <= length) => {
            let mut region = vec![0i8; bytes];
            array.get_region(env, offset, &mut region)?;
            Ok(region.into_iter().map(i8::cast_unsigned).collect())
        }
        _ => Err(Failure::argument(format!("offset {offset} and {count} bytes of an array of {length}"))),
    }
}

/// The memory of a direct buffer, for as long as the call lasts.
fn direct<'call>(env: &Env<'_>, buffer: &'call mut JByteBuffer<'_>) -> Result<&'call mut [u8]> {
    let address = env.get_direct_buffer_address(buffer)?;
    let capacity = env.get_direct_buffer_capacity(buffer)?;
    #[expect(unsafe_code, reason = "the memory of a direct buffer is only known by its address")]
    // SAFETY: the JVM gave address and capacity of one allocation, and `buffer` keeps it alive as long as the slice is
    // borrowed. Nobody else uses it meanwhile: the Java side hands in buffers of its own that it lends to one call at a
    // time (`Subscription.next` under its flag, a `Block` under its lock, the answering thread's own).
    Ok(unsafe { std::slice::from_raw_parts_mut(address, capacity) })
}

fn echo<'local>(_env: &mut Env<'local>, _class: Class<'local>, value: jlong, how: jint) -> Result<jlong> {
    match how {
        0 => Ok(value),
        1 => Err(Failure::argument(format!("echo of {value}"))),
        _ => panic!("echo of {value}"),
    }
}

fn count_objects<'local>(_env: &mut Env<'local>, _class: Class<'local>) -> Result<jlong> {
    Ok(jlong::try_from(objects::count()).unwrap_or(jlong::MAX))
}

fn open<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    dir: JString<'local>,
    settings: JByteArray<'local>,
) -> Result<jlong> {
    let dir = string(env, &dir)?;
    let settings = strings(&bytes(env, &settings)?)?;
    let pairs: Vec<_> = settings.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    Ok(objects::to_java(bus::open(&dir, &pairs)?))
}

fn connect<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    address: JString<'local>,
    name: JString<'local>,
    timeout_ms: jlong,
    unreachable_ms: jlong,
) -> Result<jlong> {
    let connecting = Connecting {
        name: string(env, &name)?,
        connect_timeout_ms: u64::try_from(timeout_ms).unwrap_or(0),
        unreachable_after_ms: u64::try_from(unreachable_ms).unwrap_or(0),
    };
    Ok(objects::to_java(bus::connect(&string(env, &address)?, &connecting)?))
}

fn close<'local>(_env: &mut Env<'local>, _class: Class<'local>, number: jlong) -> Result<()> {
    bus::close(number.cast_unsigned())
}

fn close_later<'local>(_env: &mut Env<'local>, _class: Class<'local>, number: jlong) -> Result<()> {
    bus::close_later(number.cast_unsigned())
}

fn publisher<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    name: JString<'local>,
    first: jlong,
) -> Result<jlong> {
    let name = if name.is_null() { None } else { Some(string(env, &name)?) };
    let first = u64::try_from(first).map_err(|_| Failure::argument(format!("first publisher sequence {first}")))?;
    Ok(objects::to_java(objects::bus(bus)?.publisher(name.as_deref(), first)?))
}

fn topic<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    publisher: jlong,
    topic: JString<'local>,
) -> Result<jint> {
    let topic = string(env, &topic)?;
    Ok(objects::publisher(publisher)?.topic(&topic)?.cast_signed())
}

/// Tells the answer that was waited for.
fn tell(env: &Env<'_>, ack: Option<arioso::Ack>, answer: &JLongArray<'_>) -> Result<()> {
    let Some(ack) = ack else { return Ok(()) };
    let mut fields = [0; ROOM_BYTES_MIN];
    put_answer(&mut fields, 0, &Ok(ack));
    let mut from = Reader::new(&fields[16..]);
    let facts = [from.i64()?, from.i64()?, from.i64()?];
    Ok(answer.set_region(env, 0, &facts)?)
}

#[expect(clippy::too_many_arguments, reason = "what crosses together costs one call")]
fn send<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    publisher: jlong,
    topic: JByteArray<'local>,
    payload: JByteArray<'local>,
    offset: jint,
    count: jint,
    extras: JByteArray<'local>,
    level_number: jint,
    token: jlong,
    answer: JLongArray<'local>,
) -> Result<()> {
    let publisher = objects::publisher(publisher)?;
    let (topic, extras) = (bytes(env, &topic)?, bytes(env, &extras)?);
    let payload = region(env, &payload, offset, count)?;
    let topic = text("a topic", &topic)?;
    let extras = Extras::read(&extras)?;
    let ack = publisher.send(topic, &payload, &extras, level(level_number), token.cast_unsigned())?;
    tell(env, ack, &answer)
}

#[expect(clippy::too_many_arguments, reason = "what crosses together costs one call")]
fn send_block<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    publisher: jlong,
    mut block: JByteBuffer<'local>,
    count: jint,
    atomic: jboolean,
    level_number: jint,
    token: jlong,
    answer: JLongArray<'local>,
) -> Result<()> {
    let publisher = objects::publisher(publisher)?;
    let all: &[u8] = direct(env, &mut block)?;
    let block = usize::try_from(count).ok().and_then(|count| all.get(..count));
    let block = block.ok_or_else(|| Failure::argument(format!("{count} bytes of a buffer of {}", all.len())))?;
    let (level, token) = (level(level_number), token.cast_unsigned());
    let ack =
        if atomic { publisher.send_atomic(block, level, token)? } else { publisher.send_block(block, level, token)? };
    tell(env, ack, &answer)
}

fn flush<'local>(_env: &mut Env<'local>, _class: Class<'local>, publisher: jlong) -> Result<()> {
    objects::publisher(publisher)?.flush()
}

fn answers<'local>(_env: &mut Env<'local>, _class: Class<'local>, bus: jlong) -> Result<jlong> {
    let answers = objects::bus(bus)?.answers().clone();
    Ok(objects::to_java(objects::keep(objects::Object::Answers(answers))))
}

/// Bytes of answers in the buffer; -1 when there are none any more, and the number is forgotten.
fn next_answers<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    answers: jlong,
    mut buffer: JByteBuffer<'local>,
) -> Result<jint> {
    let number = answers.cast_unsigned();
    let answers = objects::answers(answers)?;
    let out = direct(env, &mut buffer)?;
    if out.len() < ROOM_BYTES_MIN {
        return Err(Failure::argument(format!("a buffer of {} bytes, want {ROOM_BYTES_MIN}", out.len())));
    }
    let Some(written) = answers.next(out) else {
        objects::forget(number);
        return Ok(-1);
    };
    jint::try_from(written).map_err(|_| Failure::argument("a buffer over 2 GiB"))
}

/// Strings behind their lengths.
fn strings(bytes: &[u8]) -> Result<Vec<String>> {
    let mut from = Reader::new(bytes);
    let mut strings = Vec::new();
    while !from.is_empty() {
        strings.push(text("an argument", from.part()?)?.to_string());
    }
    Ok(strings)
}

/// `begin u8, value i64 │ until end u8 │ credit i64 │ cursor │ filter …`
fn wanted(bytes: &[u8]) -> Result<(Subscribe, Vec<String>)> {
    let mut from = Reader::new(bytes);
    let (kind, value) = (from.u8()?, from.i64()?);
    let begin = match kind {
        0 => Begin::Start,
        1 => Begin::Live,
        2 => Begin::Sequence(Sequence(value.cast_unsigned())),
        3 => Begin::Time(value),
        4 => Begin::Last,
        _ => return Err(Failure::argument(format!("begin of kind {kind}"))),
    };
    let (until_end, credit) = (from.u8()? != 0, from.i64()?);
    let cursor = text("a cursor's name", from.part()?)?.to_string();
    let mut filters = Vec::new();
    while !from.is_empty() {
        filters.push(text("a filter", from.part()?)?.to_string());
    }
    let mut subscribe = Subscribe::new(filters.iter().map(String::as_str)).from(begin).cursor(cursor.as_str());
    subscribe.until_end = until_end;
    if credit > 0 {
        subscribe = subscribe.credit(credit.cast_unsigned());
    }
    Ok((subscribe, filters))
}

fn subscribe<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    asked: JByteArray<'local>,
) -> Result<jlong> {
    let (subscribe, _) = wanted(&bytes(env, &asked)?)?;
    Ok(objects::to_java(objects::bus(bus)?.subscribe(subscribe)?))
}

fn starts_at<'local>(_env: &mut Env<'local>, _class: Class<'local>, subscription: jlong) -> Result<jlong> {
    Ok(objects::subscription(subscription)?.starts_at().0.cast_signed())
}

/// 1: records, facts are bytes, count, through. 0: the end. 2: the buffer is too small, facts are the bytes wanted.
fn next<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    subscription: jlong,
    mut buffer: JByteBuffer<'local>,
    facts: JLongArray<'local>,
) -> Result<jint> {
    let subscription = objects::subscription(subscription)?;
    let (kind, told) = match subscription.next(direct(env, &mut buffer)?)? {
        Next::Records { bytes, count, through } => (1, [bytes as u64, count, through.0]),
        Next::Wants { bytes } => (2, [bytes as u64, 0, 0]),
        Next::End => (0, [0; 3]),
    };
    facts.set_region(env, 0, &told.map(u64::cast_signed))?;
    Ok(kind)
}

fn topic_name<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    subscription: jlong,
    id: jint,
) -> Result<JString<'local>> {
    let name = objects::subscription(subscription)?.topic(id.cast_unsigned())?;
    Ok(env.new_string(name)?)
}

fn go_on<'local>(_env: &mut Env<'local>, _class: Class<'local>, subscription: jlong, begin: jlong) -> Result<jboolean> {
    objects::subscription(subscription)?.go_on(Sequence(begin.cast_unsigned()))
}

fn commit<'local>(_env: &mut Env<'local>, _class: Class<'local>, subscription: jlong, next: jlong) -> Result<()> {
    objects::subscription(subscription)?.commit(Sequence(next.cast_unsigned()))
}

fn topics<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    filter: JString<'local>,
    after: JString<'local>,
) -> Result<JByteArray<'local>> {
    let bus = objects::bus(bus)?;
    let rows = listing::topics(&*bus.enter()?, &string(env, &filter)?, &string(env, &after)?)?;
    Ok(env.byte_array_from_slice(&rows)?)
}

fn publishers<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    after: JString<'local>,
) -> Result<JByteArray<'local>> {
    let bus = objects::bus(bus)?;
    let rows = listing::publishers(&*bus.enter()?, &string(env, &after)?)?;
    Ok(env.byte_array_from_slice(&rows)?)
}

fn cursors<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    after: JString<'local>,
) -> Result<JByteArray<'local>> {
    let bus = objects::bus(bus)?;
    let rows = listing::cursors(&*bus.enter()?, &string(env, &after)?)?;
    Ok(env.byte_array_from_slice(&rows)?)
}

fn explain<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    asked: JByteArray<'local>,
) -> Result<JByteArray<'local>> {
    let (subscribe, filters) = wanted(&bytes(env, &asked)?)?;
    let bus = objects::bus(bus)?;
    let row = listing::explain(&*bus.enter()?, subscribe.begin, &filters)?;
    Ok(env.byte_array_from_slice(&row)?)
}

fn status<'local>(env: &mut Env<'local>, _class: Class<'local>, bus: jlong) -> Result<JByteArray<'local>> {
    let bus = objects::bus(bus)?;
    let row = listing::status(&*bus.enter()?)?;
    Ok(env.byte_array_from_slice(&row)?)
}

fn drop_publisher<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    name: JString<'local>,
) -> Result<()> {
    listing::drop_publisher(&*objects::bus(bus)?.enter()?, &string(env, &name)?)
}

fn set_cursor<'local>(
    env: &mut Env<'local>,
    _class: Class<'local>,
    bus: jlong,
    name: JString<'local>,
    next: jlong,
    filters: JByteArray<'local>,
) -> Result<()> {
    let filters = strings(&bytes(env, &filters)?)?;
    let next = Sequence(next.cast_unsigned());
    listing::set_cursor(&*objects::bus(bus)?.enter()?, &string(env, &name)?, next, &filters)
}

fn drop_cursor<'local>(env: &mut Env<'local>, _class: Class<'local>, bus: jlong, name: JString<'local>) -> Result<()> {
    listing::drop_cursor(&*objects::bus(bus)?.enter()?, &string(env, &name)?)
}
