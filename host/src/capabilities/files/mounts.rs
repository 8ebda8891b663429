//! The host's own folders under other names: mounted a second time, at or below a granted folder. Pure, but for the reading of
//! the kernel's list.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// File systems that are no files.
const KERNELS: [&str; 15] = [
    "proc",
    "sysfs",
    "debugfs",
    "tracefs",
    "securityfs",
    "selinuxfs",
    "cgroup",
    "cgroup2",
    "bpf",
    "configfs",
    "efivarfs",
    "nsfs",
    "fusectl",
    "binfmt_misc",
    "pstore",
];

/// One line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: String,
    /// The folder of the device that is mounted.
    root: PathBuf,
    at: PathBuf,
    kind: String,
}

/// Where something is on its device, by whatever mount it is reached.
type Place = (String, PathBuf);

/// Looks for what is mounted at or below `folder`, which has no links.
///
/// # Errors
/// It shows something of `own`, or what is no files.
pub(super) fn check(folder: &Path, own: &[PathBuf]) -> Result<(), String> {
    // Without the list, names and identities were looked at all the same.
    let Ok(list) = fs::read_to_string("/proc/self/mountinfo") else { return Ok(()) };
    let own: Vec<PathBuf> = own.iter().map(|path| placed(path)).collect();
    overlap(&parse(&list), folder, &own)
}

/// `path` without links, as far as it is there.
fn placed(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute
        .ancestors()
        .find_map(|above| Some(fs::canonicalize(above).ok()?.join(absolute.strip_prefix(above).ok()?)));
    real.unwrap_or(absolute)
}

fn overlap(mounts: &[Mount], folder: &Path, own: &[PathBuf]) -> Result<(), String> {
    let below = |mount: &&Mount| mount.at.starts_with(folder) && mount.at != folder;
    if let Some(mount) = mounts.iter().filter(below).find(|mount| KERNELS.contains(&mount.kind.as_str())) {
        return Err(format!("{} is mounted in it, which has no files but is the kernel's own", mount.kind));
    }
    let shown = mounts.iter().filter(below).map(|mount| (mount.device.clone(), mount.root.clone()));
    let shown: Vec<Place> = place(mounts, folder).into_iter().chain(shown).collect();
    let same = |a: &Place, b: &Place| a.0 == b.0 && (a.1.starts_with(&b.1) || b.1.starts_with(&a.1));
    for path in own {
        if let Some(place) = place(mounts, path)
            && shown.iter().any(|shown| same(shown, &place))
        {
            return Err("it shows a folder of the host itself, mounted there a second time".to_owned());
        }
    }
    Ok(())
}

fn place(mounts: &[Mount], path: &Path) -> Option<Place> {
    // Of several at one place, the last hides the others.
    let mount = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.components().count())?;
    let below = path.strip_prefix(&mount.at).ok()?;
    Some((mount.device.clone(), mount.root.join(below)))
}

fn parse(list: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(2);
        let (device, root, at) = (fields.next()?, fields.next()?, fields.next()?);
        let kind = after.split(' ').next()?.to_owned();
        Some(Mount { device: device.to_owned(), root: unescaped(root), at: unescaped(at), kind })
    };
    list.lines().filter_map(mount).collect()
}

/// Spaces and the like are in octal.
fn unescaped(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let number = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        match number {
            Some(byte) => {
                out.push(byte);
                rest = &rest[4..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
23 21 8:2 / /var rw - ext4 /dev/sda2 rw
24 21 8:2 /lib/layby/keys /srv/odd\\040name rw - ext4 /dev/sda2 rw
25 21 8:2 /lib /srv/lib rw - ext4 /dev/sda2 rw
26 21 0:5 / /srv/jail/proc rw - proc proc rw
27 21 8:3 / /srv/disk rw - ext4 /dev/sdb rw
28 21 8:1 /srv/fine /mnt/fine rw shared:1 - ext4 /dev/sda1 rw
";

    fn given(folder: &str) -> Result<(), String> {
        overlap(&parse(LIST), Path::new(folder), &["/var/lib/layby".into(), "/etc/layby.toml".into()])
    }

    #[test]
    fn what_is_mounted_twice_is_known() {
        for folder in [
            "/srv/odd name",
            "/srv/lib",
            "/srv/lib/layby",
            "/srv/lib/layby/keys/x",
            "/srv",
            "/var/lib/layby",
            "/var/lib/layby/keys",
            "/var",
            "/etc",
            "/",
            "/srv/jail",
            "/srv/jail/",
        ] {
            assert!(given(folder).is_err(), "{folder}");
        }
        for folder in
            ["/srv/lib/other", "/srv/disk", "/srv/disk/x", "/mnt/fine", "/var/log", "/home", "/srv/odd"]
        {
            assert_eq!(given(folder), Ok(()), "{folder}");
        }
    }
}
