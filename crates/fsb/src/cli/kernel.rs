//! `fsb kernel`: the kernels that micro-VMs can boot.

use std::path::Path;

use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, TableStyle};
use fsb_report::visible;
use fsb_vm::kernel::{self, Kernel};

use crate::exit;
use crate::message::{say, say_warning};
use crate::results::print;
use crate::run::kernels;
use crate::run::stage::check_cache;

const EXAMPLES: &str = "\
Examples:
  fsb kernel list                            host's and fetched kernels
  fsb kernel fetch linux-image-amd64         the newest of Debian, without root
  fsb kernel fetch linux-image-6.12-amd64    a backported one
  fsb run ext4 xfs --in vm --kernel 6.1 --kernel 6.12";

const LIST_EXAMPLES: &str = "\
Examples:
  fsb kernel list
  fsb run ext4 --in vm                           the host's, or the first usable
  fsb run ext4 --in vm --kernel 6.1              the newest 6.1
  fsb run ext4 --in vm --kernel IMAGE:DIRECTORY  an image and its modules
  fsb run ext4 --in vm --kernel ~/linux          a build tree and its modules";

const FETCH_EXAMPLES: &str = "\
Examples:
  fsb kernel fetch linux-image-amd64
  fsb kernel fetch linux-image-6.1.0-50-amd64
  fsb kernel fetch ./linux-image-6.12.117_amd64.deb";

/// List or fetch the kernels that micro-VMs boot
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the kernels of this host and the fetched ones
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Fetch a kernel from a Debian package, without root
    ///
    /// Follows a metapackage to its image package and leaves out drivers for devices that no guest
    /// has. Installs nothing.
    #[command(after_help = FETCH_EXAMPLES)]
    Fetch {
        /// Name of the package for apt-get download, or path of a .deb
        #[arg(value_name = "PACKAGE")]
        package: String,
    },
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    check_cache()?;
    kernel::tidy();
    match &arguments.command {
        Command::List => list()?,
        Command::Fetch { package } => {
            let fetched =
                kernels::interruptible(|stopped| kernel::fetch(package, &mut say, stopped))?;
            print(&format!("{}\n", table(&[fetched])))?;
        }
    }
    Ok(exit::DONE)
}

fn list() -> anyhow::Result<()> {
    let kernels = kernel::list();
    if kernels.is_empty() {
        return print(
            "no kernel for a micro-VM here; fetch one: fsb kernel fetch linux-image-amd64\n",
        );
    }
    print(&format!("{}\n", table(&kernels)))?;
    for error in kernels.iter().filter_map(|kernel| kernel.usable().err()) {
        say_warning(error);
    }
    Ok(())
}

fn table(kernels: &[Kernel]) -> String {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new())
        .set_content_arrangement(ContentArrangement::Disabled)
        .force_no_tty();
    table.set_header(["release", "origin", "usable", "place"]);
    for kernel in kernels {
        let usable = if kernel.usable().is_ok() { "yes" } else { "no" };
        let row = [
            kernel.release.as_str(),
            kernel.origin.word(),
            usable,
            &place(kernel),
        ];
        table.add_row(row.map(visible::line));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the path of a kernel: the directory of both image and modules, else the image.
fn place(kernel: &Kernel) -> String {
    let (image, modules) = (&kernel.image, &kernel.modules);
    match modules.parent() {
        Some(directory) if image.parent() == Some(directory) => at_home(directory),
        _ => at_home(image),
    }
}

/// Returns `~/x` for a path in the user's home directory.
fn at_home(path: &Path) -> String {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_vm::kernel::Origin;

    #[test]
    fn a_kernel_has_one_place() {
        let kernel = |image: &str, modules: &str| Kernel {
            release: "6.1.0-56-amd64".to_owned(),
            image: image.into(),
            modules: modules.into(),
            origin: Origin::Fetched,
        };
        let home = std::env::home_dir()
            .unwrap()
            .join(".cache/fsb/kernels/6.1.0-56-amd64");
        let [image, modules] =
            ["vmlinuz", "modules"].map(|name| home.join(name).display().to_string());
        let shown = table(&[kernel(&image, &modules)]);
        assert!(
            shown
                .lines()
                .nth(1)
                .unwrap()
                .ends_with("  ~/.cache/fsb/kernels/6.1.0-56-amd64"),
            "{shown}"
        );
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
        assert_eq!(
            place(&kernel("/boot/vmlinuz-6", "/lib/modules/6")),
            "/boot/vmlinuz-6"
        );
    }
}
