//! Tests of the output formats of a trace.

mod browser;
mod example;
mod failure;
mod forms;
