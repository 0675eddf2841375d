//! What a trace looks like in each of its forms.

mod browser;
mod example;
mod failure;
mod forms;
