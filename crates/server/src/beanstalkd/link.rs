//! `jobyard beanstalkd --link`: a name under which this binary is beanstalkd.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::NAME;

/// Makes the link in a directory that is there. Says what was done.
pub fn link(directory: &Path) -> Result<String> {
    let binary = std::env::current_exe().and_then(fs::canonicalize).context("cannot find this program's own file")?;
    link_to(&binary, &directory.join(NAME))
}

fn link_to(binary: &Path, path: &Path) -> Result<String> {
    let (shown, said) = (path.display(), binary.display());
    match fs::read_link(path) {
        Ok(target) if target == binary => return Ok(format!("{shown} is a link to {said} already")),
        // One that was made for another copy of this program.
        Ok(target) if target.file_name() == binary.file_name() => {
            replace(binary, path).with_context(|| format!("cannot replace {shown}"))?;
            return Ok(format!("{shown} was a link to {}, and is one to {said} now", target.display()));
        }
        Ok(target) => bail!("{shown} is there, and a link to {}: remove it first", target.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        // Linux says so of what is no link.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            bail!("{shown} is there, and is no link: remove it first")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot look at {shown}")),
    }
    symlink(binary, path).with_context(|| format!("cannot make {shown}"))?;
    Ok(format!("{shown} is a link to {said} now: started under that name it takes beanstalkd's options"))
}

/// At every moment one of the two is there.
fn replace(binary: &Path, path: &Path) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    symlink(binary, &new)?;
    fs::rename(&new, path).inspect_err(|_| _ = fs::remove_file(&new))?;
    Ok(())
}
