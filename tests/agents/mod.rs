//! Agent brains as a whole: their loop over real protocols, `kill -9` within a run, and the executed
//! rules held against the written ones.

mod casa;
mod house;
mod judged;
mod kills;
mod lab;
mod loops;
mod strict;
