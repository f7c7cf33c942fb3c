//! The native library under `io.arioso:arioso`: the facade behind functions that Java can call.
//!
//! ```text
//! Java thread ──▶ entries: arguments, panics ──▶ objects: number → Arc ──▶ bus, publishing, subscribing ──▶ facade
//!                                                                              │ receipts
//! Java's one answering thread of a bus ◀── many answers in one buffer ◀── answers
//! ```
//!
//! Java never holds a pointer: it holds numbers, which are looked up and never used twice. A number whose object is closed
//! gives the error `closed`. No thread of Rust is ever attached to the JVM: Java's threads come here and wait.

mod answers;
mod bus;
mod entries;
mod failure;
mod fields;
mod listing;
mod objects;
mod publishing;
mod subscribing;
mod wait;
