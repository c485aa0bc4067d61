//! `-u`: the process becomes another user before it reads or writes any job.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Gid, Uid, getegid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

use super::Exit;

/// Where the machine's own users are.
const PASSWD: &str = "/etc/passwd";

/// Becomes a user of this machine, and leaves all groups but its first. There is only one thread yet: those that come are
/// begun by the same user.
pub fn become_user(name: &OsStr) -> Result<(), Exit> {
    let passwd = fs::read(PASSWD).with_context(|| format!("cannot read {PASSWD}")).map_err(Exit::unknown_users)?;
    let Some((uid, gid)) = find(&passwd, name.as_bytes()) else {
        return Err(Exit::no_such_user(anyhow!("there is no user '{}' in {PASSWD}", name.display())));
    };
    change(uid, gid)
        .with_context(|| format!("cannot become the user '{}'", name.display()))
        .map_err(Exit::cannot_become)
}

fn change(uid: Uid, gid: Gid) -> Result<()> {
    if (geteuid(), getegid()) == (uid, gid) && !uid.is_root() {
        return Ok(());
    }
    set_thread_groups(&[gid])?;
    set_thread_gid(gid)?;
    set_thread_uid(uid)?;
    ensure!((geteuid(), getegid()) == (uid, gid), "the system did not do it");
    Ok(())
}

/// Finds a user and its first group: `name:password:uid:gid:…` in a line.
fn find(passwd: &[u8], name: &[u8]) -> Option<(Uid, Gid)> {
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u32>().ok().filter(|&id| id != u32::MAX);
    passwd.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        if name.is_empty() || fields.next() != Some(name) {
            return None;
        }
        let (uid, gid) = (fields.nth(1)?, fields.next()?);
        Some((Uid::from_raw(number(uid)?), Gid::from_raw(number(gid)?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd =
            b"root:x:0:0:root:/root:/bin/sh\nbean:x:12:34::/:/bin/false\n\nbad:x:y:1::/:\nmax:x:4294967295:1:\n";
        let found = |name: &[u8]| find(passwd, name).map(|(uid, gid)| (uid.as_raw(), gid.as_raw()));
        assert_eq!(found(b"root"), Some((0, 0)));
        assert_eq!(found(b"bean"), Some((12, 34)));
        for name in ["", "bea", "beans", "x", "bad", "max", "bean:x"] {
            assert_eq!(found(name.as_bytes()), None, "{name}");
        }
    }
}
