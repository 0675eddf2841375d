//! `-o table`: for people.

use super::{Printer, events::Event};
use crate::{
    failure::Failure,
    output,
    server_table::table,
    style::Style,
    text::{count, escaped, time_of_day},
};

#[derive(Debug)]
pub(crate) struct Table {
    out: Style,
    err: Style,
}

impl Table {
    pub(crate) fn new(out: Style, err: Style) -> Self {
        Self { out, err }
    }
}

impl Printer for Table {
    fn print(&mut self, event: Event<'_>) -> Result<(), Failure> {
        match event {
            Event::Serving { directory, listen, rest, csds, resources } => {
                let directory = escaped(&directory.display().to_string());
                let rest = rest.map(|at| format!(", REST-JSON on {at}")).unwrap_or_default();
                let csds = csds.map(|at| format!(", CSDS on {at}")).unwrap_or_default();
                output::print(&format!("serving {directory} on {listen}{rest}{csds}"))?;
                self.say(&count(resources as u64, "resource"))
            }
            Event::FileError(error) => {
                let kept = match error.kept {
                    0 => "nothing of it is served".to_owned(),
                    kept => {
                        format!("its last good state stays: {}", count(kept as u64, "resource"))
                    }
                };
                let (error, reason) = (self.err.bad("error"), escaped(&error.error));
                output::complain(&format!(
                    "{error}: {reason}
       {kept}"
                ));
                Ok(())
            }
            Event::Dangling(finding) => {
                output::complain(&finding.line("warning", |it| self.err.notable(it).to_string()));
                Ok(())
            }
            Event::Refused { refused, resources } => {
                let (error, dangling) = (self.err.bad("error"), refused.dangling as u64);
                let dangling = count(dangling, "reference");
                let stays = match resources {
                    0 => "no clients are taken before".to_owned(),
                    _ => format!("what is served stays: {}", count(resources as u64, "resource")),
                };
                output::complain(&format!(
                    "{error}: {dangling} would lead nowhere\n       {stays}"
                ));
                Ok(())
            }
            Event::Reloaded { resources, applied } => self.say(&format!(
                "reloaded: {} changed, {} removed, {}",
                applied.changed,
                applied.removed,
                count(resources as u64, "resource")
            )),
            Event::Status([]) => self.say("no clients"),
            Event::Status(rows) => {
                let streams = rows.chunk_by(|a, b| a.stream == b.stream).count();
                self.say(&count(streams as u64, "stream"))?;
                output::print(&table(rows, self.out))
            }
        }
    }
}

impl Table {
    fn say(&self, text: &str) -> Result<(), Failure> {
        output::print(&format!("{} {text}", self.out.quiet(time_of_day())))
    }
}
