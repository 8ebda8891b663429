//! Keeps the documentation of the WIT: the tools that make a component drop it.

use std::{env, error::Error, fs, path::Path};

use wit_parser::{PackageMetadata, Resolve};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=wit");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir("wit")?;
    let section = PackageMetadata::extract(&resolve, package).encode()?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("package-docs"), section)?;
    Ok(())
}
