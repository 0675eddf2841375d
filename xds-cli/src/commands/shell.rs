//! `xds completions` and `xds man`: files for shells and manuals, generated from the arguments.

use std::{fs, path::Path};

use clap::CommandFactory as _;

use crate::{
    args::{Cli, CompletionsArgs, ManArgs},
    failure::Failure,
    output,
};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "xds", &mut script);
    output::print_bytes(&script)
}

pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    match &args.directory {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command().disable_help_subcommand(true))
                .render(&mut page)
                .map_err(Failure::Output)?;
            output::print_bytes(&page)
        }
        Some(directory) => {
            write_pages(directory).map_err(|why| Failure::Artifact { file: directory.clone(), why })
        }
    }
}

fn write_pages(directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}
