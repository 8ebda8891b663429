//! Files that a person names: read whole, and only where they are regular and no larger than they may be. Folders that
//! are the host's own.

use std::{
    fs::{DirBuilder, File},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use super::ByteSize;

/// What a UTF-8 file of some editors begins with. It means nothing.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The bytes of `path`, at most `most` of them.
///
/// # Errors
/// It cannot be read, is larger, or is not regular: a pipe or device may have no end.
pub fn read_file(path: &Path, most: ByteSize) -> io::Result<Vec<u8>> {
    // Not blocking: opening a pipe would wait for somebody to write into it.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_bounded(file, most)
}

/// Makes `path` with mode 0700, and what is missing above it; one that is there stays as it is.
///
/// # Errors
/// It cannot be made.
pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// All of `from`, at most `most` bytes.
///
/// # Errors
/// It cannot be read, or has more.
pub fn read_bounded(from: impl Read, most: ByteSize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.0.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most.0 {
        return Err(io::Error::other(format!("it is larger than {most}")));
    }
    Ok(bytes)
}

/// `bytes` as text, without a byte order mark.
///
/// # Errors
/// They are not UTF-8.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    let mut text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8 text (byte {at})"))
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_regular_files_within_the_bound_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_file(&path, ByteSize(5)).unwrap(), b"12345");
        let why = |path: &Path| read_file(path, ByteSize(4)).unwrap_err().to_string();
        assert!(why(&path).contains("larger than 4B"), "{}", why(&path));
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for other in [&pipe, folder.path(), Path::new("/dev/zero")] {
            assert!(why(other).contains("not a regular file"), "{}", why(other));
        }
        assert!(why(&folder.path().join("none")).contains("No such file"));
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        assert_eq!(text_of(b"\xef\xbb\xbf{}".to_vec()).unwrap(), "{}");
        assert!(text_of(vec![b'a', 0xff]).unwrap_err().to_string().contains("byte 1"));
    }
}
