//! Output of the demo, with pauses for reading.

use core::time::Duration;
use std::io::{self, IsTerminal as _};

use clap::ColorChoice;
use tokio::time::sleep;

use crate::{
    failure::Failure,
    output::{self, Layout},
    style::Style,
};

#[derive(Debug)]
pub(crate) struct Narrator {
    pub(crate) style: Style,
    /// Pause between two steps; zero if standard output is not a terminal.
    pause: Duration,
    steps: usize,
}

const PAUSE: Duration = Duration::from_millis(1_200);

impl Narrator {
    pub(crate) fn new(color: ColorChoice) -> Self {
        let stdout = io::stdout();
        let pause = if stdout.is_terminal() { PAUSE } else { Duration::ZERO };
        Self { style: Style::of(color, &stdout), pause, steps: 0 }
    }

    /// Begins a step with a description.
    pub(crate) async fn step(&mut self, text: &str) -> Result<(), Failure> {
        if self.steps > 0 {
            sleep(self.pause).await;
        }
        self.steps += 1;
        let text = format!("{}. {}", self.steps, text.replace('\n', "\n   "));
        self.paragraph(&self.style.strong(text).to_string())
    }

    /// Shows an explanation and its evidence, indented below the step.
    pub(crate) fn show(&self, title: &str, evidence: &str) -> Result<(), Failure> {
        let lines = [title, evidence].into_iter().flat_map(str::lines);
        let indented: Vec<String> = lines.map(|line| format!("   {line}")).collect();
        self.paragraph(&indented.join("\n"))
    }

    pub(crate) fn paragraph(&self, text: &str) -> Result<(), Failure> {
        output::print(&format!("{}\n\n", Layout::of_stdout().fold(text)))
    }
}
