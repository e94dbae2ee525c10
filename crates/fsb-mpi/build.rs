//! Compiles the calls of MPI with the compiler of the MPI library, if the feature `mpi` is on.
//! `MPICC` names it.

fn main() {
    #[cfg(feature = "mpi")]
    mpi::compile();
}

#[cfg(feature = "mpi")]
mod mpi {
    use std::process::Command;

    /// Compiles the shim with `mpicc`, and passes on the libraries that `mpicc` would link.
    pub fn compile() {
        println!("cargo::rerun-if-env-changed=MPICC");
        println!("cargo::rerun-if-changed=src/mpi.c");
        let mpicc = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
        cc::Build::new()
            .compiler(&mpicc)
            .file("src/mpi.c")
            .warnings_into_errors(true)
            .compile("fsb_mpi_calls");
        // Open MPI and MPICH both print the compiler's command line for this option.
        let shown = Command::new(&mpicc).arg("-show").output();
        let shown = shown.unwrap_or_else(|error| {
            panic!("{mpicc}: {error}; install libopenmpi-dev or libmpich-dev")
        });
        for word in String::from_utf8_lossy(&shown.stdout).split_whitespace() {
            if let Some(directory) = word.strip_prefix("-L") {
                println!("cargo::rustc-link-search=native={directory}");
            } else if let Some(library) = word.strip_prefix("-l") {
                println!("cargo::rustc-link-lib={library}");
            } else if word.starts_with("-Wl,") {
                println!("cargo::rustc-link-arg-bins={word}");
            }
        }
    }
}
