//! The bytes of an index file: numbers of variable length, and text after its length.

use layby_plugin::prelude::*;

#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The low seven bits, and the mark that more follow.
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first().ok_or_else(broken)?;
            self.0 = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken())
    }

    pub(crate) fn small(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| broken())
    }

    /// A count of things that take at least one byte each: no more than there are bytes left, so
    /// that a broken file cannot ask for all memory.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| broken())?;
        if count > self.0.len() { Err(broken()) } else { Ok(count) }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| broken())
    }
}

pub(crate) fn broken() -> Error {
    Error::failed("the index file is damaged: call index_folder to write it anew")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut writer = Writer::default();
        numbers.iter().for_each(|n| writer.number(*n));
        writer.bytes("text".as_bytes());
        let mut reader = Reader(&writer.0);
        for number in numbers {
            assert_eq!(reader.number().unwrap(), number);
        }
        assert_eq!(reader.text().unwrap(), "text");
        assert!(reader.number().is_err());
    }
}
