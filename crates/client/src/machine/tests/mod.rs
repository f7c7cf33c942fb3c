//! The state machine against a fake server that only knows the frames: what each side says, line by line.

mod publishing;
mod random;
mod requests;
mod subscribing;
mod world;
