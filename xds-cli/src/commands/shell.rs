//! `xds completions` and `xds man`: files for shells and manuals, generated from the arguments.

use std::{fs, path::Path};

use clap::{Command, CommandFactory as _};

use crate::{
    args::{Cli, CompletionsArgs, ManArgs},
    failure::Failure,
    output,
    text::{count, escaped},
};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "xds", &mut script);
    output::print_bytes(script)
}

pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    match &args.directory {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command().disable_help_subcommand(true))
                .render(&mut page)
                .map_err(Failure::Output)?;
            output::print_bytes(titled(&page))
        }
        Some(directory) => {
            let mut above = directory.ancestors().filter(|it| it.exists());
            if let Some(file) = above.next().filter(|it| !it.is_dir()) {
                return Err(Failure::Usage(format!(
                    "{} is not a directory: name the directory for the pages, such as \
                     /usr/local/share/man/man1",
                    escaped(&file.display().to_string())
                )));
            }
            let pages = write_pages(directory)
                .map_err(|why| Failure::Artifact { file: directory.clone(), why })?;
            output::print(&format!(
                "written: {} to {}",
                count(pages, "manual page"),
                directory.display()
            ))
        }
    }
}

/// Writes a page for each command, and returns their number.
fn write_pages(directory: &Path) -> std::io::Result<u64> {
    let command = Cli::command();
    let pages = pages_of(&command);
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)?;
    for page in fs::read_dir(directory)? {
        let path = page?.path();
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        // The directory may contain pages of other programs.
        if name == "xds.1" || (name.starts_with("xds-") && name.ends_with(".1")) {
            fs::write(&path, titled(&fs::read(&path)?))?;
        }
    }
    Ok(pages)
}

/// Names the section with the exit codes as manual pages do.
fn titled(page: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(page).replace(".SH EXTRA\n", ".SH \"EXIT STATUS\"\n").into_bytes()
}

fn pages_of(command: &Command) -> u64 {
    1 + command.get_subcommands().map(pages_of).sum::<u64>()
}
