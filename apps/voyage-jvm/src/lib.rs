//! The native library under `io.arioso:voyage`: the path finder behind functions that Java can call.
//!
//! ```text
//! Java thread ──▶ entries: numbers in, numbers out, panics ──▶ finders: number → Arc ──▶ path finder
//! ```
//!
//! What crosses is plain numbers, one array an answer; Java makes its records of them. Java never holds a pointer: it
//! holds numbers, which are looked up and never used twice. No thread is started and none of Rust is attached to the JVM.

mod entries;
mod failure;
mod finders;
